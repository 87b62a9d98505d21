package trail

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/gatewright/gatewright/shared/core/audit/proof"
	"github.com/gatewright/gatewright/shared/core/store"
)

// Export writes an account's chain as JSON lines, without the records that are not
// chained yet. It does not export a broken chain: its Report describes the break.
func (t *Trail) Export(ctx context.Context, accountID, name string, out io.Writer) (proof.Report, error) {
	r, err := t.Verify(ctx, accountID, proof.Commitment{})
	if err != nil || r.Break != "" {
		return r, err
	}
	public, err := t.PublicKey(ctx)
	if err != nil {
		return proof.Report{}, err
	}
	keys := make([]store.Key, r.Records())
	if err := t.visitLinks(ctx, public, accountID, func(k store.Key, s proof.CheckedLink) {
		if s.Seq >= r.First && s.Seq <= r.Last {
			keys[s.Seq-r.First] = k
		}
	}); err != nil {
		return proof.Report{}, err
	}
	h := proof.Header{Account: accountID, Name: name, ExportedOn: store.Instant(t.now()), First: r.First, Last: r.Last}
	if r.First > 0 {
		h.Hash = r.End.Hash
	}
	key, err := t.signer.key(ctx)
	if err != nil {
		return proof.Report{}, err
	}
	return r, proof.WriteFile(out, h.Signed(key), t.linksOf(ctx, keys))
}

// linksOf returns a function that returns the links with these keys, one after the other. It ignores its argument.
func (t *Trail) linksOf(ctx context.Context, keys []store.Key) func(int64) (proof.Link, error) {
	var links []Link
	return func(int64) (proof.Link, error) {
		if len(links) == 0 {
			batch := keys[:min(len(keys), store.MaxKeys)]
			keys = keys[len(batch):]
			links = make([]Link, len(batch))
			requests := make([]*store.ReadRequest, len(batch))
			for i, key := range batch {
				requests[i] = store.Get(key, &links[i])
			}
			if err := t.table.Load(ctx, requests...); err != nil {
				return proof.Link{}, fmt.Errorf("read an audit chain: %w", err)
			}
			for _, w := range requests {
				if !w.Found {
					return proof.Link{}, errors.New("records have expired or were removed during the export: repeat it")
				}
			}
		}
		l := links[0].toProof()
		links = links[1:]
		return l, nil
	}
}

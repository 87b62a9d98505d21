package trail

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/gatewright/gatewright/shared/audit/proof"
	"github.com/gatewright/gatewright/shared/store"
)

// Export writes an account's chain as JSON lines. Records that are not chained yet
// are not in it. A chain that is broken is not exported: its Report says where.
func (t *Trail) Export(ctx context.Context, accountID, name string, out io.Writer) (proof.Report, error) {
	r, err := t.Verify(ctx, accountID, proof.Commitment{})
	if err != nil || r.Break != "" {
		return r, err
	}
	public, err := t.PublicKey(ctx)
	if err != nil {
		return proof.Report{}, err
	}
	places := make([]store.Key, r.Records())
	if err := t.each(ctx, public, accountID, func(k store.Key, s proof.Step) {
		if s.Seq >= r.First && s.Seq <= r.Last {
			places[s.Seq-r.First] = k
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
	return r, proof.WriteFile(out, h.Signed(key), t.linksOf(ctx, places))
}

// linksOf reads the links at some places, one after the other.
func (t *Trail) linksOf(ctx context.Context, places []store.Key) func(int64) (proof.Link, error) {
	var links []Link
	return func(int64) (proof.Link, error) {
		if len(links) == 0 {
			batch := places[:min(len(places), store.MaxKeys)]
			places = places[len(batch):]
			links = make([]Link, len(batch))
			wanted := make([]*store.Wanted, len(batch))
			for i, key := range batch {
				wanted[i] = store.Want(key, &links[i])
			}
			if err := t.table.Load(ctx, wanted...); err != nil {
				return proof.Link{}, fmt.Errorf("read an audit chain: %w", err)
			}
			for _, w := range wanted {
				if !w.Found {
					return proof.Link{}, errors.New("records have expired or were removed during the export: repeat it")
				}
			}
		}
		l := links[0].proved()
		links = links[1:]
		return l, nil
	}
}

package trail

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/gatewright/gatewright/shared/store"
)

// Header is the first line of an export. The others are Links, one a line, in the
// order of the chain.
type Header struct {
	// Account is the account's id, Name its name, "" in exports of releases that wrote
	// none.
	Account string `json:"account"`
	Name    string `json:"name,omitempty"`
	// ExportedOn is when it was written: what had expired by then is not in it.
	ExportedOn time.Time `json:"exportedOn"`
	// First and Last are the numbers of the first and the last record, Hash is the
	// hash of the last one; 0 and "" where there is none.
	First int64  `json:"first"`
	Last  int64  `json:"last"`
	Hash  string `json:"hash"`
	// PublicKey is what verifies it. It is trusted only where it was known before.
	PublicKey string `json:"publicKey"`
	// Signature is over all of the above.
	Signature string `json:"signature"`
}

// claim is what the signature of a header is over, beside account and end.
func (h Header) claim() string {
	claim := fmt.Sprintf("%d %q %d", h.First, h.Hash, h.ExportedOn.UnixMilli())
	if h.Name != "" {
		claim += fmt.Sprintf(" %q", h.Name)
	}
	return claim
}

// is reports whether the export is that of an account, by its id or name.
func (h Header) is(account string) bool {
	return account == h.Account || account == h.Name && h.Name != ""
}

// Export writes an account's chain as JSON lines. Records that are not chained yet
// are not in it. A chain that is broken is not exported: its Report says where.
func (t *Trail) Export(ctx context.Context, accountID, name string, out io.Writer) (Report, error) {
	type place struct {
		seq int64
		key store.Key
	}
	r, err := t.Verify(ctx, accountID, Commitment{})
	if err != nil || r.Break != "" {
		return r, err
	}
	public, err := t.PublicKey(ctx)
	if err != nil {
		return Report{}, err
	}
	var places []place
	if err := t.each(ctx, public, accountID, func(k store.Key, s step) {
		if s.seq >= r.First && s.seq <= r.Last {
			places = append(places, place{s.seq, k})
		}
	}); err != nil {
		return Report{}, err
	}
	slices.SortFunc(places, func(a, b place) int { return int(a.seq - b.seq) })
	h := Header{Account: accountID, Name: name, ExportedOn: store.Instant(t.now()), First: r.First, Last: r.Last, PublicKey: public.String()}
	if r.First > 0 {
		h.Hash = r.End.Hash
	}
	key, err := t.signer.key(ctx)
	if err != nil {
		return Report{}, err
	}
	h.Signature = sign(key, asExport, accountID, h.Last, h.claim())
	lines := json.NewEncoder(out)
	if err := lines.Encode(h); err != nil {
		return Report{}, fmt.Errorf("write an export: %w", err)
	}
	for batch := range slices.Chunk(places, store.MaxKeys) {
		links, wanted := make([]Link, len(batch)), make([]*store.Wanted, len(batch))
		for i, p := range batch {
			wanted[i] = store.Want(p.key, &links[i])
		}
		if err := t.table.Load(ctx, wanted...); err != nil {
			return Report{}, fmt.Errorf("read an audit chain: %w", err)
		}
		for i, l := range links {
			if !wanted[i].Found {
				return Report{}, errors.New("records have expired or were removed during the export: repeat it")
			}
			if err := lines.Encode(l); err != nil {
				return Report{}, fmt.Errorf("write an export: %w", err)
			}
		}
	}
	return r, nil
}

// maxLineBytes bounds a line of an export: no item of the table is as large.
const maxLineBytes = 1 << 20

// written reports whether a line is what Export has written for a value, byte for
// byte: a field twice or with other capitals, or one more than there are, is read in
// another way by another reader.
func written(line []byte, v any) bool {
	want, err := json.Marshal(v)
	return err == nil && bytes.Equal(line, want)
}

// VerifyExport goes along the chain of an export. key is the installation's, account
// the id or the name of the account that it has to be of. The error says that it
// could not be read; what is wrong with it is the Report's Break.
func VerifyExport(in io.Reader, key PublicKey, account string, noted Commitment) (Report, error) {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLineBytes)
	var h Header
	if !lines.Scan() || json.Unmarshal(lines.Bytes(), &h) != nil || h.Signature == "" {
		return Report{}, errors.New("this is no export of an audit log: its first line is none that `audit export` writes")
	}
	v := &verifier{now: h.ExportedOn, committed: noted}
	switch h.ExportedOn = store.Instant(h.ExportedOn); { // which is what is signed of it
	case !key.holds(asExport, h.Account, h.Last, h.claim(), h.Signature) || h.PublicKey != key.String() || !written(lines.Bytes(), h):
		v.Break = "the first line was altered, or is of another installation: its signature does not hold"
	case h.Name == "" && !h.is(account):
		return Report{}, fmt.Errorf("this export was written without its account's name: name the account by its id, if it is %s", h.Account)
	case !h.is(account):
		return Report{}, errors.New("this is the export of another account's audit log")
	}
	for number := 2; lines.Scan(); number++ {
		var l Link
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil || !written(lines.Bytes(), l) {
			v.broken(v.Last+1, "was altered: line %d is none that `audit export` writes", number)
			break
		}
		if v.First == 0 && l.Seq > h.First {
			v.broken(h.First, "was removed, as was all up to record %d", l.Seq-1)
		}
		v.add(key.step(h.Account, l))
	}
	if err := lines.Err(); err != nil {
		return Report{}, fmt.Errorf("read an export: %w", err)
	}
	return v.end(head{Seq: h.Last, Hash: h.Hash, TTL: h.ExportedOn.Unix() + 1}), nil
}

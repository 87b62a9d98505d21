package trail

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/audit/proof"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/store"
)

// Section is a part of an account's chain, in no order that means anything: who has
// all of them writes the file by proof.WriteFile.
type Section struct {
	Links []proof.Link
	// Next is where the next section begins, "" with the last one. It is ours to read, and
	// has to come back as it is: Header is made of it.
	Next string
	// Header is the first line of the file, with the last section alone.
	Header *proof.Header
}

// progress is how far an export has come.
type progress struct {
	// End is the chain's end as the export began at On, and Expires when its last record does, in seconds since 1970: what is
	// chained later is not in the export.
	End     proof.Commitment `json:"end"`
	Expires int64            `json:"expires"`
	On      time.Time        `json:"on"`
	// First is the lowest number that was read, 0 for none, Before when the record in front of that one expires, and
	// Read how many records were read.
	First  int64 `json:"first"`
	Before int64 `json:"before"`
	Read   int64 `json:"read"`
	// Shard is the partition that is read, Behind the sort key of the last record that was.
	Shard  int    `json:"shard"`
	Behind string `json:"behind"`
}

// takes counts a link that is read.
func (p *progress) takes(l proof.Link) {
	p.Read++
	if p.First == 0 || l.Seq < p.First {
		p.First, p.Before = l.Seq, l.PreviousTTL
	}
}

// whole reports whether all was read that had not expired as the export began.
func (p *progress) whole() bool {
	if p.First == 0 {
		return p.Expires <= p.On.Unix()
	}
	return p.Read == p.End.Seq-p.First+1 && p.Before <= p.On.Unix()
}

// errGone is told where records are missing behind an export's back.
var errGone = fault.New(fault.Conflict, "Records have expired or were removed during the export. Begin it again, without after; if it fails again, whoever runs the installation verifies the log.")

// Section reads the part of an account's chain that begins at a Section's Next, "" for the first: at most limit records, and
// no more than fit. The links are as the table has them, which who has the file verifies; the end of the chain is
// verified here, since the header's signature says that it is.
//
// Faults: Invalid for an after that no Section has told, Conflict where the table lacks records of the chain.
func (t *Trail) Section(ctx context.Context, accountID, name, after string, limit int, fits func(proof.Link) bool) (Section, error) {
	p, err := t.resume(ctx, accountID, after)
	if err != nil {
		return Section{}, err
	}
	var s Section
	for ; p.Shard < audit.ChainedShards; p.Shard, p.Behind = p.Shard+1, "" {
		full, err := t.section(ctx, accountID, &p, func(l proof.Link) bool {
			if len(s.Links) >= limit || !fits(l) {
				return false
			}
			s.Links = append(s.Links, l)
			return true
		})
		if err != nil {
			return Section{}, err
		}
		if full {
			text, err := json.Marshal(p)
			if err != nil {
				return Section{}, fmt.Errorf("note how far an export has come: %w", err)
			}
			s.Next = string(text)
			return s, nil
		}
	}
	if !p.whole() {
		return Section{}, errGone
	}
	h := proof.Header{Account: accountID, Name: name, ExportedOn: p.On, First: p.First}
	if p.First > 0 {
		h.Last, h.Hash = p.End.Seq, p.End.Hash
	}
	key, err := t.signer.key(ctx)
	if err != nil {
		return Section{}, err
	}
	h = h.Signed(key)
	s.Header = &h
	return s, nil
}

// section reads a shard on, until take has no room for a link.
func (t *Trail) section(ctx context.Context, accountID string, p *progress, take func(proof.Link) bool) (full bool, err error) {
	q := store.Query{PK: audit.Chained(accountID, p.Shard), After: p.Behind}
	err = t.table.Each(ctx, q, func(item store.Item) (bool, error) {
		var l Link
		if err := store.Decode(item, &l); err != nil {
			return false, err
		}
		if p.End.Seq == 0 {
			return false, errGone // there was nothing when it began, as far as the table told
		}
		if l.Seq <= p.End.Seq {
			if full = !take(l.proved()); full {
				return false, nil
			}
			p.takes(l.proved())
		}
		p.Behind = store.KeyOf(item).SK
		return true, nil
	})
	if err != nil {
		return false, fmt.Errorf("read an audit chain: %w", err)
	}
	return full, nil
}

// resume gives how far an export has come, which begins with "".
func (t *Trail) resume(ctx context.Context, accountID, after string) (p progress, err error) {
	if after != "" {
		if err := json.Unmarshal([]byte(after), &p); err != nil {
			return progress{}, fault.InvalidField("after", "is of no export: give next as the answer before has it")
		}
		return p, nil
	}
	end, err := t.end(ctx, accountID)
	if err != nil {
		return progress{}, err
	}
	key, err := t.PublicKey(ctx)
	if err != nil {
		return progress{}, err
	}
	if end.Seq > 0 && !key.Holds(proof.Head, accountID, end.Seq, end.Hash, end.Signature) {
		return progress{}, fmt.Errorf("export an audit log: %w", errUnsigned)
	}
	return progress{End: proof.Commitment{Seq: end.Seq, Hash: end.Hash}, Expires: end.TTL, On: store.Instant(t.now())}, nil
}

// errUnsigned is for whoever runs the installation: clients read that something went wrong.
var errUnsigned = errors.New("what is told to be the end of the chain is not signed by this installation")

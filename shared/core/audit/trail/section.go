package trail

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/audit/proof"
	"github.com/gatewright/gatewright/shared/core/store"
)

// Section is a part of an account's audit chain. Its Links are in no particular order. A client that has all sections
// writes the export with proof.WriteFile, which needs the Links in the order of the chain.
type Section struct {
	Links []proof.Link
	// Next is the start of the next section, "" for the last one. Its format is
	// private. Clients must pass it unchanged, because the Header is derived from it.
	Next string
	// Header is the first line of the file. Only the last section has it.
	Header *proof.Header
}

// progress is the state of an export. Section.Next contains it.
type progress struct {
	// End is the end of the chain when the export began at StartedOn. Expires is when the last record
	// expires, in seconds since 1970. The export does not include records that are chained later.
	End       proof.Commitment `json:"end"`
	Expires   int64            `json:"expires"`
	StartedOn time.Time        `json:"on"`
	// First is the lowest record number that was read, 0 for none. PreviousExpires is when
	// the record before First expires. Read is the number of records that were read.
	First           int64 `json:"first"`
	PreviousExpires int64 `json:"before"`
	Read            int64 `json:"read"`
	// Shard is the shard that is being read. After is the sort key of the last record that was read in it.
	Shard int    `json:"shard"`
	After string `json:"behind"`
}

// add counts a link that was read.
func (p *progress) add(l proof.Link) {
	p.Read++
	if p.First == 0 || l.Seq < p.First {
		p.First, p.PreviousExpires = l.Seq, l.PreviousTTL
	}
}

// complete reports whether the export has read all records that had not expired when it began.
func (p *progress) complete() bool {
	if p.First == 0 {
		return p.Expires <= p.StartedOn.Unix()
	}
	return p.Read == p.End.Seq-p.First+1 && p.PreviousExpires <= p.StartedOn.Unix()
}

// errRecordsMissing is the fault if the table lacks records of the chain, for example because they
// disappeared during an export.
var errRecordsMissing = fault.New(fault.Conflict, "Records have expired or were removed during the export. Begin it "+
	"again, without after; if it fails again, whoever runs the installation verifies the log.")

// Section reads the part of an account's chain that begins at after: the Next of the previous Section, or "" for the
// first part. name is the account's name, for the header. Section returns at most limit records, and stops when fits
// returns false. It does not verify the links: clients verify them in the file. The first call verifies the end of the
// chain, because the header's signature confirms that end.
//
// Faults: Invalid for an after that cannot be decoded, Conflict if the table lacks records of the chain.
func (t *Trail) Section(
	ctx context.Context, accountID, name, after string, limit int, fits func(proof.Link) bool,
) (Section, error) {
	p, err := t.resume(ctx, accountID, after)
	if err != nil {
		return Section{}, err
	}
	var s Section
	for ; p.Shard < audit.ChainedShards; p.Shard, p.After = p.Shard+1, "" {
		full, err := t.readShard(ctx, accountID, &p, func(l proof.Link) bool {
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
	if !p.complete() {
		return Section{}, errRecordsMissing
	}
	h := proof.Header{Account: accountID, Name: name, ExportedOn: p.StartedOn, First: p.First}
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

// readShard reads the remaining records of a shard. If accept returns false, readShard stops and returns full = true.
func (t *Trail) readShard(
	ctx context.Context, accountID string, p *progress, accept func(proof.Link) bool,
) (full bool, err error) {
	q := store.Query{PK: audit.ChainedPartition(accountID, p.Shard), After: p.After}
	err = t.table.Each(ctx, q, func(item store.Item) (bool, error) {
		var l Link
		if err := store.Decode(item, &l); err != nil {
			return false, err
		}
		if p.End.Seq == 0 {
			// The table had no head when the export began, although it contains this record now.
			return false, errRecordsMissing
		}
		if l.Seq <= p.End.Seq {
			if full = !accept(l.toProof()); full {
				return false, nil
			}
			p.add(l.toProof())
		}
		p.After = store.KeyOf(item).SK
		return true, nil
	})
	if err != nil {
		return false, fmt.Errorf("read an audit chain: %w", err)
	}
	return full, nil
}

// resume returns the progress of an export from the Next of a Section. If after is "", it begins a new export.
func (t *Trail) resume(ctx context.Context, accountID, after string) (p progress, err error) {
	if after != "" {
		if err := json.Unmarshal([]byte(after), &p); err != nil {
			return progress{}, fault.InvalidField("after", "is of no export: give next as the answer before has it")
		}
		return p, nil
	}
	end, err := t.readHead(ctx, accountID)
	if err != nil {
		return progress{}, err
	}
	key, err := t.PublicKey(ctx)
	if err != nil {
		return progress{}, err
	}
	if end.Seq > 0 && !key.Verify(proof.Head, accountID, end.Seq, end.Hash, end.Signature) {
		return progress{}, fmt.Errorf("export an audit log: %w", errUnsigned)
	}
	return progress{
		End: proof.Commitment{Seq: end.Seq, Hash: end.Hash}, Expires: end.TTL,
		StartedOn: store.Instant(t.now()),
	}, nil
}

// errUnsigned is logged for the operator of the installation. Clients only see an internal error.
var errUnsigned = errors.New("what is told to be the end of the chain is not signed by this installation")

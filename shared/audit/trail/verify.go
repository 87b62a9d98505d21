package trail

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/store"
)

// Commitment is a place in a chain that was noted elsewhere, such as the end that
// an export or a line of the log told: a chain that once had it has to have it
// still. The zero value asks for nothing.
type Commitment struct {
	Seq  int64
	Hash string
}

// ParseCommitment reads what String has written.
func ParseCommitment(text string) (Commitment, error) {
	number, hash, ok := strings.Cut(text, ":")
	seq, err := strconv.ParseInt(number, 10, 64)
	if !ok || err != nil || seq < 1 || hash == "" {
		return Commitment{}, errors.New("write a record's number and its hash, such as 17:nF3…, as `audit verify` prints them")
	}
	return Commitment{seq, hash}, nil
}

func (c Commitment) String() string { return strconv.FormatInt(c.Seq, 10) + ":" + c.Hash }

// Report is what a verification has found.
type Report struct {
	// First and Last are the numbers of the oldest and the newest record that there
	// is, 0 for none; those in front of First have expired.
	First, Last int64
	// End is the end of the chain: who notes it can tell later whether the chain
	// still has it.
	End Commitment
	// Waiting is how many records are not chained yet.
	Waiting int
	// Break is what is wrong, at the first record where anything is; "" for nothing.
	Break string
}

// Records is how many there are in the chain.
func (r Report) Records() int64 {
	if r.First == 0 {
		return 0
	}
	return r.Last - r.First + 1
}

// step is what of a link matters to its neighbours, and what is wrong with itself.
type step struct {
	seq              int64
	hash, previous   string
	ttl, previousTTL int64
	wrong            string
}

func (k PublicKey) step(accountID string, l Link) step {
	s := step{l.Seq, l.Hash, l.Previous, l.TTL, l.PreviousTTL, ""}
	switch {
	case l.Hash != l.digest(accountID):
		s.wrong = "was altered: its content has another hash than it was chained with"
	case !k.holds(asRecord, accountID, l.Seq, l.Hash, l.Signature):
		s.wrong = "was altered or inserted: it is not signed by this installation"
	}
	return s
}

// verifier goes along a chain.
type verifier struct {
	Report
	now       time.Time
	committed Commitment
	last      step
}

// broken notes the first break.
func (v *verifier) broken(seq int64, format string, args ...any) {
	if v.Break == "" {
		v.Break = fmt.Sprintf("record %d ", seq) + fmt.Sprintf(format, args...)
	}
}

// add is called with the records in the order of their numbers.
func (v *verifier) add(s step) {
	switch before := v.last; {
	case s.wrong != "":
		v.broken(s.seq, "%s", s.wrong)
	case v.First == 0 && (s.seq == 1) != (s.previous == ""):
		v.broken(s.seq, "was altered: it does not say what came before it")
	case v.First == 0 && s.previousTTL > v.now.Unix():
		v.broken(s.seq-1, "was removed, and perhaps others before it: it had not expired")
	case v.First == 0:
	case s.seq == before.seq:
		v.broken(s.seq, "is there twice: one of them was inserted")
	case s.seq < before.seq:
		v.broken(s.seq, "comes behind record %d: they were reordered", before.seq)
	case s.seq > before.seq+1:
		v.broken(before.seq+1, "was removed, as was all up to record %d", s.seq-1)
	case s.previous != before.hash || s.previousTTL != before.ttl || s.ttl < before.ttl:
		v.broken(s.seq, "does not follow from the one before it: one of them was replaced")
	}
	if c := v.committed; c.Seq == s.seq && c.Hash != s.hash {
		v.broken(s.seq, "is another than the one that was noted")
	}
	if v.First == 0 {
		v.First = s.seq
	}
	v.Last, v.last, v.End = s.seq, s, Commitment{s.seq, s.hash}
}

// end is called behind the last record with where the chain has to end.
func (v *verifier) end(h head) Report {
	switch {
	case v.Last < h.Seq && (v.Last > 0 || h.TTL > v.now.Unix()):
		v.broken(v.Last+1, "was removed, as was all behind it: the chain ends with record %d", h.Seq)
	case v.Last > h.Seq:
		v.broken(h.Seq+1, "was inserted: the chain ends before it")
	case v.Last > 0 && v.last.hash != h.Hash:
		v.broken(v.Last, "is another than the chain ends with")
	}
	v.End = Commitment{h.Seq, h.Hash}
	if c := v.committed; c.Seq > h.Seq {
		v.broken(h.Seq+1, "was removed, as was all up to record %d, which was noted", c.Seq)
	}
	return v.Report
}

// Verify goes along an account's whole chain in the table. The error says that it
// could not be read; what is wrong with it is the Report's Break.
func (t *Trail) Verify(ctx context.Context, accountID string, noted Commitment) (Report, error) {
	v := &verifier{now: t.now(), committed: noted}
	key, err := t.PublicKey(ctx)
	if err != nil {
		return Report{}, err
	}
	fresh, err := audit.New(ctx, t.table, accountID)
	if err != nil {
		return Report{}, err
	}
	v.Waiting = len(fresh)
	before, err := t.end(ctx, accountID)
	if err != nil {
		return Report{}, err
	}
	var steps []step // 200 bytes for each record
	if err := t.each(ctx, key, accountID, func(_ store.Key, s step) { steps = append(steps, s) }); err != nil {
		return Report{}, err
	}
	after, err := t.end(ctx, accountID)
	if err != nil {
		return Report{}, err
	}
	slices.SortStableFunc(steps, func(a, b step) int { return cmp.Compare(a.seq, b.seq) })
	for _, s := range steps {
		if s.seq <= before.Seq || s.seq > after.Seq { // what was chained meanwhile is left for the next time
			v.add(s)
		}
	}
	if before.Seq > 0 && !key.holds(asHead, accountID, before.Seq, before.Hash, before.Signature) {
		v.broken(before.Seq, "is not the end of the chain: what says so is not signed by this installation")
	}
	return v.end(before), nil
}

// end reads the end of a chain.
func (t *Trail) end(ctx context.Context, accountID string) (h head, err error) {
	if err := t.table.Get(ctx, headKey(accountID), &h); err != nil && !errors.Is(err, store.ErrNotFound) {
		return head{}, fmt.Errorf("read the end of an audit chain: %w", err)
	}
	return h, nil
}

// each visits an account's chained records, shard by shard.
func (t *Trail) each(ctx context.Context, key PublicKey, accountID string, visit func(store.Key, step)) error {
	for shard := range audit.ChainedShards {
		err := t.table.Each(ctx, store.Query{PK: audit.Chained(accountID, shard)}, func(item store.Item) (bool, error) {
			var l Link
			unread := store.Decode(item, &l)
			s := key.step(accountID, l)
			e, err := l.entry()
			switch {
			case unread != nil:
				s.wrong = "was altered: it cannot be read"
			case s.wrong == "" && (err != nil || audit.ChainedKey(accountID, e) != store.KeyOf(item)):
				s.wrong = "was moved or copied: it stands where another record belongs"
			}
			visit(store.KeyOf(item), s)
			return true, nil
		})
		if err != nil {
			return fmt.Errorf("read an audit chain: %w", err)
		}
	}
	return nil
}

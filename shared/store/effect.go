package store

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"iter"
)

// Below is what DynamoDB does with a transaction and a page, for the backends
// that keep items themselves: package memory in trees, package embedded in files.

// Stored is an item as such a backend keeps it. Nobody changes either: a write
// makes another.
type Stored struct {
	Item Item
	// Size is the item's Size.
	Size int
}

// Effect is what one write of a transaction does to its item.
type Effect struct {
	Key Key
	// Before and After are the item before and after, nil where there is none; the
	// same for a write that changes nothing.
	Before, After *Stored
}

// Effects gives what the writes of a transaction do to the items that read
// gives, nil for none: in order, one for each. It answers *ConditionError, what
// DynamoDB refuses, or read's own error, and nothing is to be stored then. The
// transaction is charged to the meter of ctx.
func Effects(ctx context.Context, writes []Write, read func(Key) (*Stored, error)) ([]Effect, error) {
	effects, err := effectsOf(writes, read)
	var units float64
	for _, e := range effects {
		units += e.units()
	}
	ChargeCommit(ctx, 0, units)
	return effects, err
}

func effectsOf(writes []Write, read func(Key) (*Stored, error)) ([]Effect, error) {
	effects := make([]Effect, len(writes))
	var failed []int
	for i, w := range writes {
		before, err := read(w.Key)
		if err != nil {
			return nil, err
		}
		effects[i] = Effect{Key: w.Key, Before: before}
		ok, err := w.Holds(before.item())
		if err != nil {
			return nil, err
		}
		if !ok {
			failed = append(failed, i)
		}
	}
	if failed != nil {
		return nil, &ConditionError{Failed: failed}
	}
	total := 0
	for i, w := range writes {
		if err := effects[i].make(w); err != nil {
			return nil, err
		}
		if after := effects[i].After; after != nil {
			total += after.Size
		}
	}
	if total > MaxTransactionBytes {
		return nil, fmt.Errorf("store: a transaction of %d bytes, at most %d are possible", total, MaxTransactionBytes)
	}
	return effects, nil
}

func (s *Stored) item() Item {
	if s == nil {
		return nil
	}
	return s.Item
}

// make sets After.
func (e *Effect) make(w Write) error {
	if w.Kind == CheckKind {
		e.After = e.Before
		return nil
	}
	before := e.Before.item()
	after, err := w.Apply(before)
	if err != nil || after == nil {
		return err
	}
	e.After = &Stored{after, Size(after)}
	if e.After.Size > MaxItemBytes {
		return TooLarge(e.After.Size)
	}
	if VersionKept(before, after) {
		// DynamoDB takes it, and no writer may do it: it is what later commits compare.
		return fmt.Errorf("store: a write changes %s %s and keeps its version: who has read it would not notice", w.Key.PK, w.Key.SK)
	}
	return nil
}

// units is what the effect costs: twice a write of the larger of the item before
// and after, and what the index is written besides.
func (e Effect) units() float64 {
	size := 0
	for _, s := range []*Stored{e.Before, e.After} {
		if s != nil {
			size = max(size, s.Size)
		}
	}
	units := 2 * WriteUnits(size)
	before, beforeItem, was := DueIndex.Entry(e.Before.item())
	after, afterItem, is := DueIndex.Entry(e.After.item())
	if was && is && before == after {
		return units // the index holds keys alone, which do not change
	}
	if was {
		units += WriteUnits(Size(beforeItem))
	}
	if is {
		units += WriteUnits(Size(afterItem))
	}
	return units
}

// StreamRecord gives what the table's stream tells of the effect. Its items may
// be kept and not changed. As in DynamoDB, a write that leaves an item as it was
// is in no stream: ok is false.
func (e Effect) StreamRecord() (record StreamRecord, ok bool) {
	if e.Before == e.After || e.Before != nil && e.After != nil && EqualItems(e.Before.Item, e.After.Item) {
		return StreamRecord{}, false
	}
	return StreamRecord{Key: e.Key, Old: e.Before.item(), New: e.After.item()}, true
}

// Digest tells transactions apart by what they do to which items, for backends
// that remember tokens.
func Digest(writes []Write) uint64 {
	h := fnv.New64a()
	var length [4]byte
	for _, w := range writes {
		// Writing to a hash does not fail.
		_, _ = h.Write([]byte{byte(w.Kind)}) //nolint:gosec // G115: there are four kinds
		for _, part := range []string{w.Key.PK, w.Key.SK} {
			binary.BigEndian.PutUint32(length[:], uint32(len(part))) //nolint:gosec // G115: keys are at most 2 KB
			_, _ = h.Write(length[:])
			_, _ = h.Write([]byte(part))
		}
	}
	return h.Sum64()
}

// ErrTokenReused is what a backend answers for a token that another transaction
// had before.
var ErrTokenReused = errors.New("store: a token was used for another transaction before")

// ChargeRepeat charges what DynamoDB bills for a transaction that was made
// before under the same token: a read of what it would have written.
func ChargeRepeat(ctx context.Context, writes []Write) { ChargeCommit(ctx, float64(2*len(writes)), 0) }

// Position is where an item stands in its partition, or in that of an index.
type Position struct {
	SK string
	// Key is that of the item in the table: it orders an index's equal sort keys.
	Key Key
}

// Entry is one item of a run.
type Entry struct {
	Position
	// Size is what reading it costs, in bytes.
	Size int
	// Item is what the query answers of it (Query.Project); nil where no more than sizes is asked for.
	Item Item
}

// Run gives the entries of a query's Range in its order: all, or those behind
// from. sizes says that nobody looks at their items.
type Run func(from *Position, sizes bool) iter.Seq2[Entry, error]

// pageBytes is how much one page of a query reads in DynamoDB.
const pageBytes = 1 << 20

// Answer gives q's page of a run, as Backend.Query does, and charges it to the
// meter of ctx.
func (q Query) Answer(ctx context.Context, run Run) (items []Item, next string, err error) {
	if _, _, empty := q.Range(); empty {
		return nil, "", nil
	}
	var from *Position
	if q.Cursor != "" {
		if from, err = decodePosition(q.Cursor); err != nil {
			return nil, "", err
		}
	} else {
		for left := q.Offset; left > 0; {
			var skipped []Entry
			if skipped, from, err = q.page(ctx, run(from, true), left); err != nil {
				return nil, "", err
			}
			if from == nil {
				return nil, "", nil
			}
			left -= len(skipped)
		}
	}
	found, last, err := q.page(ctx, run(from, false), q.Limit)
	if err != nil {
		return nil, "", err
	}
	for _, e := range found {
		items = append(items, e.Item)
	}
	if last != nil {
		next, err = encodePosition(*last)
	}
	return items, next, err
}

// page reads at most limit entries (0: all) or 1 MB, and gives the position to
// go on behind, nil at the end. As in DynamoDB, a page that is full by its limit
// does not know whether there is more.
func (q Query) page(ctx context.Context, entries iter.Seq2[Entry, error], limit int) (found []Entry, last *Position, err error) {
	size := 0
	for e, entryErr := range entries {
		if entryErr != nil {
			err = entryErr
			break
		}
		if len(found) > 0 && size+e.Size > pageBytes {
			last = &found[len(found)-1].Position
			break
		}
		found = append(found, e)
		size += e.Size
		if len(found) == limit {
			last = &e.Position
			break
		}
	}
	units := ReadUnits(size)
	if q.Index != "" {
		units /= 2 // an index is read with eventual consistency
	}
	ChargeQuery(ctx, units)
	return found, last, err
}

func encodePosition(p Position) (string, error) {
	b, err := json.Marshal([3]string{p.SK, p.Key.PK, p.Key.SK})
	if err != nil {
		return "", fmt.Errorf("encode a cursor: %w", err)
	}
	return string(b), nil
}

func decodePosition(cursor string) (*Position, error) {
	var parts [3]string
	if err := json.Unmarshal([]byte(cursor), &parts); err != nil {
		return nil, fmt.Errorf("decode a cursor: %w", err)
	}
	return &Position{SK: parts[0], Key: Key{PK: parts[1], SK: parts[2]}}, nil
}

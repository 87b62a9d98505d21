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

// This file implements DynamoDB's behavior for transactions and pages, for the backends
// that store items themselves: package memory in trees, package embedded in files.

// Stored is an item in a backend that stores items itself. A
// Stored and its Item are immutable: a write creates a new Stored.
type Stored struct {
	Item Item
	// Size is the size of the item in bytes (function Size).
	Size int
}

// Effect is what one write of a transaction does to its item.
type Effect struct {
	Key Key
	// Before and After are the item before and after the write, nil if it does not
	// exist. They are the same pointer for a check.
	Before, After *Stored
}

// Effects returns the effects of a transaction's writes, one for each write, in order. It calls read for the current
// items. read returns nil for an item that does not exist. On an error the caller must store nothing: the error is
// *ConditionError, the error that read returned, or an error for a write that is not allowed, such as an item that is
// too large or a change that keeps a record's version. Effects charges the transaction to the meter of ctx.
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
		if err := effects[i].apply(w); err != nil {
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

// apply sets e.After to the item after the write.
func (e *Effect) apply(w Write) error {
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
	if VersionUnchanged(before, after) {
		// DynamoDB accepts this, but no writer should do it: later commits compare the version.
		return fmt.Errorf("store: a write changes %s %s and keeps its version: who has read it would not notice", w.Key.PK,
			w.Key.SK)
	}
	return nil
}

// units returns the write units of the effect: the units of a write of the larger of the items before
// and after, doubled because it is in a transaction, plus the units of the writes to DueIndex.
func (e Effect) units() float64 {
	size := 0
	for _, s := range []*Stored{e.Before, e.After} {
		if s != nil {
			size = max(size, s.Size)
		}
	}
	units := 2 * WriteUnits(size)
	before, beforeItem, hadEntry := DueIndex.Entry(e.Before.item())
	after, afterItem, hasEntry := DueIndex.Entry(e.After.item())
	if hadEntry && hasEntry && before == after {
		return units // the index has only keys, and these have not changed
	}
	if hadEntry {
		units += WriteUnits(Size(beforeItem))
	}
	if hasEntry {
		units += WriteUnits(Size(afterItem))
	}
	return units
}

// StreamRecord returns the record of the effect in the table's stream. The caller can keep its items but must not
// change them. As in DynamoDB, the stream has no record of a write that leaves an item unchanged: ok is then false.
func (e Effect) StreamRecord() (record StreamRecord, ok bool) {
	if e.Before == e.After || e.Before != nil && e.After != nil && EqualItems(e.Before.Item, e.After.Item) {
		return StreamRecord{}, false
	}
	return StreamRecord{Key: e.Key, Old: e.Before.item(), New: e.After.item()}, true
}

// Digest returns a hash of the kinds and keys of a transaction's writes. Backends store it with a token, to
// detect that the token is used for another transaction. They do not detect other values for the same keys.
func Digest(writes []Write) uint64 {
	h := fnv.New64a()
	var length [4]byte
	for _, w := range writes {
		// Writing to a hash never fails.
		_, _ = h.Write([]byte{byte(w.Kind)}) //nolint:gosec // G115: there are four kinds
		for _, part := range []string{w.Key.PK, w.Key.SK} {
			binary.BigEndian.PutUint32(length[:], uint32(len(part))) //nolint:gosec // G115: keys are at most 2 KB
			_, _ = h.Write(length[:])
			_, _ = h.Write([]byte(part))
		}
	}
	return h.Sum64()
}

// ErrTokenReused is the error of a backend for a token that was used for another transaction before.
var ErrTokenReused = errors.New("store: a token was used for another transaction before")

// ChargeRetry charges the cost that DynamoDB bills for a repeat of a successful transaction
// under the same token: a read of the items that the transaction would have written.
func ChargeRetry(ctx context.Context, writes []Write) { ChargeCommit(ctx, float64(2*len(writes)), 0) }

// Position is the position of an item in a partition of the table or of an index.
type Position struct {
	SK string
	// Key is the item's key in the table: it orders entries of an index with equal sort keys.
	Key Key
}

// Entry is one item that a RangeReader yields.
type Entry struct {
	Position
	// Size is the number of bytes that reading the item costs.
	Size int
	// Item is the item as the query returns it (Query.Project). It can be nil if the caller requested only sizes.
	Item Item
}

// RangeReader returns the entries in a query's Range, in the query's order. If from is not nil, it returns
// only entries after from. If sizesOnly is true, the caller uses only the positions and sizes of the entries.
type RangeReader func(from *Position, sizesOnly bool) iter.Seq2[Entry, error]

// pageBytes is the maximum size of one page of a query in DynamoDB.
const pageBytes = 1 << 20

// ReadPage returns a page of q, as Backend.Query does. It calls read to get the entries. It charges the page to the
// meter of ctx, and also the entries that it skips because of q.Offset, page by page.
func (q Query) ReadPage(ctx context.Context, read RangeReader) (items []Item, next string, err error) {
	if _, _, empty := q.Range(); empty {
		return nil, "", nil
	}
	var from *Position
	if q.Cursor != "" {
		if from, err = decodePosition(q.Cursor); err != nil {
			return nil, "", err
		}
	} else {
		for remaining := q.Offset; remaining > 0; {
			var skipped []Entry
			if skipped, from, err = q.page(ctx, read(from, true), remaining); err != nil {
				return nil, "", err
			}
			if from == nil {
				return nil, "", nil
			}
			remaining -= len(skipped)
		}
	}
	found, last, err := q.page(ctx, read(from, false), q.Limit)
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

// page reads at most limit entries (0 means no limit) and at most 1 MB. It returns
// the position after which the next page begins, nil at the end. As in DynamoDB, a
// page that reaches its limit has a next page, even if no entries follow.
func (q Query) page(
	ctx context.Context, entries iter.Seq2[Entry, error], limit int,
) (found []Entry, last *Position, err error) {
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

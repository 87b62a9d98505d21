package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Query names a run of items in one partition, in the order of their sort keys.
type Query struct {
	// Index to read, "" for the table itself. An index is eventually
	// consistent; the table is read consistently.
	Index Index
	// PK is the partition.
	PK string
	// Prefix keeps only sort keys that begin with it.
	Prefix string
	// After skips all sort keys up to and including it, in the query's order.
	// In an index it goes with rising order and without Prefix only.
	After string
	// UpTo keeps only sort keys up to and including it; only without Prefix.
	UpTo string
	// Descending turns the order round.
	Descending bool
	// Offset skips that many items, at the price of reading their sizes.
	// Partitions whose items have a ttl are not to be skipped through.
	Offset int
	// Limit is the most items to give; 0 means all.
	Limit int

	// Unchecked is why a commit may be decided from the items without a
	// condition on each: which ones stand for them. Without it no commit of the
	// same decision is made (Decide).
	Unchecked string

	// Cursor is for backends: where the last page ended, in the backend's own
	// words. It replaces After and Offset.
	Cursor string
	// KeysOnly is for backends: it asks for no more of each item than its key
	// and its ttl.
	KeysOnly bool
}

// check refuses what no backend can do.
func (q Query) check() error {
	switch {
	case q.PK == "":
		return errors.New("store: a query without a partition")
	case q.UpTo != "" && q.Prefix != "":
		return errors.New("store: a query with both UpTo and Prefix")
	case q.Index != "" && q.After != "" && (q.Descending || q.Prefix != ""):
		return errors.New("store: After on an index takes a rising order and no Prefix")
	case q.Offset < 0 || q.Limit < 0:
		return errors.New("store: a query with a negative offset or limit")
	}
	// DynamoDB refuses them, an emulator may not.
	return Key{q.PK, longestOf(q.Prefix, q.After, q.UpTo)}.valid()
}

// longestOf gives the longest of the sort keys that a query names, "." for none.
func longestOf(sortKeys ...string) string {
	out := alone
	for _, sk := range sortKeys {
		if len(sk) > len(out) {
			out = sk
		}
	}
	return out
}

// cut says what After does to the run: leave nothing of it, begin inside it, or
// neither, when it lies before the first item.
func (q Query) cut() (empty, inside bool) {
	if q.After == "" {
		return false, false
	}
	below := q.Prefix != "" && q.After < q.Prefix
	above := q.Prefix != "" && !below && !strings.HasPrefix(q.After, q.Prefix) || q.UpTo != "" && q.After > q.UpTo
	if q.Descending {
		below, above = above, below
	}
	return above, !above && !below
}

// Range gives the sort keys of q, from low to below high; "" is no bound.
// empty says that no sort key can be among them. It looks at neither Offset nor
// Cursor.
func (q Query) Range() (low, high string, empty bool) {
	low = q.Prefix
	if q.Prefix != "" {
		high = q.Prefix + "\xff" // no UTF-8 text with the prefix lies above
	}
	if q.UpTo != "" {
		high = q.UpTo + "\x00" // the next possible key
	}
	empty, inside := q.cut()
	switch {
	case inside && q.Descending:
		high = q.After
	case inside:
		low = q.After + "\x00"
	}
	return low, high, empty
}

// Project gives what q answers of an item that it has found: a copy.
func (q Query) Project(item Item) Item {
	if !q.KeysOnly {
		return Clone(item)
	}
	keys := KeyOf(item).Item()
	if ttl, ok := item[TTLAttribute]; ok {
		keys[TTLAttribute] = ttl
	}
	return keys
}

// Decode reads an item into record, a pointer to a struct or to a map.
func Decode(item Item, record any) error {
	if err := decodeItem(item, record); err != nil {
		return fmt.Errorf("decode %s: %w", KeyOf(item).SK, err)
	}
	return nil
}

// Collect reads all items of q into records of type T, as many as q.Limit
// says, following pages. Items past their ttl are left out.
func Collect[T any](ctx context.Context, t *Table, q Query) ([]T, error) {
	var out []T
	err := Visit(ctx, t, q, func(record T) bool {
		out = append(out, record)
		return true
	})
	return out, err
}

// Visit is Collect that hands over one record after the other, and reads no
// further page when visit answers false.
func Visit[T any](ctx context.Context, t *Table, q Query, visit func(T) bool) error {
	return t.Each(ctx, q, func(item Item) (bool, error) {
		var record T
		if err := Decode(item, &record); err != nil {
			return false, err
		}
		return visit(record), nil
	})
}

// Each calls visit for the items of q in order until it answers false or an
// error, or q.Limit is reached. Items past their ttl are left out.
func (t *Table) Each(ctx context.Context, q Query, visit func(Item) (bool, error)) error {
	if err := q.check(); err != nil {
		return err
	}
	if err := heldOf(ctx).lookBack(); err != nil {
		return err
	}
	if recalledOf(ctx) != nil {
		return ErrUnknown
	}
	decisionOf(ctx).noteQuery(q)
	left := q.Limit
	for {
		var items []Item
		var next string
		err := t.repeat(ctx, querying, func() (err error) {
			items, next, err = t.over(ctx).Query(ctx, q)
			return err
		})
		if err != nil {
			return fmt.Errorf("query a partition: %w", err)
		}
		for _, item := range items {
			if Expired(item, t.now()) {
				continue
			}
			more, err := visit(item)
			if err != nil || !more {
				return err
			}
			if left--; left == 0 {
				return nil
			}
		}
		if next == "" {
			return nil
		}
		q.Cursor = next
		if q.Limit > 0 {
			q.Limit = left
		}
	}
}

// Count says how many items q has. It costs what reading them all does, without
// their content's way here.
func (t *Table) Count(ctx context.Context, q Query) (int, error) {
	n := 0
	q.KeysOnly = true
	err := t.Each(ctx, q, func(Item) (bool, error) {
		n++
		return true, nil
	})
	return n, err
}

// Keys gives the primary key of every item of q.
func (t *Table) Keys(ctx context.Context, q Query) ([]Key, error) {
	var out []Key
	q.KeysOnly = true
	err := t.Each(ctx, q, func(item Item) (bool, error) {
		out = append(out, KeyOf(item))
		return true, nil
	})
	return out, err
}

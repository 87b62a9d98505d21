package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Query selects a range of items in one partition, in the order of their sort keys.
type Query struct {
	// Index is the index to read, "" for the table itself. Reads of an
	// index are eventually consistent. Reads of the table are consistent.
	Index Index
	// PK is the partition.
	PK string
	// Prefix limits the query to sort keys that begin with Prefix.
	Prefix string
	// After skips all sort keys up to and including After, in the query's
	// order. For an index, After requires ascending order and no Prefix.
	After string
	// UpTo limits the query to sort keys up to and including UpTo. It cannot be combined with Prefix.
	UpTo string
	// Descending reverses the order.
	Descending bool
	// Offset is the number of items to skip. Skipping costs as much as reading
	// the items. Offset also counts items that are past their ttl, so do not use it in partitions of such items.
	Offset int
	// Limit is the maximum number of items; 0 means no limit.
	Limit int

	// Unchecked is the reason why a commit can depend on the items without a condition on each item. It says which
	// other conditions are sufficient. Without a reason, every commit with the same read set fails (WithReadSet).
	Unchecked string

	// Cursor is only for backends. It is the end of the previous page,
	// in the backend's own encoding, and replaces After and Offset.
	Cursor string
	// KeysOnly is only for backends. It means that only the key and the ttl of each item are needed.
	KeysOnly bool
}

// check returns an error for a query that no backend supports.
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
	// DynamoDB refuses keys that are too long, but an emulator may not.
	return Key{q.PK, longestKey(q.Prefix, q.After, q.UpTo)}.valid()
}

// longestKey returns the longest of several sort keys, or "." if none is longer than one byte.
func longestKey(sortKeys ...string) string {
	out := singletonSortKey
	for _, sk := range sortKeys {
		if len(sk) > len(out) {
			out = sk
		}
	}
	return out
}

// locateAfter reports where After is in relation to the range. empty means that After excludes the whole range. inside
// means that After is within the range, so the query begins after it. Both are false if After is before the range.
func (q Query) locateAfter() (empty, inside bool) {
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

// Range returns the range of q's sort keys: from low up to, but not including, high. An empty low
// or high means no bound. empty means that no sort key can match. Range ignores Offset and Cursor.
func (q Query) Range() (low, high string, empty bool) {
	low = q.Prefix
	if q.Prefix != "" {
		high = q.Prefix + "\xff" // no UTF-8 text with the prefix is greater
	}
	if q.UpTo != "" {
		high = q.UpTo + "\x00" // the next possible key
	}
	empty, inside := q.locateAfter()
	switch {
	case inside && q.Descending:
		high = q.After
	case inside:
		low = q.After + "\x00"
	}
	return low, high, empty
}

// Project returns a copy of an item with the attributes that q requests: all, or the key and the ttl (KeysOnly).
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

// Decode decodes an item into record, a pointer to a struct or to a map.
func Decode(item Item, record any) error {
	if err := decodeItem(item, record); err != nil {
		return fmt.Errorf("decode %s: %w", KeyOf(item).SK, err)
	}
	return nil
}

// Collect returns the items of q as records of type T, up to q.Limit. It reads
// as many pages as necessary. It leaves out items that are past their ttl.
func Collect[T any](ctx context.Context, t *Table, q Query) ([]T, error) {
	var out []T
	err := Visit(ctx, t, q, func(record T) bool {
		out = append(out, record)
		return true
	})
	return out, err
}

// Visit calls visit for each record of q, in order. It stops when visit returns
// false, and reads no further page then. Otherwise it works as Collect does.
func Visit[T any](ctx context.Context, t *Table, q Query, visit func(T) bool) error {
	return t.Each(ctx, q, func(item Item) (bool, error) {
		var record T
		if err := Decode(item, &record); err != nil {
			return false, err
		}
		return visit(record), nil
	})
}

// Each calls visit for the items of q in order until visit returns false or an error, or q.Limit
// is reached. It leaves out items that are past their ttl, except in an index, which has no ttl.
func (t *Table) Each(ctx context.Context, q Query, visit func(Item) (bool, error)) error {
	if err := q.check(); err != nil {
		return err
	}
	if err := deferredCommitOf(ctx).checkReadable(); err != nil {
		return err
	}
	if cacheOnlyOf(ctx) != nil {
		return ErrNotCached
	}
	readSetOf(ctx).addQuery(q)
	remaining := q.Limit
	for {
		var items []Item
		var next string
		err := t.retry(ctx, querying, func() (err error) {
			items, next, err = t.backendFor(ctx).Query(ctx, q)
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
			if remaining--; remaining == 0 {
				return nil
			}
		}
		if next == "" {
			return nil
		}
		q.Cursor = next
		if q.Limit > 0 {
			q.Limit = remaining
		}
	}
}

// Count returns the number of items of q. It costs as many read units as reading the items, but transfers only their
// keys and ttls.
func (t *Table) Count(ctx context.Context, q Query) (int, error) {
	n := 0
	q.KeysOnly = true
	err := t.Each(ctx, q, func(Item) (bool, error) {
		n++
		return true, nil
	})
	return n, err
}

// Keys returns the primary key of every item of q.
func (t *Table) Keys(ctx context.Context, q Query) ([]Key, error) {
	var out []Key
	q.KeysOnly = true
	err := t.Each(ctx, q, func(item Item) (bool, error) {
		out = append(out, KeyOf(item))
		return true, nil
	})
	return out, err
}

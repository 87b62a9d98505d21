package store

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
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
	After string
	// UpTo ends the run after this sort key; only without Prefix.
	UpTo string
	// Descending turns the order round.
	Descending bool
	// Offset skips that many items, at the price of reading their sizes.
	// Partitions whose items have a ttl are not to be skipped through.
	Offset int
	// Limit is the most items to give; 0 means all.
	Limit int
}

// Collect reads all items of q into records of type T, as many as q.Limit
// says, following pages. Items past their ttl are left out.
func Collect[T any](ctx context.Context, t *Table, q Query) ([]T, error) {
	var out []T
	err := t.Each(ctx, q, func(item Item) (bool, error) {
		var record T
		if err := attributevalue.UnmarshalMap(item, &record); err != nil {
			return false, fmt.Errorf("decode %s: %w", keyOf(item).SK, err)
		}
		out = append(out, record)
		return true, nil
	})
	return out, err
}

// Each calls visit for the items of q in order until it answers false or an
// error, or q.Limit is reached. Items past their ttl are left out.
func (t *Table) Each(ctx context.Context, q Query, visit func(Item) (bool, error)) error {
	left := q.Limit
	for {
		var items []Item
		var next string
		err := t.repeat(ctx, func() (err error) {
			items, next, err = t.backend.Query(ctx, q)
			return err
		})
		if err != nil {
			return fmt.Errorf("query a partition: %w", err)
		}
		for _, item := range items {
			if t.expired(item) {
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
		q.After, q.Offset = next, 0
		if q.Limit > 0 {
			q.Limit = left
		}
	}
}

// Count says how many items q has. It reads all of them.
func (t *Table) Count(ctx context.Context, q Query) (int, error) {
	n := 0
	err := t.Each(ctx, q, func(Item) (bool, error) {
		n++
		return true, nil
	})
	return n, err
}

// Keys gives the key of every item of q.
func (t *Table) Keys(ctx context.Context, q Query) ([]Key, error) {
	var out []Key
	err := t.Each(ctx, q, func(item Item) (bool, error) {
		out = append(out, keyOf(item))
		return true, nil
	})
	return out, err
}

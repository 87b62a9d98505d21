package operation

import (
	"context"
	"errors"
	"fmt"

	"github.com/gatewright/gatewright/shared/core/store"
)

// Items describes work on every item of a partition of any size, such as after the deletion of a bucket,
// the rolling of a consumer's keys, or an aborted batch. Drain and Walk return the tasks for such work.
//
// The writes are committed in full transactions, separately from the operation's record, which
// advances only once per step: a cascade over 600,000 items takes about 6,000 transactions and 300
// steps. After a crash the writes of a step happen again, so they must be idempotent, as a Delete is.
type Items[T any] struct {
	Table *store.Table
	// Query returns the query for the items.
	Query func(context.Context, Step) (store.Query, error)
	// Change calls the function write with the writes for one item, once for each group of writes. A group has at most
	// store.MaxWrites writes and is committed atomically. Groups are committed in order, many in one transaction. If a
	// condition without Else is false, its group is skipped, because the target no longer exists. If write returns an
	// error, Change must return it.
	Change func(ctx context.Context, s Step, item T, write Group) error
	// WritesPerStep is about the number of writes that a step makes before the record advances; 0 means 2,000.
	WritesPerStep int
}

// Group adds writes that have to be committed together.
type Group func(writes ...store.Write) error

// Drain returns the task that deletes the items. Change must delete the dependents of an item first and the
// item itself last, because the dependents are found through the item. The state ends when no items are left.
func (i Items[T]) Drain() Task {
	return func(ctx context.Context, s Step) (Result, error) {
		q, err := i.Query(ctx, s)
		if err != nil {
			return Result{}, err
		}
		p := packer{table: i.Table, remaining: i.writesPerStep(), stopWhenFull: true}
		q.Limit = pageItems
		for {
			items, err := store.Collect[T](ctx, i.Table, q)
			if err != nil {
				return Result{}, err
			}
			if len(items) == 0 {
				return Result{}, nil
			}
			before := p.written
			for _, item := range items {
				if err := i.Change(ctx, s, item, p.group(ctx)); err != nil {
					if errors.Is(err, errStepFull) {
						return Result{Repeat: true}, p.flush(ctx)
					}
					return Result{}, err
				}
			}
			if err := p.flush(ctx); err != nil {
				return Result{}, err
			}
			if p.written == before {
				return Result{}, fmt.Errorf("%w: a drain found items and removed none", errBadResult)
			}
		}
	}
}

// Walk returns the task that calls Change for each item at least once, in the order of their
// sort keys. The items stay in the partition. sortKey returns an item's sort key. The state ends
// at the end of the partition. Items that are added before the current position are not visited.
func (i Items[T]) Walk(sortKey func(T) string) Task {
	return func(ctx context.Context, s Step) (Result, error) {
		q, err := i.Query(ctx, s)
		if err != nil {
			return Result{}, err
		}
		p := packer{table: i.Table, remaining: i.writesPerStep()}
		q.Limit = pageItems
		if s.cursor != "" {
			q.After = s.cursor
		}
		for {
			items, err := store.Collect[T](ctx, i.Table, q)
			if err != nil {
				return Result{}, err
			}
			for _, item := range items {
				if err := i.Change(ctx, s, item, p.group(ctx)); err != nil {
					return Result{}, err
				}
				q.After = sortKey(item)
				if p.remaining <= 0 {
					return Result{Repeat: true, cursor: q.After}, p.flush(ctx)
				}
			}
			if err := p.flush(ctx); err != nil {
				return Result{}, err
			}
			if len(items) < pageItems {
				return Result{}, nil
			}
		}
	}
}

// pageItems is the number of items in a page. At the end of a page,
// the current transaction is committed even if it is not full.
const pageItems = 250

func (i Items[T]) writesPerStep() int {
	if i.WritesPerStep == 0 {
		return 2000
	}
	return i.WritesPerStep
}

// errStepFull ends a Change when its step may make no more writes.
var errStepFull = errors.New("operation: the writes of the step are used up")

// packer fills transactions with groups.
type packer struct {
	table *store.Table
	// remaining is the number of writes that the step can still make. If stopWhenFull
	// is true, a Change ends with errStepFull when remaining is used up.
	remaining    int
	stopWhenFull bool

	// written is the number of writes in earlier transactions of the step. groups has the groups of the
	// current transaction, size is the number of their writes, and keys has the keys of the writes.
	written int
	groups  [][]store.Write
	size    int
	keys    map[store.Key]bool
}

// group returns a Group that adds its writes to the current transaction. It first
// commits that transaction if the writes do not fit, or if one of their keys is in it already.
func (p *packer) group(ctx context.Context) Group {
	return func(writes ...store.Write) error {
		if p.stopWhenFull && p.remaining <= 0 {
			return errStepFull
		}
		full := p.size+len(writes) > store.MaxWrites
		for _, w := range writes {
			full = full || p.keys[w.Key]
		}
		if full {
			if err := p.flush(ctx); err != nil {
				return err
			}
		}
		if p.keys == nil {
			p.keys = map[store.Key]bool{}
		}
		for _, w := range writes {
			p.keys[w.Key] = true
		}
		p.groups = append(p.groups, writes)
		p.size += len(writes)
		p.remaining -= len(writes)
		return nil
	}
}

// flush commits the packed groups. If a condition is false, it commits
// the groups one by one, to skip only the groups with a false condition.
func (p *packer) flush(ctx context.Context) error {
	groups, size := p.groups, p.size
	p.groups, p.size, p.keys = nil, 0, nil
	if size == 0 {
		return nil
	}
	all := make([]store.Write, 0, size)
	for _, g := range groups {
		all = append(all, g...)
	}
	p.written += size
	err := p.table.Commit(ctx, all...)
	if !errors.Is(err, store.ErrCondition) {
		return err
	}
	for _, g := range groups {
		if err := p.table.Commit(ctx, g...); err != nil && !errors.Is(err, store.ErrCondition) {
			return err
		}
	}
	return nil
}

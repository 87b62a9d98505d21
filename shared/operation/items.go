package operation

import (
	"context"
	"errors"
	"fmt"

	"github.com/gatewright/gatewright/shared/store"
)

// Items is work on every item of a partition, however many there are: what
// follows a deleted bucket, a rolled consumer, an aborted batch. Drain and Walk
// are its two tasks.
//
// The writes are committed in full transactions beside the operation's record,
// which only advances once a Portion: a cascade over 600,000 items costs some
// 6,000 transactions and 300 of those. They therefore happen again after a
// crash and have to be such that this changes nothing, as a Delete is.
type Items[T any] struct {
	Table *store.Table
	// Query names the items.
	Query func(context.Context, Step) (store.Query, error)
	// Change hands the writes for one item, in groups, to write. A group of at
	// most store.MaxWrites is committed as one; groups are committed in order,
	// many to a transaction. A group with a false condition that has no Else is
	// left out: what it was meant for is gone. Change ends with the error that
	// write answers.
	Change func(ctx context.Context, s Step, item T, write Group) error
	// WritesPerStep is how many writes a step makes before the record advances; 0
	// means 2,000.
	WritesPerStep int
}

// Group takes writes that belong together.
type Group func(writes ...store.Write) error

// Drain is the task that removes the items: Change deletes what hangs on the
// item first and the item itself last, for the item is how the rest is found
// again. The state is left when no item is there any more.
func (i Items[T]) Drain() Task {
	return func(ctx context.Context, s Step) (Result, error) {
		q, err := i.Query(ctx, s)
		if err != nil {
			return Result{}, err
		}
		p := packer{table: i.Table, left: i.writesPerStep(), breaks: true}
		q.Limit = page
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
				if err := i.Change(ctx, s, item, p.into(ctx)); err != nil {
					if errors.Is(err, errStepFull) {
						return Result{Again: true}, p.flush(ctx)
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

// Walk is the task that changes the items where they are, each at least once,
// in the order of their sort keys, which at gives. The state is left at the end
// of the partition; items added behind the place where it is are not visited.
func (i Items[T]) Walk(at func(T) string) Task {
	return func(ctx context.Context, s Step) (Result, error) {
		q, err := i.Query(ctx, s)
		if err != nil {
			return Result{}, err
		}
		p := packer{table: i.Table, left: i.writesPerStep()}
		q.Limit = page
		if s.cursor != "" {
			q.After = s.cursor
		}
		for {
			items, err := store.Collect[T](ctx, i.Table, q)
			if err != nil {
				return Result{}, err
			}
			for _, item := range items {
				if err := i.Change(ctx, s, item, p.into(ctx)); err != nil {
					return Result{}, err
				}
				q.After = at(item)
				if p.left <= 0 {
					return Result{Again: true, cursor: q.After}, p.flush(ctx)
				}
			}
			if err := p.flush(ctx); err != nil {
				return Result{}, err
			}
			if len(items) < page {
				return Result{}, nil
			}
		}
	}
}

// page is how many items are read at a time. What is left of a transaction at
// its end is committed as it is.
const page = 250

func (i Items[T]) writesPerStep() int {
	if i.WritesPerStep == 0 {
		return 2000
	}
	return i.WritesPerStep
}

// errStepFull ends a Change that has used up the writes of its step.
var errStepFull = errors.New("operation: the writes of the step are used up")

// packer fills transactions with groups.
type packer struct {
	table *store.Table
	// left is what may still be written; breaks says that a Change ends there.
	left   int
	breaks bool

	written int
	groups  [][]store.Write
	size    int
	keys    map[store.Key]bool
}

func (p *packer) into(ctx context.Context) Group {
	return func(writes ...store.Write) error {
		if p.breaks && p.left <= 0 {
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
		p.left -= len(writes)
		return nil
	}
}

// flush commits what is packed. Where a condition is false it commits group by
// group, to leave out only the group it is in.
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

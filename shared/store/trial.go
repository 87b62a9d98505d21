package store

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"sync"

	"github.com/gatewright/gatewright/shared/dryrun"
)

// Trial is what a dry run makes of the table: commits are decided as the database
// would decide them, over the table as it is and what the run has committed before,
// and kept here. Reads and queries under the run's context see them. The table is
// only read.
//
// Indexes are eventually consistent, and show nothing of a run. What others commit
// meanwhile is seen as soon as it is read, as by any other request.
type Trial struct {
	mu sync.Mutex
	// items are those that the run has written, nil for one that it has deleted.
	items map[Key]*Stored
}

type trialKey struct{}

// Try begins a dry run: nothing under the context writes to the table.
func Try(ctx context.Context) (context.Context, *Trial, *dryrun.Run) {
	ctx, run := dryrun.Begin(ctx)
	t := &Trial{items: map[Key]*Stored{}}
	return context.WithValue(ctx, trialKey{}, t), t, run
}

// Made gives copies of the items that the run has written and whose keys match, in
// the order of their keys.
func (t *Trial) Made(match func(Key) bool) []Item {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []Item
	for key, s := range t.items {
		if s != nil && match(key) {
			out = append(out, Clone(s.Item))
		}
	}
	slices.SortFunc(out, func(a, b Item) int { return KeyOf(a).compare(KeyOf(b)) })
	return out
}

// over is the backend that calls under a context are made of: that of a dry run has
// its trial in front.
func (t *Table) over(ctx context.Context) Backend {
	trial, ok := ctx.Value(trialKey{}).(*Trial)
	if !ok || !dryrun.Active(ctx) {
		return t.backend // which refuses to write in a dry run that has no trial
	}
	return tried{t.backend, trial}
}

// RefuseTried answers an error in a dry run: the backends', which no run's writes
// may reach.
func RefuseTried(ctx context.Context) error { return dryrun.Refuse(ctx, "a transaction of the table") }

// tried is the table as a dry run has changed it.
type tried struct {
	real  Backend
	trial *Trial
}

var _ Backend = tried{}

// Read implements Backend.
func (b tried) Read(ctx context.Context, keys []Key) ([]Item, error) {
	var out []Item
	var others []Key
	b.trial.mu.Lock()
	for _, key := range keys {
		s, written := b.trial.items[key]
		switch {
		case !written:
			others = append(others, key)
		case s != nil:
			out = append(out, Clone(s.Item))
		}
	}
	b.trial.mu.Unlock()
	if len(others) == 0 {
		return out, nil
	}
	found, err := b.real.Read(ctx, others)
	return append(out, found...), err
}

// Transact implements Backend. It reads what is written, as the database does.
func (b tried) Transact(ctx context.Context, _ string, writes []Write) error {
	keys := make([]Key, len(writes))
	for i, w := range writes {
		keys[i] = w.Key
	}
	items, err := b.Read(ctx, keys)
	if err != nil {
		return err
	}
	before := make(map[Key]*Stored, len(items))
	for _, item := range items {
		before[KeyOf(item)] = &Stored{item, Size(item)}
	}
	unmetered := WithMeter(ctx, nil) // what is not written is not billed
	effects, err := Effects(unmetered, writes, func(key Key) (*Stored, error) { return before[key], nil })
	if err != nil {
		return err
	}
	b.trial.mu.Lock()
	defer b.trial.mu.Unlock()
	for i, e := range effects {
		if writes[i].Kind == CheckKind {
			continue
		}
		if e.After != nil {
			e.After = &Stored{Clone(e.After.Item), e.After.Size}
		}
		b.trial.items[e.Key] = e.After
	}
	return nil
}

// Query implements Backend: what the run has written takes its place among the
// items of the table.
func (b tried) Query(ctx context.Context, q Query) (items []Item, next string, err error) {
	if q.Index != "" {
		return b.real.Query(ctx, q)
	}
	own, written := b.trial.within(q)
	unmetered := WithMeter(ctx, nil) // the pages of the table are billed as they are read
	return q.Answer(unmetered, func(from *Position, _ bool) iter.Seq2[Entry, error] {
		return func(yield func(Entry, error) bool) {
			left := slices.Clone(own)
			for item, err := range b.rest(ctx, q, from, len(written)) {
				if err != nil {
					yield(Entry{}, err)
					return
				}
				key := KeyOf(item)
				if written[key] {
					continue
				}
				for len(left) > 0 && q.order(left[0].SK, key.SK) < 0 {
					if !give(q, from, left[0], yield) {
						return
					}
					left = left[1:]
				}
				if !give(q, from, Entry{Position{key.SK, key}, Size(item), item}, yield) {
					return
				}
			}
			for _, e := range left {
				if !give(q, from, e, yield) {
					return
				}
			}
		}
	})
}

// give yields an entry that is behind from.
func give(q Query, from *Position, e Entry, yield func(Entry, error) bool) (more bool) {
	if from != nil && q.order(e.SK, from.SK) <= 0 {
		return true
	}
	return yield(e, nil)
}

// order compares sort keys in the order of the query.
func (q Query) order(a, b string) int {
	if q.Descending {
		return cmp.Compare(b, a)
	}
	return cmp.Compare(a, b)
}

// within gives the run's items that a query of the table finds, in its order, and
// which items of the partition the run has written or deleted.
func (t *Trial) within(q Query) (found []Entry, written map[Key]bool) {
	low, high, empty := q.Range()
	written = map[Key]bool{}
	t.mu.Lock()
	defer t.mu.Unlock()
	for key, s := range t.items {
		if key.PK != q.PK {
			continue
		}
		written[key] = true
		if s != nil && !empty && key.SK >= low && (high == "" || key.SK < high) {
			item := q.Project(s.Item)
			found = append(found, Entry{Position{key.SK, key}, s.Size, item})
		}
	}
	slices.SortFunc(found, func(a, b Entry) int { return q.order(a.SK, b.SK) })
	return found, written
}

// rest reads the items of the table behind from, page by page; beside is how many of
// them may be left out.
func (b tried) rest(ctx context.Context, q Query, from *Position, beside int) iter.Seq2[Item, error] {
	if q.Limit > 0 {
		q.Limit += q.Offset + beside
	}
	q.Offset, q.Cursor = 0, ""
	if from != nil {
		q.After = from.SK
	}
	return func(yield func(Item, error) bool) {
		for {
			items, next, err := b.real.Query(ctx, q)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, item := range items {
				if !yield(item, nil) {
					return
				}
			}
			if next == "" {
				return
			}
			q.Cursor = next
		}
	}
}

// Removes tells a dry run what a deletion takes away, by the count that it makes then
// (dryrun.Removes). The commit of the deletion does not depend on it.
func Removes(ctx context.Context, count func(ctx context.Context) (map[string]int, error)) error {
	return dryrun.Removes(ctx, func(ctx context.Context) (map[string]int, error) {
		return count(Undecided(ctx, "a dry run shows it, and decides nothing by it"))
	})
}

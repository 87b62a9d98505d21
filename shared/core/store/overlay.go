package store

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"sync"

	"github.com/gatewright/gatewright/shared/base/dryrun"
)

// Overlay is the dry-run overlay of the table. It evaluates commits as the database would, over
// the table and the run's earlier commits, and keeps their results in memory. Reads and queries
// under the run's context return these results. The dry run does not write to the table.
//
// Indexes are eventually consistent and do not show changes of the run. Concurrent commits of other
// requests are visible in a dry run, as in any request, except for items that the run has written.
type Overlay struct {
	mu sync.Mutex
	// items are the items that the run has written, nil for an item that it has deleted.
	items map[Key]*Stored
}

type overlayKey struct{}

// BeginDryRun begins a dry run: nothing under the returned context writes to the table.
func BeginDryRun(ctx context.Context) (context.Context, *Overlay, *dryrun.Run) {
	ctx, run := dryrun.Begin(ctx)
	o := &Overlay{items: map[Key]*Stored{}}
	return context.WithValue(ctx, overlayKey{}, o), o, run
}

// Written returns copies of the items that the run has written, and not deleted, and whose keys match. They are sorted
// by their keys.
func (o *Overlay) Written(match func(Key) bool) []Item {
	o.mu.Lock()
	defer o.mu.Unlock()
	var out []Item
	for key, s := range o.items {
		if s != nil && match(key) {
			out = append(out, Clone(s.Item))
		}
	}
	slices.SortFunc(out, func(a, b Item) int { return KeyOf(a).compare(KeyOf(b)) })
	return out
}

// backendFor returns the backend for calls under a context. In a dry run it is an overlayBackend with the run's
// overlay.
func (t *Table) backendFor(ctx context.Context) Backend {
	overlay, ok := ctx.Value(overlayKey{}).(*Overlay)
	if !ok || !dryrun.Active(ctx) {
		return t.backend // the backend refuses to write in a dry run that has no overlay
	}
	return overlayBackend{t.backend, overlay}
}

// RefuseInDryRun returns an error in a dry run. Backends call it, because the writes of a dry run must not reach them.
func RefuseInDryRun(ctx context.Context) error {
	return dryrun.Refuse(ctx, "a transaction of the table")
}

// overlayBackend is a backend that returns the table's items with the changes of a dry run.
type overlayBackend struct {
	backend Backend
	overlay *Overlay
}

var _ Backend = overlayBackend{}

// Read implements Backend.
func (b overlayBackend) Read(ctx context.Context, keys []Key) ([]Item, error) {
	var out []Item
	var remaining []Key
	b.overlay.mu.Lock()
	for _, key := range keys {
		s, written := b.overlay.items[key]
		switch {
		case !written:
			remaining = append(remaining, key)
		case s != nil:
			out = append(out, Clone(s.Item))
		}
	}
	b.overlay.mu.Unlock()
	if len(remaining) == 0 {
		return out, nil
	}
	found, err := b.backend.Read(ctx, remaining)
	return append(out, found...), err
}

// Transact implements Backend. It reads the items that the transaction writes, as the database does.
func (b overlayBackend) Transact(ctx context.Context, _ string, writes []Write) error {
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
	unmetered := WithMeter(ctx, nil) // writes that are not made are not billed
	effects, err := Effects(unmetered, writes, func(key Key) (*Stored, error) { return before[key], nil })
	if err != nil {
		return err
	}
	b.overlay.mu.Lock()
	defer b.overlay.mu.Unlock()
	for i, e := range effects {
		if writes[i].Kind == CheckKind {
			continue
		}
		if e.After != nil {
			e.After = &Stored{Clone(e.After.Item), e.After.Size}
		}
		b.overlay.items[e.Key] = e.After
	}
	return nil
}

// Query implements Backend. It merges the items that the run has written with the items of the table.
func (b overlayBackend) Query(ctx context.Context, q Query) (items []Item, next string, err error) {
	if q.Index != "" {
		return b.backend.Query(ctx, q)
	}
	entries, written := b.overlay.matching(q)
	unmetered := WithMeter(ctx, nil) // the pages of the table are billed when they are read
	return q.ReadPage(unmetered, func(from *Position, _ bool) iter.Seq2[Entry, error] {
		return func(yield func(Entry, error) bool) {
			remaining := slices.Clone(entries)
			for item, err := range b.tableItems(ctx, q, from, len(written)) {
				if err != nil {
					yield(Entry{}, err)
					return
				}
				key := KeyOf(item)
				if written[key] {
					continue
				}
				for len(remaining) > 0 && q.order(remaining[0].SK, key.SK) < 0 {
					if !yieldAfter(q, from, remaining[0], yield) {
						return
					}
					remaining = remaining[1:]
				}
				if !yieldAfter(q, from, Entry{Position{key.SK, key}, Size(item), item}, yield) {
					return
				}
			}
			for _, e := range remaining {
				if !yieldAfter(q, from, e, yield) {
					return
				}
			}
		}
	})
}

// yieldAfter yields the entry if the entry is after from. It reports whether the iteration continues.
func yieldAfter(q Query, from *Position, e Entry, yield func(Entry, error) bool) (more bool) {
	if from != nil && q.order(e.SK, from.SK) <= 0 {
		return true
	}
	return yield(e, nil)
}

// order compares two sort keys in the query's order.
func (q Query) order(a, b string) int {
	if q.Descending {
		return cmp.Compare(b, a)
	}
	return cmp.Compare(a, b)
}

// matching returns the run's items that match a query of the table, in the query's order.
// It also returns the keys in the query's partition that the run has written or deleted.
func (o *Overlay) matching(q Query) (found []Entry, written map[Key]bool) {
	low, high, empty := q.Range()
	written = map[Key]bool{}
	o.mu.Lock()
	defer o.mu.Unlock()
	for key, s := range o.items {
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

// tableItems reads the items of the table after from, page by page. extra is the maximum
// number of these items that the caller skips, because the run has changed them.
func (b overlayBackend) tableItems(ctx context.Context, q Query, from *Position, extra int) iter.Seq2[Item, error] {
	if q.Limit > 0 {
		q.Limit += q.Offset + extra
	}
	q.Offset, q.Cursor = 0, ""
	if from != nil {
		q.After = from.SK
	}
	return func(yield func(Item, error) bool) {
		for {
			items, next, err := b.backend.Query(ctx, q)
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

// ReportRemovals reports to a dry run what a deletion removes, by calling count
// (dryrun.ReportRemovals). The commit of the deletion does not depend on the count.
func ReportRemovals(ctx context.Context, count func(ctx context.Context) (map[string]int, error)) error {
	return dryrun.ReportRemovals(ctx, func(ctx context.Context) (map[string]int, error) {
		return count(WithoutReadSet(ctx, "a dry run shows it, and decides nothing by it"))
	})
}

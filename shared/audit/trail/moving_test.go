package trail_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/audit/trail"
	"github.com/gatewright/gatewright/shared/operation/simulations"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

// moving is a table whose chain moves on whenever records are read.
type moving struct {
	store.Backend
	mu      sync.Mutex
	queries map[string]int // by the partitions whose reads move it
	few     map[string]int // those whose reads move it so many times more
	step    func()
}

func (m *moving) Query(ctx context.Context, q store.Query) ([]store.Item, string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, moves := m.queries[q.PK]; moves {
		m.queries[q.PK]++
		m.step()
	}
	if m.few[q.PK] > 0 {
		m.few[q.PK]--
		m.step()
	}
	return m.Backend.Query(ctx, q)
}

func (m *moving) Read(ctx context.Context, keys []store.Key) ([]store.Item, error) {
	if len(keys) > 1 { // records; the chain's end is read alone
		m.mu.Lock()
		defer m.mu.Unlock()
		m.step()
	}
	return m.Backend.Read(ctx, keys)
}

// TestAListIsReadWhileTheChainMovesOn: however long it takes to read records, and
// however fast others come meanwhile, a walk is answered, and has what was there
// when it began, each record once.
func TestAListIsReadWhileTheChainMovesOn(t *testing.T) {
	created := func(n int) (out []change) {
		for i := range n {
			out = append(out, change{ago: time.Duration(i) * time.Second, action: "key-bucket.create", actor: "akey_1"})
		}
		return out
	}
	for name, f := range map[string]trail.Filter{"all": {}, "of an action": {Action: "key-bucket.create"}, "of an actor": {Actor: "akey_1"}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.record(created(40)...)
			w.chain()
			w.record(created(10)...) // not chained yet
			b := &moving{Backend: w.items, queries: map[string]int{}, step: func() {
				w.record(created(1)...)
				w.chain()
			}}
			for n := range audit.ChainedShards {
				b.queries[audit.Chained(acme, n)] = 0
			}
			list := w.over(b)
			f.From, f.To = w.now.Add(-time.Hour).Truncate(time.Minute), w.now.Add(time.Hour).Truncate(time.Minute)
			for _, page := range []store.Page{{Limit: 7}, {Limit: 100}, {Limit: 7, Offset: 3}} {
				there, seen := w.made, map[string]bool{}
				for pages := 0; ; pages++ {
					before := w.made
					found, err := list.List(t.Context(), acme, f, page)
					if err != nil {
						t.Fatal(err)
					}
					full := min(page.Limit, max(0, found.Total-page.Offset))
					if found.Total != before || page.After == "" && len(found.Entries) != full || found.HasMore && len(found.Entries) != page.Limit {
						t.Fatalf("%+v has %d entries of %d, more %v; %d were there", page, len(found.Entries), found.Total, found.HasMore, before)
					}
					for _, e := range found.Entries {
						if at := fmt.Sprint(trail.Position(e)); seen[at] {
							t.Fatalf("%+v: %s comes twice", page, at)
						} else {
							seen[at] = true
						}
					}
					if !found.HasMore {
						break
					}
					page.After, page.Offset = found.Next(), 0
				}
				if len(seen) < there-3 {
					t.Errorf("%+v: saw %d of %d", page, len(seen), there)
				}
			}
		})
	}
}

// TestManyThatWaitAreReadOnce: a list of more records than are chained while it reads them is answered at the first
// request, with each of them once.
func TestManyThatWaitAreReadOnce(t *testing.T) {
	simulations.Sequential(t)
	const all, chained = 2_000, 400
	for name, f := range map[string]trail.Filter{"all": {}, "of an action": {Action: "key-bucket.create"}, "of less than a minute": {From: storetest.Epoch.Add(-7*time.Hour + 500*time.Millisecond)}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			want := all
			var changes []change
			for i := range all {
				c := change{ago: time.Duration(i) * 15 * time.Second, action: "key-bucket.create", actor: "akey_1"}
				if i%4 == 3 {
					c.action = "key-bucket.delete"
				}
				if f.Action != "" && string(c.action) != f.Action || w.now.Add(-c.ago).Before(f.From) {
					want--
				}
				changes = append(changes, c)
			}
			w.record(changes...)
			waiting := w.told()
			some := func(n int) {
				n = min(n, len(waiting))
				w.HandleStream(t.Context(), waiting[:n])
				waiting = waiting[n:]
			}
			some(chained)
			b := &moving{Backend: w.items, queries: map[string]int{}, step: func() { some(2) }}
			for n := range audit.Shards {
				b.queries[audit.Waiting(acme, n)] = 0
			}
			for n := range audit.ChainedShards {
				b.queries[audit.Chained(acme, n)] = 0
			}
			b.few = map[string]int{trail.Minutes(acme): 5}
			if f.From.IsZero() {
				f.From = w.now.Add(-24 * time.Hour).Truncate(time.Minute)
			}
			f.To = w.now.Add(time.Hour).Truncate(time.Minute)
			found, err := w.over(b).List(t.Context(), acme, f, store.Page{Limit: 300, Offset: 100})
			if err != nil {
				t.Fatal(err)
			}
			seen := map[string]bool{}
			for _, e := range found.Entries {
				seen[trail.Position(e)] = true
			}
			if found.Total != want || len(found.Entries) != 300 || len(seen) != 300 || !found.HasMore {
				t.Errorf("a list has %d entries, %d of them different, of %d, more %v; want 300 of %d", len(found.Entries), len(seen), found.Total, found.HasMore, want)
			}
			if len(waiting) == 0 || len(waiting) == all-chained {
				t.Fatalf("%d records wait at the end: the chain has not moved on, or has ended", len(waiting))
			}
			for n := range audit.Shards {
				if n := b.queries[audit.Waiting(acme, n)]; n != 1 {
					t.Errorf("the records that wait are read %d times", n)
				}
			}
		})
	}
}

package trail_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/audit/trail"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
	"github.com/gatewright/gatewright/shared/testing/simulations"
)

// growingBackend is a table whose chain grows whenever records are read.
type growingBackend struct {
	store.Backend
	mu        sync.Mutex
	queries   map[string]int // the number of queries of each partition in the map; each such query makes the chain grow
	remaining map[string]int // the number of further queries of a partition that make the chain grow
	grow      func()
}

func (b *growingBackend) Query(ctx context.Context, q store.Query) ([]store.Item, string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, grows := b.queries[q.PK]; grows {
		b.queries[q.PK]++
		b.grow()
	}
	if b.remaining[q.PK] > 0 {
		b.remaining[q.PK]--
		b.grow()
	}
	return b.Backend.Query(ctx, q)
}

func (b *growingBackend) Read(ctx context.Context, keys []store.Key) ([]store.Item, error) {
	if len(keys) > 1 { // reads of records; the end of the chain is read with one key
		b.mu.Lock()
		defer b.mu.Unlock()
		b.grow()
	}
	return b.Backend.Read(ctx, keys)
}

// TestListWhileChainGrows checks that listing all pages succeeds, and returns each record that
// existed at the beginning once, although each read of records adds a record.
func TestListWhileChainGrows(t *testing.T) {
	created := func(n int) (out []change) {
		for i := range n {
			out = append(out, change{age: time.Duration(i) * time.Second, action: "key-bucket.create", actor: "akey_1"})
		}
		return out
	}
	for name, f := range map[string]trail.Filter{
		"all": {}, "records of an action": {Action: "key-bucket.create"},
		"records of an actor": {Actor: "akey_1"},
	} {
		t.Run(name, func(t *testing.T) {
			fx := newFixture(t)
			fx.record(created(40)...)
			fx.chain()
			fx.record(created(10)...) // not chained yet
			b := &growingBackend{Backend: fx.items, queries: map[string]int{}, grow: func() {
				fx.record(created(1)...)
				fx.chain()
			}}
			for n := range audit.ChainedShards {
				b.queries[audit.ChainedPartition(acme, n)] = 0
			}
			growing := fx.withBackend(b)
			f.From, f.To = fx.now.Add(-time.Hour).Truncate(time.Minute), fx.now.Add(time.Hour).Truncate(time.Minute)
			for _, page := range []store.Page{{Limit: 7}, {Limit: 100}, {Limit: 7, Offset: 3}} {
				existing, skipped, seen := fx.recorded, page.Offset, map[string]bool{}
				for pages := 0; ; pages++ {
					before := fx.recorded
					found, err := growing.List(t.Context(), acme, f, page)
					if err != nil {
						t.Fatalf("List(%+v) while the chain grows = %v, want success", page, err)
					}
					full := min(page.Limit, max(0, found.Total-page.Offset))
					if found.Total != before || page.After == "" && len(found.Entries) != full ||
						found.HasMore && len(found.Entries) != page.Limit {
						t.Fatalf("List(%+v) = %d entries, total %d, more %t, want total %d, and a full page of %d",
							page, len(found.Entries), found.Total, found.HasMore, before, full)
					}
					for _, e := range found.Entries {
						if at := fmt.Sprint(trail.Position(e)); seen[at] {
							t.Fatalf("List(%+v) returns %s twice, want it once", page, at)
						} else {
							seen[at] = true
						}
					}
					if !found.HasMore {
						break
					}
					page.After, page.Offset = found.Next(), 0
				}
				if len(seen) < existing-skipped {
					t.Errorf("List() of all pages, up to %+v, returns %d of %d records, want at least %d",
						page, len(seen), existing, existing-skipped)
				}
			}
		})
	}
}

// TestPendingRecordsAreReadOnce lists a page of many pending records while some of them are chained. The page
// must have no record twice, its total must be exact, and the pending records must be read only once.
func TestPendingRecordsAreReadOnce(t *testing.T) {
	simulations.SkipUnderRace(t)
	const all, chained = 2_000, 400
	for name, f := range map[string]trail.Filter{
		"all": {}, "records of an action": {Action: "key-bucket.create"},
		"records from the middle of a minute on": {From: storetest.Epoch.Add(-7*time.Hour + 500*time.Millisecond)},
	} {
		t.Run(name, func(t *testing.T) {
			fx := newFixture(t)
			want := all
			var changes []change
			for i := range all {
				c := change{age: time.Duration(i) * 15 * time.Second, action: "key-bucket.create", actor: "akey_1"}
				if i%4 == 3 {
					c.action = "key-bucket.delete"
				}
				if f.Action != "" && string(c.action) != f.Action || fx.now.Add(-c.age).Before(f.From) {
					want--
				}
				changes = append(changes, c)
			}
			fx.record(changes...)
			pending := fx.takeEvents()
			chainSome := func(n int) {
				n = min(n, len(pending))
				fx.HandleStream(t.Context(), pending[:n])
				pending = pending[n:]
			}
			chainSome(chained)
			b := &growingBackend{Backend: fx.items, queries: map[string]int{}, grow: func() { chainSome(2) }}
			for n := range audit.Shards {
				b.queries[audit.PendingPartition(acme, n)] = 0
			}
			for n := range audit.ChainedShards {
				b.queries[audit.ChainedPartition(acme, n)] = 0
			}
			b.remaining = map[string]int{trail.MinutePartition(acme): 5}
			if f.From.IsZero() {
				f.From = fx.now.Add(-24 * time.Hour).Truncate(time.Minute)
			}
			f.To = fx.now.Add(time.Hour).Truncate(time.Minute)
			found, err := fx.withBackend(b).List(t.Context(), acme, f, store.Page{Limit: 300, Offset: 100})
			if err != nil {
				t.Fatalf("List() while records are chained = %v, want success", err)
			}
			seen := map[string]bool{}
			for _, e := range found.Entries {
				seen[trail.Position(e)] = true
			}
			if found.Total != want || len(found.Entries) != 300 || len(seen) != 300 || !found.HasMore {
				t.Errorf("List() = %d entries, %d of them different, total %d, more %t, "+
					"want 300 different entries, total %d, more true",
					len(found.Entries), len(seen), found.Total, found.HasMore, want)
			}
			if len(pending) == 0 || len(pending) == all-chained {
				t.Fatalf("%d records are pending after List(), want some but fewer than the %d before it",
					len(pending), all-chained)
			}
			for shard := range audit.Shards {
				if n := b.queries[audit.PendingPartition(acme, shard)]; n != 1 {
					t.Errorf("List() queries the pending records of shard %d %d times, want once", shard, n)
				}
			}
		})
	}
}

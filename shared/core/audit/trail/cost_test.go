package trail_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/audit/trail"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
	"github.com/gatewright/gatewright/shared/testing/simulations"
)

// fillChain writes n chained records and their counters directly, because chaining a million records
// would take minutes. The records are spread evenly over a time range that ends a minute from now.
func (fx *fixture) fillChain(n int, span time.Duration) {
	fx.Helper()
	additions := trail.Counters{}
	var writes []store.Write
	commit := func(writes []store.Write) {
		if err := fx.items.Transact(fx.Context(), fmt.Sprint("fill", rand.Uint64()), writes); err != nil {
			fx.Fatal(err)
		}
	}
	success := true
	interval := span / time.Duration(n)
	for i := range n {
		at := fx.now.Add(-interval * time.Duration(n-i)).Add(time.Minute)
		e := audit.Entry{
			Action: "key-bucket.update", Actor: audit.Actor{Sub: "akey_1", Type: "service"}, Success: &success,
			Timestamp: audit.Timestamp(at), RequestID: fmt.Sprintf("%08d", i),
		}
		if i*10/n != (i+1)*10/n { // ten of the records, spread evenly
			e.Action, e.Actor.Sub = "key-bucket.delete", "akey_2"
		}
		text, err := json.Marshal(e)
		if err != nil {
			fx.Fatal(err)
		}
		writes = append(writes, store.Put(audit.ChainedKey(acme, e),
			trail.Link{Seq: int64(i + 1), Entry: string(text), TTL: at.Add(audit.Retention).Unix()}))
		additions.Count(acme, e, at)
		if len(writes) == 1000 {
			commit(writes)
			writes = nil
		}
	}
	for batch := range slices.Chunk(append(append(writes, additions.Writes()...), trail.PutHead(acme, n)), 1000) {
		commit(batch)
	}
}

// TestListCostIsIndependentOfChainLength checks the maximum cost of a list, in calls to the database and read units,
// for few and for many records. The first page must cost the same for both, up to 2 read units.
func TestListCostIsIndependentOfChainLength(t *testing.T) {
	simulations.SkipUnderRace(t)
	const few = 1_000
	many := 20_000
	if simulations.Runs(1) > 1 { // only in `make simulations`
		many = 1_000_000
	}
	delete10 := trail.Filter{Action: "key-bucket.delete"}
	pages := []struct {
		name string
		f    trail.Filter
		page func(total int) store.Page
		// calls and units are the maximum cost, for few and for many records.
		calls int
		units float64
	}{
		{"the first page", trail.Filter{}, func(int) store.Page { return store.Page{Limit: 20} }, 15, 60},
		{"the first page of 100", trail.Filter{}, func(int) store.Page { return store.Page{Limit: 100} }, 15, 100},
		{"the last page", trail.Filter{}, func(total int) store.Page {
			return store.Page{Limit: 20, Offset: total - 20}
		}, 20, 100},
		{"the last page after a position", trail.Filter{}, func(total int) store.Page {
			interval := trail.MaxSpan / time.Duration(total)
			return store.Page{
				Limit: 20,
				After: audit.Timestamp(storetest.Epoch.Add(time.Minute - interval*time.Duration(total-20))),
			}
		}, 15, 60},
		{
			"records of an actor", trail.Filter{Actor: "akey_1"}, func(int) store.Page { return store.Page{Limit: 20} }, 60, 200,
		},
		{"a rare action", delete10, func(int) store.Page { return store.Page{Limit: 20} }, 80, 400},
	}
	cost := map[string][2]store.Usage{}
	for i, n := range []int{few, many} {
		fx := newFixture(t)
		fx.fillChain(n, trail.MaxSpan)
		for _, p := range pages {
			p.f.From, p.f.To = fx.now.Add(-trail.MaxSpan).Truncate(4*time.Hour), fx.now.Truncate(4*time.Hour).Add(4*time.Hour)
			all, err := fx.List(t.Context(), acme, p.f, store.Page{Limit: 1})
			if err != nil {
				t.Fatal(err)
			}
			var meter store.Meter
			found, err := fx.List(store.WithMeter(t.Context(), &meter), acme, p.f, p.page(all.Total))
			if err != nil || found.Total != all.Total || p.f.Action == "" && p.f.Actor == "" && found.Total != n ||
				len(found.Entries) < 10 {
				t.Fatalf("List(%s) = %d entries, total %d, %v, want at least 10, total %d (%d without a filter)",
					p.name, len(found.Entries), found.Total, err, all.Total, n)
			}
			u := cost[p.name]
			u[i] = meter.Usage()
			cost[p.name] = u
		}
	}
	for _, p := range pages {
		u := cost[p.name]
		t.Logf("%s: of %d %+v, of %d %+v", p.name, few, u[0], many, u[1])
		for i, n := range []int{few, many} {
			if u[i].Reads+u[i].Queries > p.calls || u[i].ReadUnits > p.units {
				t.Errorf("List(%s) of %d records costs %+v, want at most %d calls and %v read units",
					p.name, n, u[i], p.calls, p.units)
			}
		}
	}
	if u := cost["the first page"]; u[0].Queries != u[1].Queries || u[0].Reads != u[1].Reads ||
		u[1].ReadUnits > u[0].ReadUnits+2 {
		t.Errorf("the first page costs %+v with %d records and %+v with %d, want the same (up to 2 read units)",
			u[0], few, u[1], many)
	}
}

// TestFilteredListReadsBusyMinuteOnce lists thousands of records of one minute, page by
// page. No counter divides a minute. The test lists without a filter, with a filter that
// nearly all records match, and with a filter that only a few distant records match.
// A filter must not make the lists of all pages cost more than twice as much.
func TestFilteredListReadsBusyMinuteOnce(t *testing.T) {
	simulations.SkipUnderRace(t)
	const many, few = 4_000, 10
	fx := newFixture(t)
	fx.fillChain(many, 50*time.Second)
	cost := map[string]float64{}
	for name, c := range map[string]struct {
		f           trail.Filter
		limit, want int
	}{
		"all": {trail.Filter{}, 200, many}, "most": {trail.Filter{Actor: "akey_1"}, 200, many - few},
		"few": {trail.Filter{Action: "key-bucket.delete"}, few / 3, few},
	} {
		c.f.From, c.f.To = fx.now.Truncate(time.Hour), fx.now.Truncate(time.Hour).Add(time.Hour)
		var meter store.Meter
		listed := 0
		for p := (store.Page{Limit: c.limit}); ; {
			found, err := fx.List(store.WithMeter(t.Context(), &meter), acme, c.f, p)
			if err != nil {
				t.Fatal(err)
			}
			listed += len(found.Entries)
			if !found.HasMore {
				break
			}
			p.After = found.Next()
		}
		if listed != c.want {
			t.Errorf("%s: List() of all pages returns %d records, want %d", name, listed, c.want)
		}
		cost[name] = meter.Usage().ReadUnits
	}
	for _, name := range []string{"most", "few"} {
		if cost[name] > 2*cost["all"] {
			t.Errorf("%s: List() of all pages costs %v read units, want at most twice the %v without a filter",
				name, cost[name], cost["all"])
		}
	}
}

// hookedBackend is a table that runs hook before each read and each query, one at a time.
type hookedBackend struct {
	store.Backend
	mu   sync.Mutex
	hook func()
}

func (b *hookedBackend) Query(ctx context.Context, q store.Query) ([]store.Item, string, error) {
	b.runHook()
	return b.Backend.Query(ctx, q)
}

func (b *hookedBackend) Read(ctx context.Context, keys []store.Key) ([]store.Item, error) {
	b.runHook()
	return b.Backend.Read(ctx, keys)
}

func (b *hookedBackend) runHook() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hook()
}

// TestTotalDuringConcurrentChanges checks that Total counts all records that were committed before the list began, and
// none that does not exist at its end. The number of entries and HasMore must match Total. The entries must be
// different, the newest first.
func TestTotalDuringConcurrentChanges(t *testing.T) {
	for seed := range uint64(simulations.Runs(15)) {
		r := rand.New(rand.NewPCG(seed, 5))
		fx := newFixture(t)
		for range r.IntN(40) {
			fx.record(randomChange(r, time.Hour))
		}
		steps := 0
		hooked := fx.withBackend(&hookedBackend{Backend: fx.items, hook: func() {
			if steps == 0 || r.IntN(8) > 0 {
				return
			}
			if steps--; r.IntN(2) == 0 {
				fx.record(randomChange(r, time.Hour))
				return
			}
			events := fx.takeEvents()
			n := r.IntN(len(events) + 1)
			fx.stream = append(fx.stream, events[n:]...)
			fx.HandleStream(t.Context(), events[:n])
		}})
		for range 10 {
			before := fx.recorded
			steps = 6
			limit := 1 + r.IntN(100)
			f := trail.Filter{From: fx.now.Add(-time.Hour), To: fx.now.Add(time.Hour)}
			found, err := hooked.List(t.Context(), acme, f, store.Page{Limit: limit})
			if err != nil {
				t.Fatalf("seed %d: List() during changes = %v, want success", seed, err)
			}
			if found.Total < before || found.Total > fx.recorded || found.HasMore != (found.Total > limit) ||
				len(found.Entries) != min(limit, found.Total) {
				t.Fatalf("seed %d: List() = %d entries, total %d, more %t, want a full page of %d, and a total of %d to %d",
					seed, len(found.Entries), found.Total, found.HasMore, limit, before, fx.recorded)
			}
			ids := map[string]bool{}
			for _, e := range found.Entries {
				ids[e.RequestID] = true
			}
			if len(ids) != len(found.Entries) {
				t.Fatalf("seed %d: List() = %d entries with %d ids, want different ids", seed, len(found.Entries), len(ids))
			}
			if !slices.IsSortedFunc(found.Entries, func(a, b audit.Entry) int { return -oldestFirst(a, b) }) {
				t.Fatalf("seed %d: List() = %+v, want the newest entry first", seed, found.Entries)
			}
		}
	}
}

// oldestFirst compares the positions of two different entries.
func oldestFirst(a, b audit.Entry) int {
	if trail.Position(a) < trail.Position(b) {
		return -1
	}
	return 1
}

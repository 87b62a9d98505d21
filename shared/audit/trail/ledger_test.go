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

	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/audit/trail"
	"github.com/gatewright/gatewright/shared/operation/simulations"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

// fill writes n chained records, spread evenly over a time up to a minute from now, and
// their counters, past the chain: a million would take minutes there.
func (w *world) fill(n int, over time.Duration) {
	w.Helper()
	counted := trail.Counting{}
	var writes []store.Write
	commit := func(writes []store.Write) {
		if err := w.items.Transact(w.Context(), fmt.Sprint("fill", rand.Uint64()), writes); err != nil {
			w.Fatal(err)
		}
	}
	yes := true
	every := over / time.Duration(n)
	for i := range n {
		at := w.now.Add(-every * time.Duration(n-i)).Add(time.Minute)
		e := audit.Entry{
			Action: "key-bucket.update", Actor: audit.Actor{Sub: "akey_1", Type: "service"}, Success: &yes,
			Timestamp: audit.Timestamp(at), RequestID: fmt.Sprintf("%08d", i),
		}
		if i*10/n != (i+1)*10/n { // ten of them, all over the month
			e.Action, e.Actor.Sub = "key-bucket.delete", "akey_2"
		}
		text, err := json.Marshal(e)
		if err != nil {
			w.Fatal(err)
		}
		writes = append(writes, store.Put(audit.ChainedKey(acme, e), trail.Link{Seq: int64(i + 1), Entry: string(text), TTL: at.Add(audit.Retention).Unix()}))
		counted.Count(acme, e, at)
		if len(writes) == 1000 {
			commit(writes)
			writes = nil
		}
	}
	for some := range slices.Chunk(append(append(writes, counted.Writes()...), trail.End(acme, n)), 1000) {
		commit(some)
	}
}

// TestPageOverAMillionRecordsCostsWhatOneOverAThousandDoes is the ledger of the
// list: calls to the database and units that it reads.
func TestPageOverAMillionRecordsCostsWhatOneOverAThousandDoes(t *testing.T) {
	simulations.Sequential(t)
	const few = 1_000
	many := 20_000
	if simulations.Runs(1) > 1 { // make simulations
		many = 1_000_000
	}
	delete10 := trail.Filter{Action: "key-bucket.delete"}
	pages := []struct {
		name string
		f    trail.Filter
		page func(total int) store.Page
		// calls and units are the most that it may cost, of few and of many.
		calls int
		units float64
	}{
		{"the first page", trail.Filter{}, func(int) store.Page { return store.Page{Limit: 20} }, 15, 60},
		{"the first page of 100", trail.Filter{}, func(int) store.Page { return store.Page{Limit: 100} }, 15, 100},
		{"the last page", trail.Filter{}, func(total int) store.Page { return store.Page{Limit: 20, Offset: total - 20} }, 20, 100},
		{"the last page behind a position", trail.Filter{}, func(total int) store.Page {
			every := trail.MaxSpan / time.Duration(total)
			return store.Page{Limit: 20, After: audit.Timestamp(storetest.Epoch.Add(time.Minute - every*time.Duration(total-20)))}
		}, 15, 60},
		{"by an actor", trail.Filter{Actor: "akey_1"}, func(int) store.Page { return store.Page{Limit: 20} }, 60, 200},
		{"a rare action", delete10, func(int) store.Page { return store.Page{Limit: 20} }, 80, 400},
	}
	cost := map[string][2]store.Usage{}
	for i, n := range []int{few, many} {
		w := newWorld(t)
		w.fill(n, trail.MaxSpan)
		for _, p := range pages {
			p.f.From, p.f.To = w.now.Add(-trail.MaxSpan).Truncate(4*time.Hour), w.now.Truncate(4*time.Hour).Add(4*time.Hour)
			all, err := w.List(t.Context(), acme, p.f, store.Page{Limit: 1})
			if err != nil {
				t.Fatal(err)
			}
			var meter store.Meter
			found, err := w.List(store.WithMeter(t.Context(), &meter), acme, p.f, p.page(all.Total))
			if err != nil || found.Total != all.Total || p.f.Action == "" && p.f.Actor == "" && found.Total != n || len(found.Entries) < 10 {
				t.Fatalf("%s: %d of %d, %v", p.name, len(found.Entries), found.Total, err)
			}
			u := cost[p.name]
			u[i] = meter.Usage()
			cost[p.name] = u
		}
	}
	for _, p := range pages {
		u := cost[p.name]
		t.Logf("%s: of %d %+v, of %d %+v", p.name, few, u[0], many, u[1])
		for _, u := range u {
			if u.Reads+u.Queries > p.calls || u.ReadUnits > p.units {
				t.Errorf("%s costs %+v, want at most %d calls and %v units", p.name, u, p.calls, p.units)
			}
		}
	}
	if u := cost["the first page"]; u[0].Queries != u[1].Queries || u[0].Reads != u[1].Reads || u[1].ReadUnits > u[0].ReadUnits+2 {
		t.Errorf("the first page costs %+v of %d and %+v of %d", u[0], few, u[1], many)
	}
}

// TestAWalkByAFilterReadsABusyMinuteOnce walks through thousands of records of one minute, whose parts no counter
// has: by no filter, by one that lets nearly all through, and by one for few that lie far apart.
func TestAWalkByAFilterReadsABusyMinuteOnce(t *testing.T) {
	simulations.Sequential(t)
	const many, few = 4_000, 10
	w := newWorld(t)
	w.fill(many, 50*time.Second)
	cost := map[string]float64{}
	for name, c := range map[string]struct {
		f           trail.Filter
		limit, want int
	}{
		"all": {trail.Filter{}, 200, many}, "most": {trail.Filter{Actor: "akey_1"}, 200, many - few}, "few": {trail.Filter{Action: "key-bucket.delete"}, few / 3, few},
	} {
		c.f.From, c.f.To = w.now.Truncate(time.Hour), w.now.Truncate(time.Hour).Add(time.Hour)
		var meter store.Meter
		listed := 0
		for p := (store.Page{Limit: c.limit}); ; {
			found, err := w.List(store.WithMeter(t.Context(), &meter), acme, c.f, p)
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
			t.Errorf("%s: a walk has %d, want %d", name, listed, c.want)
		}
		cost[name] = meter.Usage().ReadUnits
	}
	for _, name := range []string{"most", "few"} {
		if cost[name] > 2*cost["all"] {
			t.Errorf("%s: a walk reads %v units, and one of all %v", name, cost[name], cost["all"])
		}
	}
}

// busy is a table that something is done to ahead of some reads.
type busy struct {
	store.Backend
	mu   sync.Mutex
	step func()
}

func (b *busy) Query(ctx context.Context, q store.Query) ([]store.Item, string, error) {
	b.do()
	return b.Backend.Query(ctx, q)
}

func (b *busy) Read(ctx context.Context, keys []store.Key) ([]store.Item, error) {
	b.do()
	return b.Backend.Read(ctx, keys)
}

func (b *busy) do() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.step()
}

// TestTotalIsTrueWhileChangesAreMadeAndChained: a list shows all that was committed
// before it, each once, and total and hasMore are of the state that it shows.
func TestTotalIsTrueWhileChangesAreMadeAndChained(t *testing.T) {
	for seed := range uint64(simulations.Runs(30)) {
		r := rand.New(rand.NewPCG(seed, 5))
		w := newWorld(t)
		for range r.IntN(40) {
			w.record(some(r, time.Hour))
		}
		steps := 0
		list := w.over(&busy{Backend: w.items, step: func() {
			if steps == 0 || r.IntN(8) > 0 {
				return
			}
			if steps--; r.IntN(2) == 0 {
				w.record(some(r, time.Hour))
				return
			}
			told := w.told()
			n := r.IntN(len(told) + 1)
			w.stream = append(w.stream, told[n:]...)
			w.HandleStream(t.Context(), told[:n])
		}})
		for range 10 {
			before := w.made
			steps = 6
			limit := 1 + r.IntN(100)
			f := trail.Filter{From: w.now.Add(-time.Hour), To: w.now.Add(time.Hour)}
			found, err := list.List(t.Context(), acme, f, store.Page{Limit: limit})
			if err != nil {
				t.Fatal(err)
			}
			if found.Total < before || found.Total > w.made || found.HasMore != (found.Total > limit) || len(found.Entries) != min(limit, found.Total) {
				t.Fatalf("seed %d: total %d, more %v, %d entries of %d; %d were there before and %d after", seed, found.Total, found.HasMore, len(found.Entries), limit, before, w.made)
			}
			ids := map[string]bool{}
			for _, e := range found.Entries {
				ids[e.RequestID] = true
			}
			if len(ids) != len(found.Entries) || !slices.IsSortedFunc(found.Entries, func(a, b audit.Entry) int { return -oldest(a, b) }) {
				t.Fatalf("seed %d: %d entries with %d ids, or out of order", seed, len(found.Entries), len(ids))
			}
		}
	}
}

func oldest(a, b audit.Entry) int {
	if trail.Position(a) < trail.Position(b) {
		return -1
	}
	return 1
}

package counts

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/analytics"
	"github.com/gatewright/gatewright/shared/operation/simulations"
	"github.com/gatewright/gatewright/shared/store"
)

// TestRowsStayBelowTheirBound, whatever a stranger calls: thousands of consumers, operations with names of their own and latencies of all
// lengths. What has no room counts all the same.
func TestRowsStayBelowTheirBound(t *testing.T) {
	simulations.Sequential(t)
	t.Parallel()
	w := newWorld(t)
	random := rand.New(rand.NewPCG(3, 4))
	const rounds, each, operations = 3, 3_000, 120_000
	for round := range rounds {
		c := w.collector()
		for i := range each {
			call := calledBy(fmt.Sprintf("%s-%d", strings.Repeat("c", 100), round*each+i), 100+i%900, w.time.Add(time.Duration(i)*time.Millisecond))
			call.Route = fmt.Sprintf("/%x/%d", random.Uint64(), i)
			for range 20 {
				call.Route += fmt.Sprintf("/%x", random.Uint64())
			}
			c.Call(call)
		}
		for i := range operations {
			o := asked(fmt.Sprintf("%s%d", strings.Repeat("O", 150), i%300), time.Duration(math.Pow(10, 3+8*random.Float64())), w.time)
			if i%3 > 0 { // of these each has a name often, and latencies of all kinds
				o.Name = fmt.Sprintf("Operation%d", (round*100+i)%300)
			}
			c.Operation(o)
		}
		w.drain(c)
		w.rollup()
		w.time = w.time.Add(time.Minute)
	}
	for _, item := range w.items.Items() {
		if size := store.Size(item); size > maxRowBytes+1024 {
			t.Errorf("%v has %d bytes", store.KeyOf(item), size)
		}
	}
	got := w.statuses(LastThreeMonths, everybody)
	total := int64(0)
	for _, c := range got.Totals {
		total += c.Calls
	}
	if total != rounds*each || !slices.ContainsFunc(got.Totals, func(c CallerCount) bool { return c.Consumer == Other }) {
		t.Errorf("%d calls are counted, want %d", total, rounds*each)
	}
	asked := w.operations(LastThreeMonths)
	sum := int64(0)
	for _, o := range asked.Each {
		sum += o.Operations
		if len(o.Name) > maxNameBytes {
			t.Errorf("an operation is called %s", o.Name)
		}
	}
	if asked.Totals.Operations != rounds*operations || sum != rounds*operations || len(asked.Each) > maxOperations+4 {
		t.Errorf("%d operations are counted, %d one by one under %d names", asked.Totals.Operations, sum, len(asked.Each))
	}
	if n := len(w.recent(everybody, 5000)); n == 0 || n > maxRecent {
		t.Errorf("%d calls are known one by one", n)
	}
}

// TestMemoryIsBounded, under many deployments and operations, as long as nothing can be written.
func TestMemoryIsBounded(t *testing.T) {
	simulations.Sequential(t)
	t.Parallel()
	w := newWorld(t)
	c := w.collector()
	for i := range maxDeployments + 5_000 {
		at := analytics.Deployment{Name: fmt.Sprintf("d-%d", i)}
		for n := range 3 {
			c.Call(analytics.Call{Deployment: at, Status: 200, At: w.time})
			c.Operation(analytics.Operation{Deployment: at, Name: fmt.Sprint("O", n), Type: "query", At: w.time})
		}
	}
	many := analytics.Deployment{Name: "many"}
	for i := range maxAllRecent {
		c.Call(analytics.Call{Deployment: analytics.Deployment{Name: fmt.Sprintf("d-%d", i%1000)}, Status: 200, At: w.time})
		c.Call(analytics.Call{Deployment: many, Status: 200, At: w.time})
	}
	deployments, recent := 0, 0
	for i := range c.shards {
		deployments += len(c.shards[i].deployments)
		for _, f := range c.shards[i].deployments {
			recent += len(f.recent.calls)
		}
	}
	operations, _ := c.held(t)
	if deployments > maxDeployments || operations > maxAllOperations || recent > maxAllRecent+deployments {
		t.Errorf("in memory are %d deployments, %d operations and %d calls", deployments, operations, recent)
	}
	if c.lost.Load() == 0 {
		t.Error("no call was lost, and none told")
	}
	if c.recent.Load() != int64(recent) {
		t.Errorf("%d calls are held to be there, of %d", c.recent.Load(), recent)
	}
	w.drain(c)
	if operations, _ := c.held(t); operations != 0 || c.recent.Load() != 0 {
		t.Errorf("after they are written, there are %d operations, and %d calls are held to be there", operations, c.recent.Load())
	}
}

// held is how many operations and callers a collector has in memory by name, which it has to know itself.
func (c *Collector) held(t *testing.T) (operations, callers int) {
	t.Helper()
	for i := range c.shards {
		sh := &c.shards[i]
		operationsHere, callersHere := 0, 0
		for s := range sh.tallies() {
			operationsHere += len(s.operations)
			callersHere += len(s.calls)
		}
		if sh.operations != operationsHere || sh.callers != callersHere {
			t.Errorf("%d operations and %d callers are held to be there, of %d and %d", sh.operations, sh.callers, operationsHere, callersHere)
		}
		operations += operationsHere
		callers += callersHere
	}
	return operations, callers
}

// counting counts what is asked of a table.
type counting struct {
	store.Backend
	items, transactions, writes atomic.Int64 // several goroutines ask
}

func (c *counting) Read(ctx context.Context, keys []store.Key) ([]store.Item, error) {
	c.items.Add(int64(len(keys)))
	return c.Backend.Read(ctx, keys)
}

func (c *counting) Query(ctx context.Context, q store.Query) ([]store.Item, string, error) {
	items, next, err := c.Backend.Query(ctx, q)
	c.items.Add(int64(len(items)))
	return items, next, err
}

func (c *counting) Transact(ctx context.Context, token string, writes []store.Write) error {
	c.transactions.Add(1)
	c.writes.Add(int64(len(writes)))
	return c.Backend.Transact(ctx, token, writes)
}

// TestThreeMonthsAreFewItems: four gateways have called all the time, and each of them has written in the minute that is not added up yet.
func TestThreeMonthsAreFewItems(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	gateways := []*Collector{w.collector(), w.collector(), w.collector(), w.collector()}
	for range 100 * 4 {
		w.time = w.time.Add(6 * time.Hour)
		for _, c := range gateways {
			c.Call(calledBy("acme", 200, w.time))
			c.Operation(asked("List", time.Millisecond, w.time))
			w.drain(c)
		}
		w.rollup()
	}
	for range 6 {
		w.time = w.time.Add(writeInterval)
		for _, c := range gateways {
			c.Call(calledBy("acme", 200, w.time))
			w.drain(c)
		}
	}
	for _, window := range []Window{LastHour, Last24Hours, Last7Days, Last30Days, LastThreeMonths} {
		seen := &counting{Backend: w.items}
		r := NewReader(store.New(seen, store.Options{Random: w.random, Now: w.now}), w.now)
		if _, err := r.Statuses(t.Context(), shop.Name, window, everybody); err != nil {
			t.Fatal(err)
		}
		if seen.items.Load() > 100 {
			t.Errorf("%s reads %d items, want 100 at most", window, seen.items.Load())
		}
		t.Logf("%s reads %d items", window, seen.items.Load())
	}
}

// TestWritesAreFewAtLoad: of ten seconds with a thousand requests of a deployment, and of what is added up of them.
func TestWritesAreFewAtLoad(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seen := &counting{Backend: w.items}
	table := store.New(seen, store.Options{Random: w.random, Now: w.now})
	c := w.collectorOver(table)
	const minutes, requests = 10, 1_000
	calls := int64(0)
	for range minutes {
		for range 6 {
			w.time = w.time.Add(writeInterval)
			for i := range requests {
				c.Call(calledBy(fmt.Sprint("c", i%20), 200, w.time))
				calls++
			}
			w.drain(c)
		}
		if _, err := NewRollup(table, w.now).Run(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if seen.writes.Load()*100 > calls {
		t.Errorf("%d requests have taken %d writes of items, want one for 100 at most", calls, seen.writes.Load())
	}
	t.Logf("%d requests: %d writes of items in %d transactions", calls, seen.writes.Load(), seen.transactions.Load())
}

// TestSeldomCallsAreWrittenAtOnce where an instance has no time of its own, and frequent ones together.
func TestSeldomCallsAreWrittenAtOnce(t *testing.T) {
	w := newWorld(t)
	seen := &counting{Backend: w.items}
	c := w.collectorOver(store.New(seen, store.Options{Random: w.random, Now: w.now}))
	call := func(n int, every time.Duration) (written int64) {
		before := seen.transactions.Load()
		for range n {
			w.time = w.time.Add(every)
			c.Call(calledBy("acme", 200, w.time))
			c.FlushWhenDue(t.Context())
		}
		return seen.transactions.Load() - before
	}
	if got := call(10, time.Second); got != 10 {
		t.Errorf("10 calls, one a second, are written %d times", got)
	}
	if got := call(10, writeInterval); got != 10 {
		t.Errorf("10 calls, one in ten seconds, are written %d times", got)
	}
	if got := call(10_000, 10*time.Millisecond); got != 100 {
		t.Errorf("10,000 calls in 100 s are written %d times, want once for 100", got)
	}
	c.FlushWhenDue(t.Context())
	before := seen.transactions.Load()
	w.time = w.time.Add(time.Hour)
	w.drain(c)
	c.FlushWhenDue(t.Context())
	if seen.transactions.Load() > before+1 {
		t.Error("nothing new is written as well")
	}
}

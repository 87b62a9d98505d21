package counts

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/resource/analytics"
	"github.com/gatewright/gatewright/shared/testing/simulations"
)

// TestRowsStayBelowMaxSize counts thousands of consumers, operations with many names, and latencies of all lengths, as
// an attacker could send them. Calls with names beyond the capacity must count, too.
func TestRowsStayBelowMaxSize(t *testing.T) {
	simulations.SkipUnderRace(t)
	t.Parallel()
	fx := newFixture(t)
	random := rand.New(rand.NewPCG(3, 4))
	const rounds, perRound, operations = 3, 3_000, 120_000
	for round := range rounds {
		c := fx.collector()
		for i := range perRound {
			call := newCall(fmt.Sprintf("%s-%d", strings.Repeat("c", 100), round*perRound+i), 100+i%900,
				fx.time.Add(time.Duration(i)*time.Millisecond))
			call.Route = fmt.Sprintf("/%x/%d", random.Uint64(), i)
			for range 20 {
				call.Route += fmt.Sprintf("/%x", random.Uint64())
			}
			c.Call(call)
		}
		for i := range operations {
			o := newOperation(fmt.Sprintf("%s%d", strings.Repeat("O", 150), i%300),
				time.Duration(math.Pow(10, 3+8*random.Float64())), fx.time)
			if i%3 > 0 { // two thirds of the operations have 300 short names, and the names of the others are too long
				o.Name = fmt.Sprintf("Operation%d", (round*100+i)%300)
			}
			c.Operation(o)
		}
		fx.drain(c)
		fx.rollup()
		fx.time = fx.time.Add(time.Minute)
	}
	for _, item := range fx.items.Items() {
		if size := store.Size(item); size > maxRowBytes+1024 {
			t.Errorf("item %v has %d bytes, want at most %d", store.KeyOf(item), size, maxRowBytes+1024)
		}
	}
	got := fx.statuses(LastThreeMonths, allCallers)
	total := int64(0)
	for _, c := range got.Totals {
		total += c.Calls
	}
	if total != rounds*perRound {
		t.Errorf("%d calls counted, want %d", total, rounds*perRound)
	}
	if got.callsOf(Other) == 0 {
		t.Errorf("0 calls counted under %s, want some", Other)
	}
	report := fx.operations(LastThreeMonths)
	sum := int64(0)
	for _, o := range report.Each {
		sum += o.Operations
		if len(o.Name) > maxNameBytes {
			t.Errorf("name of an operation = %q, want at most %d bytes", o.Name, maxNameBytes)
		}
	}
	if report.Totals.Operations != rounds*operations || sum != rounds*operations || len(report.Each) > maxOperations+4 {
		t.Errorf("report = %d operations in total, %d in %d entries, want %d, %[4]d and at most %[5]d entries",
			report.Totals.Operations, sum, len(report.Each), rounds*operations, maxOperations+4)
	}
	if n := len(fx.recent(allCallers, 5000)); n == 0 || n > maxRecent {
		t.Errorf("Recent() = %d calls, want 1 to %d", n, maxRecent)
	}
}

// TestCollectorMemoryIsBounded checks the numbers of deployments, operations and single calls in memory after many of
// them were counted without a write.
func TestCollectorMemoryIsBounded(t *testing.T) {
	simulations.SkipUnderRace(t)
	t.Parallel()
	fx := newFixture(t)
	c := fx.collector()
	for i := range maxDeployments + 5_000 {
		deployment := analytics.Deployment{Name: fmt.Sprintf("d-%d", i)}
		for n := range 3 {
			c.Call(analytics.Call{Deployment: deployment, Status: 200, At: fx.time})
			c.Operation(analytics.Operation{Deployment: deployment, Name: fmt.Sprint("O", n), Type: "query", At: fx.time})
		}
	}
	busy := analytics.Deployment{Name: "many"}
	for i := range maxAllRecent {
		c.Call(analytics.Call{Deployment: analytics.Deployment{Name: fmt.Sprintf("d-%d", i%1000)}, Status: 200, At: fx.time})
		c.Call(analytics.Call{Deployment: busy, Status: 200, At: fx.time})
	}
	deployments, recent := 0, 0
	for i := range c.shards {
		deployments += len(c.shards[i].deployments)
		for _, pending := range c.shards[i].deployments {
			recent += len(pending.recent.calls)
		}
	}
	operations, _ := c.namesInMemory(t)
	if deployments > maxDeployments || operations > maxAllOperations || recent > maxAllRecent+deployments {
		t.Errorf("in memory: %d deployments, %d operations, %d recent calls, want at most %d, %d, %d",
			deployments, operations, recent, maxDeployments, maxAllOperations, maxAllRecent+deployments)
	}
	if c.lost.Load() == 0 {
		t.Error("lost calls = 0, want some to be lost and counted")
	}
	if c.recent.Load() != int64(recent) {
		t.Errorf("count of recent calls = %d, want %d", c.recent.Load(), recent)
	}
	fx.drain(c)
	if operations, _ := c.namesInMemory(t); operations != 0 || c.recent.Load() != 0 {
		t.Errorf("after Drain(): %d operations and %d recent calls in memory, want 0 and 0", operations, c.recent.Load())
	}
}

// namesInMemory returns the numbers of operations and callers with names in a collector's memory. They must match the collector's own counters.
func (c *Collector) namesInMemory(t *testing.T) (operations, callers int) {
	t.Helper()
	for i := range c.shards {
		sh := &c.shards[i]
		shardOperations, shardCallers := 0, 0
		for s := range sh.tallies() {
			shardOperations += len(s.operations)
			shardCallers += len(s.calls)
		}
		if sh.operations != shardOperations || sh.callers != shardCallers {
			t.Errorf("counters of a shard = %d operations and %d callers, want %d and %d",
				sh.operations, sh.callers, shardOperations, shardCallers)
		}
		operations += shardOperations
		callers += shardCallers
	}
	return operations, callers
}

// countingBackend counts the items that are read from a table, and the transactions with their writes.
type countingBackend struct {
	store.Backend
	items, transactions, writes atomic.Int64 // atomic, because several goroutines use the table
}

func (c *countingBackend) Read(ctx context.Context, keys []store.Key) ([]store.Item, error) {
	c.items.Add(int64(len(keys)))
	return c.Backend.Read(ctx, keys)
}

func (c *countingBackend) Query(ctx context.Context, q store.Query) ([]store.Item, string, error) {
	items, next, err := c.Backend.Query(ctx, q)
	c.items.Add(int64(len(items)))
	return items, next, err
}

func (c *countingBackend) Transact(ctx context.Context, token string, writes []store.Write) error {
	c.transactions.Add(1)
	c.writes.Add(int64(len(writes)))
	return c.Backend.Transact(ctx, token, writes)
}

// TestReportReadsFewItems checks that a report reads at most 100 items after four gateways have counted calls for a
// long time. Each gateway has also written in the last minute, which is not rolled up yet.
func TestReportReadsFewItems(t *testing.T) {
	t.Parallel()
	fx := newFixture(t)
	gateways := []*Collector{fx.collector(), fx.collector(), fx.collector(), fx.collector()}
	for range 100 * 4 {
		fx.time = fx.time.Add(6 * time.Hour)
		for _, c := range gateways {
			c.Call(newCall("acme", 200, fx.time))
			c.Operation(newOperation("List", time.Millisecond, fx.time))
			fx.drain(c)
		}
		fx.rollup()
	}
	for range 6 {
		fx.time = fx.time.Add(writeInterval)
		for _, c := range gateways {
			c.Call(newCall("acme", 200, fx.time))
			fx.drain(c)
		}
	}
	for _, window := range []Window{LastHour, Last24Hours, Last7Days, Last30Days, LastThreeMonths} {
		backend := &countingBackend{Backend: fx.items}
		r := NewReader(store.New(backend, store.Options{Random: fx.random, Now: fx.now}), fx.now)
		if _, err := r.Statuses(t.Context(), shop.Name, window, allCallers); err != nil {
			t.Fatalf("Statuses(%s) error = %v, want none", window, err)
		}
		if backend.items.Load() > 100 {
			t.Errorf("%s reads %d items, want at most 100", window, backend.items.Load())
		}
		t.Logf("%s reads %d items", window, backend.items.Load())
	}
}

// TestHighLoadNeedsFewWrites counts a thousand requests of one deployment in each writeInterval. All writes, including
// those of the rollups, must be at most one for 100 requests.
func TestHighLoadNeedsFewWrites(t *testing.T) {
	t.Parallel()
	fx := newFixture(t)
	backend := &countingBackend{Backend: fx.items}
	table := store.New(backend, store.Options{Random: fx.random, Now: fx.now})
	c := fx.collectorOver(table)
	const minutes, requests = 10, 1_000
	calls := int64(0)
	for range minutes {
		for range 6 {
			fx.time = fx.time.Add(writeInterval)
			for i := range requests {
				c.Call(newCall(fmt.Sprint("c", i%20), 200, fx.time))
				calls++
			}
			fx.drain(c)
		}
		if _, err := NewRollup(table, fx.now).Run(t.Context()); err != nil {
			t.Fatalf("Run() of a rollup: error = %v, want none", err)
		}
	}
	if backend.writes.Load()*100 > calls {
		t.Errorf("%d requests take %d writes of items, want at most %d", calls, backend.writes.Load(), calls/100)
	}
	t.Logf("%d requests: %d writes of items in %d transactions", calls, backend.writes.Load(), backend.transactions.Load())
}

// TestRareCallsAreWrittenImmediately tests an instance without background time. It must write rare calls immediately,
// and several frequent calls in one write.
func TestRareCallsAreWrittenImmediately(t *testing.T) {
	fx := newFixture(t)
	backend := &countingBackend{Backend: fx.items}
	c := fx.collectorOver(store.New(backend, store.Options{Random: fx.random, Now: fx.now}))
	call := func(n int, step time.Duration) (written int64) {
		before := backend.transactions.Load()
		for range n {
			fx.time = fx.time.Add(step)
			c.Call(newCall("acme", 200, fx.time))
			c.FlushWhenDue(t.Context())
		}
		return backend.transactions.Load() - before
	}
	if got := call(10, time.Second); got != 10 {
		t.Errorf("10 calls, one a second: %d writes, want 10", got)
	}
	if got := call(10, writeInterval); got != 10 {
		t.Errorf("10 calls, one per interval: %d writes, want 10", got)
	}
	if got := call(10_000, 10*time.Millisecond); got != 100 {
		t.Errorf("10,000 calls in 100 s: %d writes, want 100", got)
	}
	c.FlushWhenDue(t.Context())
	before := backend.transactions.Load()
	fx.time = fx.time.Add(time.Hour)
	fx.drain(c)
	c.FlushWhenDue(t.Context())
	if backend.transactions.Load() > before+1 {
		t.Errorf("Drain() and FlushWhenDue() without new calls: %d more writes, want at most 1",
			backend.transactions.Load()-before)
	}
}

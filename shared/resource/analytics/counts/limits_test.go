package counts

import (
	"encoding/base64"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/resource/analytics"
	"github.com/gatewright/gatewright/shared/testing/simulations"
)

// incompressible returns a text that compression cannot reduce below three quarters of its size.
func incompressible(random *rand.ChaCha8, size int) string {
	text := make([]byte, size)
	_, _ = random.Read(text)
	return base64.RawURLEncoding.EncodeToString(text)[:size]
}

// TestLongNamesDoNotBlockWrites counts callers with long, different names, such as the subjects of certificates of an
// account's own CA. Their row must not exceed the table's limit: a row that cannot be written would block all later
// rows.
func TestLongNamesDoNotBlockWrites(t *testing.T) {
	t.Parallel()
	const (
		maxItemBytes          = 400 << 10
		rounds, callsPerRound = 5, 4_000
	)
	for _, size := range []int{100, MaxConsumerBytes, 2 << 10} {
		t.Run(fmt.Sprint(size, " bytes"), func(t *testing.T) {
			t.Parallel()
			fx := newFixture(t)
			for range rounds {
				c := fx.collector()
				for i := range callsPerRound {
					// The callers of several intervals accumulate, as if the table did not respond for a while.
					at := fx.time.Add(time.Duration(i%maxMemoryIntervals) * finest.duration)
					c.Call(newCall(incompressible(fx.random, size), 200+i%3, at))
				}
				fx.drain(c)
				fx.rollup()
			}
			calls := int64(0)
			for _, item := range fx.items.Items() {
				if size := store.Size(item); size > maxRowBytes+1024 {
					t.Errorf("item %v has %d bytes, want at most %d (limit of the table: %d)",
						store.KeyOf(item), size, maxRowBytes+1024, maxItemBytes)
				}
			}
			for _, count := range fx.statuses(LastThreeMonths, allCallers).Totals {
				calls += count.Calls
			}
			if calls != rounds*callsPerRound {
				t.Errorf("%d calls counted, want %d", calls, rounds*callsPerRound)
			}
		})
	}
}

// TestConcurrentStreamEndsKeepIntervals ends calls at the same time that began in each of the last 20 hours. Current
// calls must still count in the current interval, and all other calls in the last 24 hours.
func TestConcurrentStreamEndsKeepIntervals(t *testing.T) {
	t.Parallel()
	fx := newFixture(t)
	now := fx.time.Truncate(time.Hour).Add(30 * time.Minute)
	fx.time = now
	c := fx.collector()
	const streams = 20
	for i := range streams {
		startedAt := now.Add(-time.Duration((i*7)%streams+1) * time.Hour)
		c.Call(newCall("stream", 200, startedAt))
		o := newOperation(fmt.Sprint("Stream", i), time.Second, startedAt)
		c.Operation(o)
	}
	for range 10 {
		c.Call(newCall("acme", 200, now))
	}
	if got, _ := c.namesInMemory(t); got != streams {
		t.Errorf("%d operations in memory, want %d", got, streams)
	}
	fx.drain(c)
	fx.rollup()
	if got := formatCounts(fx.statuses(LastHour, Callers{Names: []string{"acme"}}).Totals); got != "acme 10 [{200 10}]\n" {
		t.Errorf("statuses(LastHour, acme) = %q, want acme with 10 calls", got)
	}
	if got := formatCounts(fx.statuses(Last24Hours,
		allCallers).Totals); got != "stream 20 [{200 20}]\nacme 10 [{200 10}]\n" {
		t.Errorf("statuses(Last24Hours) = %q, want stream with 20 calls and acme with 10", got)
	}
	if got := fx.operations(Last24Hours).Totals.Operations; got != streams {
		t.Errorf("operations(Last24Hours) counts %d, want %d", got, streams)
	}
	if got, _ := c.namesInMemory(t); got != 0 {
		t.Errorf("%d operations in memory after Drain(), want 0", got)
	}
}

// TestComplexitySumSaturates checks that the sum of complexities does not overflow.
func TestComplexitySumSaturates(t *testing.T) {
	t.Parallel()
	fx := newFixture(t)
	for range 3 {
		c := fx.collector()
		for range 400 {
			o := newOperation("Doubled", time.Millisecond, fx.time)
			o.Complexity = 1<<53 - 1
			c.Operation(o)
		}
		fx.drain(c)
		fx.rollup()
	}
	got := fx.operations(LastHour).Totals
	if got.ComplexityMax != 1<<53-1 || got.ComplexityAvg <= 0 || got.ComplexityAvg > 1<<53 {
		t.Errorf("totals = %+v, want ComplexityMax %d and ComplexityAvg above 0, at most %d", got, 1<<53-1, 1<<53)
	}
}

// TestExtremeLatencyDoesNotHideOthers checks that one extreme latency does not hide the others.
func TestExtremeLatencyDoesNotHideOthers(t *testing.T) {
	t.Parallel()
	fx := newFixture(t)
	c := fx.collector()
	for range 99 {
		c.Operation(newOperation("A", 2*time.Millisecond, fx.time))
	}
	o := newOperation("A", math.MaxInt64, fx.time)
	o.Resolver = math.MaxInt64
	c.Operation(o)
	fx.drain(c)
	fx.rollup()
	got := fx.operations(LastHour).Totals
	if !withinTolerance(got.Total.P95, 2*time.Millisecond, 0.02) ||
		!withinTolerance(got.Resolver.P95, time.Millisecond, 0.02) {
		t.Errorf("P95 of totals = %s, of resolvers %s, want about 2ms and 1ms", got.Total.P95, got.Resolver.P95)
	}
}

// TestCallersInMemoryAreBounded checks that the number of callers in memory is limited after many of them were counted
// without a write, and that no call is lost.
func TestCallersInMemoryAreBounded(t *testing.T) {
	simulations.SkipUnderRace(t)
	t.Parallel()
	fx := newFixture(t)
	c := fx.collector()
	const deployments, callersEach = 400, 1_000
	for d := range deployments {
		deployment := analytics.Deployment{Name: fmt.Sprint("d-", d)}
		for i := range callersEach {
			c.Call(analytics.Call{Deployment: deployment, Consumer: fmt.Sprint("c", i), Status: 200, At: fx.time})
		}
	}
	calls := int64(0)
	for i := range c.shards {
		for _, pending := range c.shards[i].deployments {
			calls += pending.calls()
		}
	}
	_, inMemory := c.namesInMemory(t)
	if inMemory > maxAllCallers || calls != deployments*callersEach {
		t.Errorf("in memory: %d callers with %d calls, want at most %d with %d",
			inMemory, calls, maxAllCallers, deployments*callersEach)
	}
	fx.drain(c)
	if _, inMemory := c.namesInMemory(t); inMemory != 0 {
		t.Errorf("after Drain(): %d callers in memory, want 0", inMemory)
	}
}

// TestRollupOfStreamsOverManyDays ends calls at the same time that began in each of the last 200 hours. Their rollup
// must still fit into a transaction. Recent must have only the calls of the last 24 hours.
func TestRollupOfStreamsOverManyDays(t *testing.T) {
	t.Parallel()
	fx := newFixture(t)
	c := fx.collector()
	const streams = 200
	for i := range streams {
		c.Call(newCall("stream", 200, fx.time.Add(-time.Duration(i)*time.Hour)))
	}
	fx.drain(c)
	fx.rollup()
	if got := formatCounts(fx.statuses(LastThreeMonths, allCallers).Totals); got != "stream 200 [{200 200}]\n" {
		t.Errorf("statuses(LastThreeMonths) = %q, want stream with 200 calls", got)
	}
	if got := len(fx.recent(allCallers, maxRecent)); got != 25 {
		t.Errorf("Recent() = %d calls, want 25", got)
	}
}

// TestLongCallerNamesCountAsOther checks that callers with names longer than MaxConsumerBytes count as Other, in the
// statistics and in the list of recent calls.
func TestLongCallerNamesCountAsOther(t *testing.T) {
	t.Parallel()
	fx := newFixture(t)
	c := fx.collector()
	for _, size := range []int{MaxConsumerBytes, MaxConsumerBytes + 1} {
		c.Call(newCall(strings.Repeat("a", size), 200, fx.time))
	}
	fx.drain(c)
	want := []string{Other, strings.Repeat("a", MaxConsumerBytes)}
	var inTotals, inRecent []string
	for _, count := range fx.statuses(LastHour, allCallers).Totals {
		inTotals = append(inTotals, count.Consumer)
	}
	for _, call := range fx.recent(allCallers, maxRecent) {
		inRecent = append(inRecent, call.Consumer)
	}
	if slices.Sort(inTotals); !slices.Equal(inTotals, want) {
		t.Errorf("consumers in the statistics = %q, want %q", inTotals, want)
	}
	if slices.Sort(inRecent); !slices.Equal(inRecent, want) {
		t.Errorf("consumers of the recent calls = %q, want %q", inRecent, want)
	}
}

package counts

import (
	"encoding/base64"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/analytics"
	"github.com/gatewright/gatewright/shared/operation/simulations"
	"github.com/gatewright/gatewright/shared/store"
)

// noise is a text that no compressor makes smaller than three quarters.
func noise(random *rand.ChaCha8, size int) string {
	text := make([]byte, size)
	_, _ = random.Read(text)
	return base64.RawURLEncoding.EncodeToString(text)[:size]
}

// TestOneDeploymentStopsNoOther: callers whose names are long and all different, such as the subjects of certificates of an account's own CA,
// make no row that a table refuses, for the next ones would wait behind it.
func TestOneDeploymentStopsNoOther(t *testing.T) {
	t.Parallel()
	const (
		mostOfAnItem = 400 << 10
		rounds, each = 5, 4_000
	)
	for _, size := range []int{100, MaxConsumerBytes, 2 << 10} {
		t.Run(fmt.Sprint(size, " bytes"), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			for range rounds {
				c := w.collector()
				for i := range each {
					// A table that does not answer for a while: callers of several intervals wait.
					c.Call(calledBy(noise(w.random, size), 200+i%3, w.time.Add(time.Duration(i%maxSlots)*finest.duration)))
				}
				w.drain(c)
				w.rollup()
			}
			calls := int64(0)
			for _, item := range w.items.Items() {
				if size := store.Size(item); size > maxRowBytes+1024 {
					t.Errorf("%v has %d bytes, of %d at most", store.KeyOf(item), size, mostOfAnItem)
				}
			}
			for _, by := range w.statuses(LastThreeMonths, everybody).Totals {
				calls += by.Calls
			}
			if calls != rounds*each {
				t.Errorf("%d calls are counted, of %d", calls, rounds*each)
			}
		})
	}
}

// TestStreamsThatEndTogether have begun at many times. What comes now counts as of now all the same, and they as of about their own times.
func TestStreamsThatEndTogether(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	now := w.time.Truncate(time.Hour).Add(30 * time.Minute)
	w.time = now
	c := w.collector()
	const streams = 20
	for i := range streams {
		began := now.Add(-time.Duration((i*7)%streams+1) * time.Hour)
		c.Call(calledBy("stream", 200, began))
		o := asked(fmt.Sprint("Stream", i), time.Second, began)
		c.Operation(o)
	}
	for range 10 {
		c.Call(calledBy("acme", 200, now))
	}
	if got, _ := c.held(t); got != streams {
		t.Errorf("%d operations are in memory, of %d", got, streams)
	}
	w.drain(c)
	w.rollup()
	if got := text(w.statuses(LastHour, Callers{Names: []string{"acme"}}).Totals); got != "acme 10 [{200 10}]\n" {
		t.Errorf("of the last hour there is %q", got)
	}
	if got := text(w.statuses(Last24Hours, everybody).Totals); got != "stream 20 [{200 20}]\nacme 10 [{200 10}]\n" {
		t.Errorf("of the last day there is %q", got)
	}
	if got := w.operations(Last24Hours).Totals.Operations; got != streams {
		t.Errorf("%d operations are counted, of %d", got, streams)
	}
	if got, _ := c.held(t); got != 0 {
		t.Errorf("%d operations are in memory after they are written", got)
	}
}

// TestComplexitiesBeyondCounting do not turn around.
func TestComplexitiesBeyondCounting(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range 3 {
		c := w.collector()
		for range 400 {
			o := asked("Doubled", time.Millisecond, w.time)
			o.Complexity = 1<<53 - 1
			c.Operation(o)
		}
		w.drain(c)
		w.rollup()
	}
	got := w.operations(LastHour).Totals
	if got.ComplexityMax != 1<<53-1 || got.ComplexityAvg <= 0 || got.ComplexityAvg > 1<<53 {
		t.Errorf("got %+v", got)
	}
}

// TestOneHostileLatency hides no others.
func TestOneHostileLatency(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.collector()
	for range 99 {
		c.Operation(asked("A", 2*time.Millisecond, w.time))
	}
	o := asked("A", math.MaxInt64, w.time)
	o.Resolver = math.MaxInt64
	c.Operation(o)
	w.drain(c)
	w.rollup()
	got := w.operations(LastHour).Totals
	if !within(got.Total.P95, 2*time.Millisecond, 0.02) || !within(got.Resolver.P95, time.Millisecond, 0.02) {
		t.Errorf("got %+v", got)
	}
}

// TestCallersInMemoryAreBounded while nothing can be written.
func TestCallersInMemoryAreBounded(t *testing.T) {
	simulations.Sequential(t)
	t.Parallel()
	w := newWorld(t)
	c := w.collector()
	const deployments, each = 400, 1_000
	for d := range deployments {
		at := analytics.Deployment{Name: fmt.Sprint("d-", d)}
		for i := range each {
			c.Call(analytics.Call{Deployment: at, Consumer: fmt.Sprint("c", i), Status: 200, At: w.time})
		}
	}
	calls := int64(0)
	for i := range c.shards {
		for _, f := range c.shards[i].deployments {
			calls += f.calls()
		}
	}
	_, held := c.held(t)
	if held > maxAllCallers || calls != deployments*each {
		t.Errorf("%d callers are in memory, with %d calls", held, calls)
	}
	w.drain(c)
	if _, held := c.held(t); held != 0 {
		t.Errorf("after they are written, %d callers are in memory", held)
	}
}

// TestStreamsOfManyDays have ended together: what is added up of them still is a transaction that a table takes.
func TestStreamsOfManyDays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.collector()
	const streams = 200
	for i := range streams {
		c.Call(calledBy("stream", 200, w.time.Add(-time.Duration(i)*time.Hour)))
	}
	w.drain(c)
	w.rollup()
	if got := text(w.statuses(LastThreeMonths, everybody).Totals); got != "stream 200 [{200 200}]\n" {
		t.Errorf("there is %q", got)
	}
	if got := len(w.recent(everybody, maxRecent)); got != 25 {
		t.Errorf("%d calls of the last day are known, want 25", got)
	}
}

// TestLongNamesOfCallersAreNotKept, neither as a number's nor as a call's.
func TestLongNamesOfCallersAreNotKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.collector()
	for _, size := range []int{MaxConsumerBytes, MaxConsumerBytes + 1} {
		c.Call(calledBy(strings.Repeat("a", size), 200, w.time))
	}
	w.drain(c)
	for _, by := range w.statuses(LastHour, everybody).Totals {
		if by.Consumer != Other && len(by.Consumer) != MaxConsumerBytes {
			t.Errorf("a caller of %d bytes is counted", len(by.Consumer))
		}
	}
	for _, call := range w.recent(everybody, maxRecent) {
		if call.Consumer != Other && len(call.Consumer) != MaxConsumerBytes {
			t.Errorf("a call of a caller of %d bytes is known", len(call.Consumer))
		}
	}
}

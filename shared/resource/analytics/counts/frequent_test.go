package counts

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/resource/analytics"
	"github.com/gatewright/gatewright/shared/testing/simulations"
)

var windows = []Window{LastHour, Last24Hours, Last7Days, Last30Days, LastThreeMonths}

// countOf returns the count of an operation in a report, or 0.
func (o Operations) countOf(name string) int64 {
	for _, c := range o.Each {
		if c.Name == name {
			return c.Operations
		}
	}
	return 0
}

// callsOf returns the number of calls of a consumer in a report, or 0.
func (s Statuses) callsOf(consumer string) int64 {
	for _, c := range s.Totals {
		if c.Consumer == consumer {
			return c.Calls
		}
	}
	return 0
}

// nameGenerator generates unique names.
type nameGenerator struct{ n int }

func (g *nameGenerator) name(prefix string) string {
	g.n++
	return fmt.Sprintf("%s%06d", prefix, g.n)
}

// TestOneOffNamesDoNotDisplaceFrequentNames checks that names that occur once displace no frequent name. Hundreds or
// thousands of invented names of operations and consumers come first in each interval. Some sort before the real names,
// and some after them. The test checks a gateway's counts, merged rows, rows of each resolution, and reports.
func TestOneOffNamesDoNotDisplaceFrequentNames(t *testing.T) {
	t.Parallel()
	for _, buckets := range []int{1, bucketCount} {
		for _, names := range []int{maxOperations + 50, 3_000} {
			t.Run(fmt.Sprintf("%d names, %d buckets", names, buckets), func(t *testing.T) {
				t.Parallel()
				fx, generator := newFixture(t), &nameGenerator{}
				burst := func(c *Collector) {
					for i := range names {
						name := generator.name([]string{"A", "Z"}[i%2])
						o := newOperation(name, time.Millisecond, fx.time)
						o.Failed = true // refused operations count too
						c.Operation(o)
						c.Call(newCall(name, 403, fx.time))
					}
				}
				countLegit := func(c *Collector, n int) {
					for range n {
						c.Operation(newOperation("Legit", time.Millisecond, fx.time))
						c.Call(newCall("legit", 200, fx.time))
					}
				}
				gateways := []*Collector{fx.collector(), fx.collector()}
				for _, c := range gateways {
					c.buckets = buckets
				}
				check := func(when string, want int64) {
					t.Helper()
					for _, window := range windows {
						got := fx.operations(window)
						if n := got.countOf("Legit"); n != want {
							t.Errorf("%s: %s report counts Legit %d times, want %d", when, window, n, want)
						}
						if first := got.Each[0].Name; first != "Legit" && first != Other {
							t.Errorf("%s: first operation of the %s report = %s, want Legit or Other", when, window, first)
						}
						for _, callers := range []Callers{allCallers, {Names: []string{"legit"}}} {
							if n := fx.statuses(window, callers).callsOf("legit"); n != want {
								t.Errorf("%s: %s report has %d calls of legit, want %d", when, window, n, want)
							}
						}
					}
				}
				burst(gateways[0]) // these names come first in all rows
				fx.drain(gateways[0])
				fx.rollup()
				burst(gateways[0]) // in the same write interval as the calls of legit
				countLegit(gateways[0], 400)
				fx.drain(gateways[0])
				check("in pending rows", 400)
				fx.time = fx.time.Add(finest.duration)
				burst(gateways[0])
				fx.drain(gateways[0])
				for range 10 { // a few calls of legit at a time
					burst(gateways[0])
					countLegit(gateways[1], 30)
					fx.drain(gateways[0])
					fx.drain(gateways[1])
				}
				check("before a rollup", 700)
				fx.rollup()
				check("after a rollup", 700)
			})
		}
	}
}

// TestBurstDoesNotDisplaceKnownNames checks that a name with occasional calls is kept, even if many other names occur
// once after it.
func TestBurstDoesNotDisplaceKnownNames(t *testing.T) {
	simulations.SkipUnderRace(t)
	t.Parallel()
	const known, callsEach, names = 60, 5, 30_000
	fx, generator := newFixture(t), &nameGenerator{}
	c := fx.collector()
	for i := range known * callsEach {
		c.Operation(newOperation(fmt.Sprint("Known", i%known), time.Millisecond, fx.time))
		c.Call(newCall(fmt.Sprint("known", i%known), 200, fx.time))
	}
	for round := range 2 {
		for range names {
			c.Operation(newOperation(generator.name("A"), time.Millisecond, fx.time))
			c.Call(newCall(generator.name("a"), 200, fx.time))
		}
		fx.drain(c)
		fx.rollup()
		for _, window := range windows {
			operations, calls := fx.operations(window), fx.statuses(window, allCallers)
			for i := range known {
				if n := operations.countOf(fmt.Sprint("Known", i)); n != callsEach {
					t.Fatalf("after %d writes: %s report counts Known%d %d times, want %d", round+1, window, i, n, callsEach)
				}
				if n := calls.callsOf(fmt.Sprint("known", i)); n != callsEach {
					t.Fatalf("after %d writes: %s report has %d calls of known%d, want %d", round+1, window, n, i, callsEach)
				}
			}
		}
	}
}

// TestSteadyNamesEventuallyDisplaceOldNames checks that a name with a few calls at a time displaces names that were
// frequent earlier, although its count in each single write is smaller than theirs.
func TestSteadyNamesEventuallyDisplaceOldNames(t *testing.T) {
	simulations.SkipUnderRace(t)
	t.Parallel()
	const oldNames, callsEach, writes, perWrite = maxOperations, 10, 20, 5
	fx := newFixture(t)
	c := fx.collector()
	for i := range oldNames * callsEach {
		c.Operation(newOperation(fmt.Sprint("Before", i%oldNames), time.Millisecond, fx.time))
	}
	for i := range maxCallers * callsEach {
		c.Call(newCall(fmt.Sprint("before", i%maxCallers), 200, fx.time))
	}
	fx.drain(c)
	fx.rollup()
	for range writes {
		for range perWrite {
			c.Operation(newOperation("Legit", time.Millisecond, fx.time))
			c.Call(newCall("legit", 200, fx.time))
		}
		fx.drain(c)
		fx.rollup()
	}
	const wantOperations, wantCalls = writes * perWrite, writes * perWrite
	for _, window := range windows {
		tolerance := int64((oldNames*callsEach + wantOperations) / (maxOperations/2 + 1))
		if n := fx.operations(window).countOf("Legit"); n < wantOperations-tolerance || n > wantOperations {
			t.Errorf("%s report has Legit %d times, want %d or up to %d less", window, n, wantOperations, tolerance)
		}
		tolerance = int64((maxCallers*callsEach + wantCalls) / (maxCallers/2 + 1))
		if n := fx.statuses(window, allCallers).callsOf("legit"); n < wantCalls-tolerance || n > wantCalls {
			t.Errorf("%s report has %d calls of legit, want %d or up to %d less", window, n, wantCalls, tolerance)
		}
	}
}

// nameModel draws tallies of calls and operations, and keeps their exact counts. capacity is the capacity of a row, and
// names is the number of the last name to draw from. exact are the counts by name, and total is their sum.
type nameModel struct {
	*rapid.T
	capacity, names int
	exact           map[string]int64
	total           int64
}

// tallyOf returns a tally with n calls and n operations of one name.
func (nm *nameModel) tallyOf(name string, n int64) *tally {
	t := newTally()
	m, _ := t.stats(operation{name, "query"})
	m.count += n
	t.addCalls(caller{name, 200}, counter{count: n})
	nm.exact[name] += n
	nm.total += n
	return t
}

// randomTally returns a tally of a few names.
func (nm *nameModel) randomTally() *tally {
	t := newTally()
	for range rapid.IntRange(0, 6).Draw(nm.T, "names in the tally") {
		name := fmt.Sprint("n", rapid.IntRange(0, nm.names).Draw(nm.T, "name"))
		t.add(nm.tallyOf(name, rapid.SampledFrom([]int64{1, 1, 1, 2, 5, 20}).Draw(nm.T, "times")))
	}
	return t
}

// trimAndReload trims, encodes and decodes a tally.
func (nm *nameModel) trimAndReload(t *tally) *tally {
	t.trimOperations(nm.capacity)
	t.trimCallers(nm.capacity)
	data, err := packTally(t)
	if err != nil {
		nm.Fatalf("packTally() error = %v, want none", err)
	}
	if t, err = unpackTally(data); err != nil {
		nm.Fatalf("unpackTally() error = %v, want none", err)
	}
	return t
}

// checkFrequent checks that got has no more names than its capacity, that its counts have the exact sum, and that the
// count of each name is too low by at most the allowed share. So a name above this share must be in got.
func (nm *nameModel) checkFrequent(got *tally) {
	half := int64(nm.capacity+1) / 2
	if len(got.operations) > nm.capacity || len(got.calls) > nm.capacity {
		nm.Fatalf("tally has %d operations and %d callers, want at most %d of each",
			len(got.operations), len(got.calls), nm.capacity)
	}
	total := int64(0)
	got.each(func(_ caller, n counter) { total += n.count })
	for _, m := range got.operations {
		total += m.count
	}
	for _, m := range got.otherOperations {
		total += m.count
	}
	if total != 2*nm.total {
		nm.Fatalf("tally counts %d calls and operations, want %d", total, 2*nm.total)
	}
	for name, n := range nm.exact {
		operations, calls := int64(0), got.calls[caller{name, 200}].count
		if m := got.operations[operation{name, "query"}]; m != nil {
			operations = m.count
		}
		for kind, c := range map[string]int64{"operations": operations, "calls": calls} {
			if c > n || (n-c)*(half+1) > nm.total {
				nm.Fatalf("tally counts %d %s of %s, want %d or up to %d less", c, kind, name, n, nm.total/(half+1))
			}
		}
	}
}

// TestFrequentNamesAreRetained merges, trims, encodes and decodes tallies in any order. A name must be kept if its
// share of all counts is more than one in h+1, where h is half of the capacity. The name's count may be too low by at
// most that share of all counts. The sum of all counts must be exact.
func TestFrequentNamesAreRetained(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		model := &nameModel{T: rt, exact: map[string]int64{}}
		model.capacity = rapid.IntRange(1, 9).Draw(rt, "capacity")
		model.names = rapid.IntRange(1, 40).Draw(rt, "names")
		rows := []*tally{model.randomTally(), model.randomTally(), model.randomTally()}
		for range rapid.IntRange(0, 60).Draw(rt, "merges") {
			i, j := rapid.IntRange(0, 2).Draw(rt, "into"), rapid.IntRange(0, 2).Draw(rt, "from")
			if i == j || rapid.Bool().Draw(rt, "new") {
				rows[i].add(model.randomTally())
			} else {
				rows[i].add(rows[j])
				rows[j] = newTally()
			}
			if rapid.Bool().Draw(rt, "trim and reload") {
				rows[i] = model.trimAndReload(rows[i])
			}
		}
		for range rapid.IntRange(0, 40).Draw(rt, "last events") { // add one event at a time
			rows[0].add(model.tallyOf("last", 1))
			rows[0] = model.trimAndReload(rows[0])
		}
		rows[0].add(rows[1])
		rows[0].add(rows[2])
		model.checkFrequent(model.trimAndReload(rows[0]))
	})
}

// TestTrimIsDeterministic checks that trim always keeps the same names if many names are equally frequent.
func TestTrimIsDeterministic(t *testing.T) {
	t.Parallel()
	trimmedNames := func() []string {
		all := newTally()
		for i := range 2 * maxOperations {
			m, _ := all.stats(operation{fmt.Sprint("O", i), "query"})
			m.count = 1
		}
		for i := range 2 * maxCallers {
			all.addCalls(caller{fmt.Sprint("c", i), 200}, counter{count: 1})
		}
		all.trim()
		var names []string
		for o := range all.operations {
			names = append(names, o.name)
		}
		for c := range all.calls {
			names = append(names, c.consumer)
		}
		slices.Sort(names)
		return names
	}
	if first, second := trimmedNames(), trimmedNames(); !slices.Equal(first, second) {
		t.Errorf("trimmedNames() = %v, then %v, want the same names", first, second)
	}
}

// TestDeploymentDoesNotDisplaceNamesOfOthers counts many deployments with the maximum number of names, in turns with
// another deployment. The names of that other deployment must be kept.
func TestDeploymentDoesNotDisplaceNamesOfOthers(t *testing.T) {
	simulations.SkipUnderRace(t)
	t.Parallel()
	const deployments, operationsEach, callersEach, known, times = 300, 200, 1_000, 5, 10
	fx, generator := newFixture(t), &nameGenerator{}
	c := fx.collector()
	for round := range times {
		for d := range deployments {
			deployment := analytics.Deployment{Name: fmt.Sprint("d-", d)}
			for range callersEach / times {
				c.Call(analytics.Call{Deployment: deployment, Consumer: generator.name("a"), Status: 200, At: fx.time})
			}
			for range operationsEach / times {
				c.Operation(analytics.Operation{Deployment: deployment, Name: generator.name("A"), Type: "query", At: fx.time})
			}
		}
		for i := range known {
			c.Call(newCall(fmt.Sprint("real", i), 200, fx.time))
			c.Operation(newOperation(fmt.Sprint("Real", i), time.Millisecond, fx.time))
		}
		if operations, callers := c.namesInMemory(t); operations > maxAllOperations || callers > maxAllCallers {
			t.Fatalf("round %d: %d operations and %d callers in memory, want at most %d and %d",
				round, operations, callers, maxAllOperations, maxAllCallers)
		}
	}
	fx.drain(c)
	for i := range known {
		if n := fx.operations(LastHour).countOf(fmt.Sprint("Real", i)); n != times {
			t.Errorf("report counts Real%d %d times, want %d", i, n, times)
		}
		if n := fx.statuses(LastHour, allCallers).callsOf(fmt.Sprint("real", i)); n != times {
			t.Errorf("report has %d calls of real%d, want %d", n, i, times)
		}
	}
}

// TestCallersDoNotDisplaceOperations tests a row that is too large because of its callers: subjects of certificates are
// long, and an account with its own CA can create any number of them. The row must keep its operations.
func TestCallersDoNotDisplaceOperations(t *testing.T) {
	t.Parallel()
	const known, times = 100, 3
	fx := newFixture(t)
	c := fx.collector()
	for range 2 {
		for range 2 * maxCallers {
			c.Call(newCall(incompressible(fx.random, MaxConsumerBytes), 200, fx.time))
		}
		for i := range known * times {
			c.Operation(newOperation(fmt.Sprint("Real", i%known), time.Millisecond, fx.time))
		}
		fx.drain(c)
		fx.rollup()
	}
	for _, window := range windows {
		got := fx.operations(window)
		for i := range known {
			if n := got.countOf(fmt.Sprint("Real", i)); n != 2*times {
				t.Fatalf("%s report counts Real%d %d times, want %d", window, i, n, 2*times)
			}
		}
	}
}

// TestBusyIntervalsDoNotDisplaceOthers tests a row that is too large. Every second interval has too many names. The
// other intervals must keep all of their names.
func TestBusyIntervalsDoNotDisplaceOthers(t *testing.T) {
	simulations.SkipUnderRace(t)
	t.Parallel()
	const intervals, known = 12, 20
	fx := newFixture(t)
	random := rand.New(fx.random)
	fx.time = fx.time.Truncate(time.Hour).Add(time.Minute)
	c := fx.collector()
	c.buckets = 1
	for i := range intervals {
		fx.time = fx.time.Add(finest.duration)
		for n := range known {
			c.Operation(newOperation(fmt.Sprintf("At%d-%d", i, n), time.Millisecond, fx.time))
		}
		if i%2 == 0 {
			for range maxOperations {
				name := incompressible(fx.random, maxNameBytes)
				for range 10 {
					c.Operation(newOperation(name, time.Duration(math.Pow(10, 3+8*random.Float64())), fx.time))
				}
			}
		}
		fx.drain(c)
	}
	pending, err := fx.reader().pending(t.Context(), shop.Name)
	if err != nil || len(pending) != 1 {
		t.Fatalf("pending() = %d rows, %v, want 1 row and no error", len(pending), err)
	}
	if n := len(pending[0].intervals); n != intervals {
		t.Fatalf("pending row has %d intervals, want %d", n, intervals)
	}
	for _, s := range pending[0].intervals {
		busy, n := time.Unix(s.start, 0).Sub(fx.time)/finest.duration%2 != 0, len(s.operations)
		if !busy && n != known {
			t.Errorf("quiet interval has %d operations, want %d", n, known)
		}
		if busy && n >= maxOperations {
			t.Errorf("busy interval has %d operations, want less than %d", n, maxOperations)
		}
	}
	for _, item := range fx.items.Items() {
		if size := store.Size(item); size > maxRowBytes+1024 {
			t.Errorf("item %v has %d bytes, want at most %d", store.KeyOf(item), size, maxRowBytes+1024)
		}
	}
}

// TestReportsSumBeforeTrimming checks that a report keeps a name whose counts are small in each row but large in sum.
func TestReportsSumBeforeTrimming(t *testing.T) {
	simulations.SkipUnderRace(t)
	t.Parallel()
	const intervals = 12
	fx, generator := newFixture(t), &nameGenerator{}
	fx.time = fx.time.Truncate(time.Hour)
	c := fx.collector()
	for i := range intervals {
		fx.time = fx.time.Add(finest.duration)
		for range maxOperations - 1 {
			c.Operation(newOperation(generator.name("A"), time.Millisecond, fx.time))
		}
		for range maxCallers - 1 {
			c.Call(newCall(generator.name("a"), 200, fx.time))
		}
		if i == 0 || i == intervals-1 {
			c.Operation(newOperation("Seldom", time.Millisecond, fx.time))
			c.Call(newCall("seldom", 200, fx.time))
		}
		fx.drain(c)
		fx.rollup()
	}
	operations, calls := fx.operations(LastHour), fx.statuses(LastHour, allCallers)
	if gotOperations, gotCalls := operations.countOf("Seldom"), calls.callsOf("seldom"); gotOperations != 2 ||
		gotCalls != 2 {
		t.Errorf("%d operations Seldom and %d calls of seldom counted, want 2 of each", gotOperations, gotCalls)
	}
	if len(operations.Each) != maxOperations+1 || len(calls.Totals) != maxCallers+1 {
		t.Errorf("report = %d operations and %d consumers, want %d and %d",
			len(operations.Each), len(calls.Totals), maxOperations+1, maxCallers+1)
	}
}

// TestDetailsCoverAllIntervals checks that the first hours do not displace the details of later hours.
func TestDetailsCoverAllIntervals(t *testing.T) {
	t.Parallel()
	const hours = 20
	fx, generator := newFixture(t), &nameGenerator{}
	start := fx.time.Truncate(day)
	c := fx.collector()
	for hour := range hours {
		fx.time = start.Add(time.Duration(hour) * time.Hour)
		for range maxCallers {
			c.Call(newCall(generator.name("a"), 200, fx.time))
		}
		for range 3 {
			c.Call(newCall("legit", 200, fx.time))
		}
		fx.drain(c)
	}
	callsAt := map[time.Time]int64{}
	for _, count := range fx.statuses(Last24Hours, allCallers).Details {
		if count.Consumer == "legit" {
			callsAt[count.At] = count.Calls
		}
	}
	incomplete := func(n int64) bool { return n != 3 }
	if len(callsAt) != hours || slices.ContainsFunc(slices.Collect(maps.Values(callsAt)), incomplete) {
		t.Errorf("calls of legit = %v, want 3 in each of %d hours", callsAt, hours)
	}
}

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

	"github.com/gatewright/gatewright/shared/analytics"
	"github.com/gatewright/gatewright/shared/operation/simulations"
	"github.com/gatewright/gatewright/shared/store"
)

var windows = []Window{LastHour, Last24Hours, Last7Days, Last30Days, LastThreeMonths}

// called finds an operation in a report, how often it was asked for or 0.
func (o Operations) called(name string) int64 {
	for _, each := range o.Each {
		if each.Name == name {
			return each.Operations
		}
	}
	return 0
}

// named finds a consumer in a report, how often it has called or 0.
func (s Statuses) named(consumer string) int64 {
	for _, each := range s.Totals {
		if each.Consumer == consumer {
			return each.Calls
		}
	}
	return 0
}

// flood is a burst of names that come once each. No two have the same.
type flood struct{ n int }

func (f *flood) name(prefix string) string {
	f.n++
	return fmt.Sprintf("%s%06d", prefix, f.n)
}

// TestOneOffNamesHideNoOperation, and no consumer: names that are made up come first, thousands in each interval, and sort before the real ones and
// behind them. It holds in what a gateway counts, in rows that gateways merge, in those of each length, and in reports.
func TestOneOffNamesHideNoOperation(t *testing.T) {
	t.Parallel()
	for _, places := range []int{1, placeCount} {
		for _, names := range []int{maxOperations + 50, 3_000} {
			t.Run(fmt.Sprintf("%d names, %d places", names, places), func(t *testing.T) {
				t.Parallel()
				w, made := newWorld(t), &flood{}
				burst := func(c *Collector) {
					for i := range names {
						name := made.name([]string{"A", "Z"}[i%2])
						o := asked(name, time.Millisecond, w.time)
						o.Failed = true // refused ones count too
						c.Operation(o)
						c.Call(calledBy(name, 403, w.time))
					}
				}
				legit := func(c *Collector, n int) {
					for range n {
						c.Operation(asked("Legit", time.Millisecond, w.time))
						c.Call(calledBy("legit", 200, w.time))
					}
				}
				gateways := []*Collector{w.collector(), w.collector()}
				for _, c := range gateways {
					c.places = places
				}
				check := func(when string, want int64) {
					t.Helper()
					for _, window := range windows {
						got := w.operations(window)
						if n := got.called("Legit"); n != want || got.Each[0].Name != "Legit" && got.Each[0].Name != Other {
							t.Errorf("%s, in %s Legit was asked for %d times, want %d, first of all", when, window, n, want)
						}
						for _, callers := range []Callers{everybody, {Names: []string{"legit"}}} {
							if n := w.statuses(window, callers).named("legit"); n != want {
								t.Errorf("%s, in %s legit has called %d times, want %d", when, window, n, want)
							}
						}
					}
				}
				burst(gateways[0]) // what comes first in all rows
				w.drain(gateways[0])
				w.rollup()
				burst(gateways[0]) // in the same interval of writing
				legit(gateways[0], 400)
				w.drain(gateways[0])
				check("in rows that wait", 400)
				w.time = w.time.Add(finest.duration)
				burst(gateways[0])
				w.drain(gateways[0])
				for range 10 { // a little at a time
					burst(gateways[0])
					legit(gateways[1], 30)
					w.drain(gateways[0])
					w.drain(gateways[1])
				}
				check("before a rollup", 700)
				w.rollup()
				check("after it", 700)
			})
		}
	}
}

// TestBurstHidesNothingKnown: what is asked for now and then stays, however many names come once after it.
func TestBurstHidesNothingKnown(t *testing.T) {
	simulations.Sequential(t)
	t.Parallel()
	const known, times, names = 60, 5, 30_000
	w, made := newWorld(t), &flood{}
	c := w.collector()
	for i := range known * times {
		c.Operation(asked(fmt.Sprint("Known", i%known), time.Millisecond, w.time))
		c.Call(calledBy(fmt.Sprint("known", i%known), 200, w.time))
	}
	for written := range 2 {
		for range names {
			c.Operation(asked(made.name("A"), time.Millisecond, w.time))
			c.Call(calledBy(made.name("a"), 200, w.time))
		}
		w.drain(c)
		w.rollup()
		for _, window := range windows {
			operations, calls := w.operations(window), w.statuses(window, everybody)
			for i := range known {
				if n := operations.called(fmt.Sprint("Known", i)); n != times {
					t.Fatalf("after %d writes, in %s Known%d was asked for %d times, want %d", written+1, window, i, n, times)
				}
				if n := calls.named(fmt.Sprint("known", i)); n != times {
					t.Fatalf("after %d writes, in %s known%d has called %d times, want %d", written+1, window, i, n, times)
				}
			}
		}
	}
}

// TestSlowOperationsAreNamedInTheEnd: what is asked for a little at a time outgrows what was frequent once, although each of its parts is less.
func TestSlowOperationsAreNamedInTheEnd(t *testing.T) {
	simulations.Sequential(t)
	t.Parallel()
	const before, each, writes, atOnce = maxOperations, 10, 20, 5
	w := newWorld(t)
	c := w.collector()
	for i := range before * each {
		c.Operation(asked(fmt.Sprint("Before", i%before), time.Millisecond, w.time))
	}
	for i := range maxCalls * each {
		c.Call(calledBy(fmt.Sprint("before", i%maxCalls), 200, w.time))
	}
	w.drain(c)
	w.rollup()
	for range writes {
		for range atOnce {
			c.Operation(asked("Legit", time.Millisecond, w.time))
			c.Call(calledBy("legit", 200, w.time))
		}
		w.drain(c)
		w.rollup()
	}
	const asked, called = writes * atOnce, writes * atOnce
	for _, window := range windows {
		missing := int64((before*each + asked) / (maxOperations/2 + 1))
		if n := w.operations(window).called("Legit"); n < asked-missing || n > asked {
			t.Errorf("in %s Legit was asked for %d times, want %d, or %d less", window, n, asked, missing)
		}
		missing = int64((maxCalls*each + called) / (maxCalls/2 + 1))
		if n := w.statuses(window, everybody).named("legit"); n < called-missing || n > called {
			t.Errorf("in %s legit has called %d times, want %d, or %d less", window, n, called, missing)
		}
	}
}

// TestFrequentNamesAreKept, in any order of merges, with rows written and read in between: each name that has more than one in h+1 of all, where h is
// half of the room, and no more than that share is missing from its count. All of it counts somewhere.
func TestFrequentNamesAreKept(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		room := rapid.IntRange(1, 9).Draw(rt, "room")
		half := int64(room+1) / 2
		exact, total := map[string]int64{}, int64(0)
		names := rapid.IntRange(1, 40).Draw(rt, "names")
		one := func(name string, n int64) *tally {
			t := newTally()
			m, _ := t.at(operation{name, "query"})
			m.count += n
			t.call(caller{name, 200}, number{count: n})
			exact[name] += n
			total += n
			return t
		}
		some := func() *tally {
			t := newTally()
			for range rapid.IntRange(0, 6).Draw(rt, "at once") {
				name := fmt.Sprint("n", rapid.IntRange(0, names).Draw(rt, "name"))
				t.add(one(name, rapid.SampledFrom([]int64{1, 1, 1, 2, 5, 20}).Draw(rt, "times")))
			}
			return t
		}
		trimmed := func(t *tally) *tally {
			t.trimOperations(room)
			t.trimCallers(room)
			data, err := packTally(t)
			if err != nil {
				rt.Fatal(err)
			}
			if t, err = unpackTally(data); err != nil {
				rt.Fatal(err)
			}
			return t
		}
		rows := []*tally{some(), some(), some()}
		for range rapid.IntRange(0, 60).Draw(rt, "merges") {
			i, j := rapid.IntRange(0, 2).Draw(rt, "into"), rapid.IntRange(0, 2).Draw(rt, "from")
			if i == j || rapid.Bool().Draw(rt, "new") {
				rows[i].add(some())
			} else {
				rows[i].add(rows[j])
				rows[j] = newTally()
			}
			if rapid.Bool().Draw(rt, "written") {
				rows[i] = trimmed(rows[i])
			}
		}
		for range rapid.IntRange(0, 40).Draw(rt, "at last") { // one at a time
			rows[0].add(one("last", 1))
			rows[0] = trimmed(rows[0])
		}
		rows[0].add(rows[1])
		rows[0].add(rows[2])
		got := trimmed(rows[0])
		if len(got.operations) > room || len(got.calls) > room {
			rt.Fatalf("%d operations and %d callers are named, with room for %d", len(got.operations), len(got.calls), room)
		}
		counted := int64(0)
		got.each(func(_ caller, n number) { counted += n.count })
		for _, m := range got.operations {
			counted += m.count
		}
		for _, m := range got.restOperations {
			counted += m.count
		}
		if counted != 2*total {
			rt.Fatalf("%d calls and operations are counted, of %d", counted, 2*total)
		}
		for name, n := range exact {
			asked, called := int64(0), got.calls[caller{name, 200}].count
			if m := got.operations[operation{name, "query"}]; m != nil {
				asked = m.count
			}
			for _, c := range []int64{asked, called} {
				if c > n || (n-c)*(half+1) > total {
					rt.Fatalf("%s counts %d times, of %d among %d with room for %d", name, c, n, total, room)
				}
			}
		}
	})
}

// TestNamesAreNotKeptByChance, where many are as frequent as each other.
func TestNamesAreNotKeptByChance(t *testing.T) {
	t.Parallel()
	kept := func() []string {
		all := newTally()
		for i := range 2 * maxOperations {
			m, _ := all.at(operation{fmt.Sprint("O", i), "query"})
			m.count = 1
		}
		for i := range 2 * maxCalls {
			all.call(caller{fmt.Sprint("c", i), 200}, number{count: 1})
		}
		all.trim()
		var names []string
		for o := range all.operations {
			names = append(names, o.name)
		}
		for by := range all.calls {
			names = append(names, by.consumer)
		}
		slices.Sort(names)
		return names
	}
	if first, again := kept(), kept(); !slices.Equal(first, again) {
		t.Errorf("kept are %v, and then %v", first, again)
	}
}

// TestOneDeploymentCostsNoOtherItsNames: many of them have as many names as they can make, before and after another one's and in between.
func TestOneDeploymentCostsNoOtherItsNames(t *testing.T) {
	simulations.Sequential(t)
	t.Parallel()
	const deployments, operationsEach, callersEach, known, times = 300, 200, 1_000, 5, 10
	w, made := newWorld(t), &flood{}
	c := w.collector()
	for round := range times {
		for d := range deployments {
			at := analytics.Deployment{Name: fmt.Sprint("d-", d)}
			for range callersEach / times {
				c.Call(analytics.Call{Deployment: at, Consumer: made.name("a"), Status: 200, At: w.time})
			}
			for range operationsEach / times {
				c.Operation(analytics.Operation{Deployment: at, Name: made.name("A"), Type: "query", At: w.time})
			}
		}
		for i := range known {
			c.Call(calledBy(fmt.Sprint("real", i), 200, w.time))
			c.Operation(asked(fmt.Sprint("Real", i), time.Millisecond, w.time))
		}
		if operations, callers := c.held(t); operations > maxAllOperations || callers > maxAllCallers {
			t.Fatalf("in round %d, in memory are %d operations and %d callers", round, operations, callers)
		}
	}
	w.drain(c)
	for i := range known {
		if n := w.operations(LastHour).called(fmt.Sprint("Real", i)); n != times {
			t.Errorf("Real%d was asked for %d times, want %d", i, n, times)
		}
		if n := w.statuses(LastHour, everybody).named(fmt.Sprint("real", i)); n != times {
			t.Errorf("real%d has called %d times, want %d", i, n, times)
		}
	}
}

// TestCallersTakeNoRoomFromOperations of a row that is too large: subjects of certificates are long, and whoever has a CA has as many as he likes.
func TestCallersTakeNoRoomFromOperations(t *testing.T) {
	t.Parallel()
	const known, times = 100, 3
	w := newWorld(t)
	c := w.collector()
	for range 2 {
		for range 2 * maxCalls {
			c.Call(calledBy(noise(w.random, MaxConsumerBytes), 200, w.time))
		}
		for i := range known * times {
			c.Operation(asked(fmt.Sprint("Real", i%known), time.Millisecond, w.time))
		}
		w.drain(c)
		w.rollup()
	}
	for _, window := range windows {
		got := w.operations(window)
		for i := range known {
			if n := got.called(fmt.Sprint("Real", i)); n != 2*times {
				t.Fatalf("in %s Real%d was asked for %d times, want %d", window, i, n, 2*times)
			}
		}
	}
}

// TestBusyTimesTakeNoRoomFromOthers: a row that is too large has more than one time, and few of them have too many names.
func TestBusyTimesTakeNoRoomFromOthers(t *testing.T) {
	simulations.Sequential(t)
	t.Parallel()
	const times, known = 12, 20
	w := newWorld(t)
	random := rand.New(w.random)
	w.time = w.time.Truncate(time.Hour).Add(time.Minute)
	c := w.collector()
	c.places = 1
	for i := range times {
		w.time = w.time.Add(finest.duration)
		for n := range known {
			c.Operation(asked(fmt.Sprintf("At%d-%d", i, n), time.Millisecond, w.time))
		}
		if i%2 == 0 {
			for range maxOperations {
				name := noise(w.random, maxNameBytes)
				for range 10 {
					c.Operation(asked(name, time.Duration(math.Pow(10, 3+8*random.Float64())), w.time))
				}
			}
		}
		w.drain(c)
	}
	waiting, err := w.reader().fresh(t.Context(), shop.Name)
	if err != nil || len(waiting) != 1 {
		t.Fatalf("%d rows wait, %v", len(waiting), err)
	}
	for _, s := range waiting[0].slots {
		busy := time.Unix(s.start, 0).Sub(w.time)/finest.duration%2 != 0
		if n := len(s.operations); !busy && n != known || busy && n >= maxOperations {
			t.Errorf("at %s, when others came: %v, %d operations are named", time.Unix(s.start, 0).UTC(), busy, n)
		}
	}
	for _, item := range w.items.Items() {
		if size := store.Size(item); size > maxRowBytes+1024 {
			t.Errorf("%v has %d bytes", store.KeyOf(item), size)
		}
	}
}

// TestReportsAddUpBeforeTheyFold: what is in many rows is known by its sum, although it is little in each.
func TestReportsAddUpBeforeTheyFold(t *testing.T) {
	simulations.Sequential(t)
	t.Parallel()
	const times = 12
	w, made := newWorld(t), &flood{}
	w.time = w.time.Truncate(time.Hour)
	c := w.collector()
	for i := range times {
		w.time = w.time.Add(finest.duration)
		for range maxOperations - 1 {
			c.Operation(asked(made.name("A"), time.Millisecond, w.time))
		}
		for range maxCalls - 1 {
			c.Call(calledBy(made.name("a"), 200, w.time))
		}
		if i == 0 || i == times-1 {
			c.Operation(asked("Seldom", time.Millisecond, w.time))
			c.Call(calledBy("seldom", 200, w.time))
		}
		w.drain(c)
		w.rollup()
	}
	operations, calls := w.operations(LastHour), w.statuses(LastHour, everybody)
	if asked, called := operations.called("Seldom"), calls.named("seldom"); asked != 2 || called != 2 {
		t.Errorf("it was asked for %d times, and has called %d times, want 2", asked, called)
	}
	if len(operations.Each) != maxOperations+1 || len(calls.Totals) != maxCalls+1 {
		t.Errorf("%d operations and %d consumers are apart", len(operations.Each), len(calls.Totals))
	}
}

// TestDetailsOfAllTimesFindRoom: those of the first hours leave the later ones theirs.
func TestDetailsOfAllTimesFindRoom(t *testing.T) {
	t.Parallel()
	const hours = 20
	w, made := newWorld(t), &flood{}
	start := w.time.Truncate(day)
	c := w.collector()
	for hour := range hours {
		w.time = start.Add(time.Duration(hour) * time.Hour)
		for range maxCalls {
			c.Call(calledBy(made.name("a"), 200, w.time))
		}
		for range 3 {
			c.Call(calledBy("legit", 200, w.time))
		}
		w.drain(c)
	}
	at := map[time.Time]int64{}
	for _, by := range w.statuses(Last24Hours, everybody).Details {
		if by.Consumer == "legit" {
			at[by.At] = by.Calls
		}
	}
	others := func(n int64) bool { return n != 3 }
	if len(at) != hours || slices.ContainsFunc(slices.Collect(maps.Values(at)), others) {
		t.Errorf("its calls are %v", at)
	}
}

// TestRowsOfEarlierReleasesAreRead: they say nothing of what was folded.
func TestRowsOfEarlierReleasesAreRead(t *testing.T) {
	t.Parallel()
	data := append([]byte{plain}, `{"c":{"acme":{"200":3},"(other)":{"404":2}},"o":[{"n":"(other)","y":"query","k":2,"t":"","r":""},{"n":"List","y":"query","k":7,"t":"","r":""}]}`...)
	got, err := unpackTally(data)
	if err != nil {
		t.Fatal(err)
	}
	if n := got.calls[caller{"acme", 200}]; n != (number{count: 3}) || len(got.calls) != 1 || got.restCalls[404] != 2 {
		t.Errorf("calls are %v and %v", got.calls, got.restCalls)
	}
	if m := got.operations[operation{"List", "query"}]; m == nil || m.number != (number{count: 7}) || len(got.operations) != 1 || got.restOperations["query"].count != 2 {
		t.Errorf("operations are %v and %v", got.operations, got.restOperations)
	}
}

package counts

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/analytics"
)

// exact is a quantile of samples: the one that so many of them are not above.
func exact(samples []time.Duration, q float64) time.Duration {
	sorted := slices.Sorted(slices.Values(samples))
	return sorted[int(math.Ceil(q*float64(len(sorted))))-1]
}

func within(got, want time.Duration, share float64) bool {
	return math.Abs(float64(got-want)) <= share*float64(want)
}

// TestLatenciesAreWithinTwoPercent of the exact quantiles of the same samples, whatever they look like, and the same whether one instance has
// measured them or many.
func TestLatenciesAreWithinTwoPercent(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	shapes := map[string]func() time.Duration{
		"even": func() time.Duration { return time.Duration(random.Int64N(int64(time.Second))) + time.Microsecond },
		"with a tail": func() time.Duration {
			return time.Duration(math.Exp(random.NormFloat64()*1.5+3) * float64(time.Millisecond))
		},
		"of two kinds": func() time.Duration {
			return []time.Duration{3 * time.Millisecond, 30 * time.Second}[random.IntN(2)] + time.Duration(random.IntN(1e6))
		},
		"all the same":   func() time.Duration { return 12345 * time.Microsecond },
		"nine decades":   func() time.Duration { return time.Duration(math.Pow(10, 3+9*random.Float64())) },
		"almost nothing": func() time.Duration { return time.Duration(1 + random.IntN(2000)) },
	}
	for name, draw := range shapes {
		for _, n := range []int{1, 2, 19, 200, 5_000} {
			t.Run(fmt.Sprint(n, " ", name), func(t *testing.T) {
				var samples []time.Duration
				for range n {
					samples = append(samples, draw())
				}
				one, many := newWorld(t), newWorld(t)
				single := one.collector()
				instances := []*Collector{many.collector(), many.collector(), many.collector(), many.collector()}
				for i, d := range samples {
					single.Operation(asked("A", d, one.time))
					c := instances[i%len(instances)]
					c.Operation(asked("A", d, many.time))
					if i%97 == 0 {
						many.drain(c)
					}
					if i%1009 == 0 {
						many.rollup()
					}
				}
				one.drain(single)
				for _, c := range instances {
					many.drain(c)
				}
				alone, together := one.operations(LastHour).Totals, many.operations(LastHour).Totals
				if alone != together {
					t.Errorf("one instance has measured %+v, four %+v", alone, together)
				}
				for q, got := range map[float64]time.Duration{0.50: alone.Total.P50, 0.95: alone.Total.P95, 0.99: alone.Total.P99} {
					if want := exact(samples, q); !within(got, want, 0.02) {
						t.Errorf("the quantile %g is %s, want %s", q, got, want)
					}
				}
				if half := exact(samples, 0.95) / 2; !within(alone.Resolver.P95, half, 0.02) {
					t.Errorf("the resolver's is %s, want %s", alone.Resolver.P95, half)
				}
			})
		}
	}
}

// TestOperationsAreApart by name and type, with all that is known of each.
func TestOperationsAreApart(t *testing.T) {
	w := newWorld(t)
	c := w.collector()
	ask := func(name, kind string, complexity int, failed bool, classes ...analytics.Class) {
		o := asked(name, 10*time.Millisecond, w.time)
		o.Type, o.Complexity, o.Failed, o.Classes = kind, complexity, failed, classes
		c.Operation(o)
	}
	ask("List", "query", 4, false)
	ask("List", "query", 10, true, analytics.ClassResolver, analytics.ClassTimeout)
	ask("List", "query", 1, true, analytics.ClassAuth)
	ask("List", "mutation", 2, false)
	ask("", "subscription", 0, false)
	ask("", "", -5, true, analytics.ClassSyntax, analytics.Class(200))
	ask("", "nonsense", 0, true, analytics.ClassValidation)
	w.drain(c)
	for _, addedUp := range []bool{false, true} {
		if addedUp {
			w.rollup()
		}
		got := w.operations(Last24Hours)
		lines := fmt.Sprintf("all %d %d %v %.2f %d\n", got.Totals.Operations, got.Totals.Failed, got.Totals.Classes, got.Totals.ComplexityAvg, got.Totals.ComplexityMax)
		for _, o := range got.Each {
			lines += fmt.Sprintf("%s %s %d %d %v %.2f %d\n", o.Name, o.Type, o.Operations, o.Failed, o.Classes, o.ComplexityAvg, o.ComplexityMax)
		}
		const want = "all 7 4 [1 1 1 1 1] 2.43 10\n" +
			"List query 3 2 [0 0 1 1 1] 5.00 10\n" +
			"(unnamed)  2 2 [1 1 0 0 0] 0.00 0\n" +
			"(unnamed) subscription 1 0 [0 0 0 0 0] 0.00 0\n" +
			"List mutation 1 0 [0 0 0 0 0] 2.00 2\n"
		if lines != want {
			t.Errorf("added up: %v: got\n%s\nwant\n%s", addedUp, lines, want)
		}
	}
}

// TestRequestsThatNoUpstreamWasAskedAreNoneOfItsTimes: what a policy refuses would have resolvers look fast.
func TestRequestsThatNoUpstreamWasAskedAreNoneOfItsTimes(t *testing.T) {
	w := newWorld(t)
	c := w.collector()
	slow, refused := asked("Slow", 100*time.Millisecond, w.time), asked("Refused", time.Millisecond, w.time)
	slow.Resolver, refused.Resolver = 80*time.Millisecond, 0
	c.Operation(slow)
	for range 20 {
		c.Operation(refused)
	}
	w.drain(c)
	got := w.operations(LastHour)
	if p := got.Totals.Resolver.P50; got.Totals.Operations != 21 || p < 78_400*time.Microsecond || p > 81_600*time.Microsecond { // within 2 %
		t.Errorf("got %+v", got.Totals)
	}
	for _, o := range got.Each {
		if o.Name == "Refused" && o.Resolver != (Latency{}) {
			t.Errorf("of what was refused: %+v", o.Resolver)
		}
	}
}

// TestNothingMeasuredIsNothing: no latency of what was not asked.
func TestNothingMeasuredIsNothing(t *testing.T) {
	w := newWorld(t)
	if got := w.operations(LastThreeMonths); got.Totals != (OperationCount{}) || got.Each != nil {
		t.Errorf("got %+v", got)
	}
	c := w.collector()
	o := asked("Back", -time.Second, w.time) // a clock that was set back
	c.Operation(o)
	w.drain(c)
	if got := w.operations(LastHour).Totals; got.Operations != 1 || got.Total != (Latency{}) {
		t.Errorf("got %+v", got)
	}
}

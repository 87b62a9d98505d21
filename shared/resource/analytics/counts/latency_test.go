package counts

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/resource/analytics"
)

// exactQuantile returns the smallest sample such that at least the share q of the samples is not longer.
func exactQuantile(samples []time.Duration, q float64) time.Duration {
	sorted := slices.Sorted(slices.Values(samples))
	return sorted[int(math.Ceil(q*float64(len(sorted))))-1]
}

// withinTolerance reports whether got differs from want by at most this share of want.
func withinTolerance(got, want time.Duration, tolerance float64) bool {
	return math.Abs(float64(got-want)) <= tolerance*float64(want)
}

// TestLatenciesAreWithinTwoPercent compares reported quantiles with the exact quantiles of the same samples, for
// several distributions. One instance and several instances must report the same quantiles.
func TestLatenciesAreWithinTwoPercent(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	distributions := map[string]func() time.Duration{
		"uniform": func() time.Duration { return time.Duration(random.Int64N(int64(time.Second))) + time.Microsecond },
		"a long tail": func() time.Duration {
			return time.Duration(math.Exp(random.NormFloat64()*1.5+3) * float64(time.Millisecond))
		},
		"two clusters": func() time.Duration {
			return []time.Duration{3 * time.Millisecond, 30 * time.Second}[random.IntN(2)] + time.Duration(random.IntN(1e6))
		},
		"a constant":   func() time.Duration { return 12345 * time.Microsecond },
		"nine decades": func() time.Duration { return time.Duration(math.Pow(10, 3+9*random.Float64())) },
		"microseconds": func() time.Duration { return time.Duration(1 + random.IntN(2000)) },
	}
	for name, draw := range distributions {
		for _, n := range []int{1, 2, 19, 200, 5_000} {
			t.Run(fmt.Sprint(n, " ", name), func(t *testing.T) {
				var samples []time.Duration
				for range n {
					samples = append(samples, draw())
				}
				singleFixture, sharedFixture := newFixture(t), newFixture(t)
				single := singleFixture.collector()
				instances := []*Collector{
					sharedFixture.collector(), sharedFixture.collector(), sharedFixture.collector(),
					sharedFixture.collector(),
				}
				for i, d := range samples {
					single.Operation(newOperation("A", d, singleFixture.time))
					c := instances[i%len(instances)]
					c.Operation(newOperation("A", d, sharedFixture.time))
					if i%97 == 0 {
						sharedFixture.drain(c)
					}
					if i%1009 == 0 {
						sharedFixture.rollup()
					}
				}
				singleFixture.drain(single)
				for _, c := range instances {
					sharedFixture.drain(c)
				}
				singleTotals, sharedTotals := singleFixture.operations(LastHour).Totals, sharedFixture.operations(LastHour).Totals
				if singleTotals != sharedTotals {
					t.Errorf("totals of one instance = %+v, of four instances %+v, want them equal", singleTotals, sharedTotals)
				}
				for q, got := range map[float64]time.Duration{
					0.50: singleTotals.Total.P50, 0.95: singleTotals.Total.P95,
					0.99: singleTotals.Total.P99,
				} {
					if want := exactQuantile(samples, q); !withinTolerance(got, want, 0.02) {
						t.Errorf("quantile %g of the latencies = %s, want %s within 2 %%", q, got, want)
					}
				}
				if half := exactQuantile(samples, 0.95) / 2; !withinTolerance(singleTotals.Resolver.P95, half, 0.02) {
					t.Errorf("P95 of the resolvers = %s, want %s within 2 %%", singleTotals.Resolver.P95, half)
				}
			})
		}
	}
}

// TestOperationsAreDistinguishedByNameAndType checks that a report has all measurements of the operations, with an
// entry for each name and type. An unknown type counts as no type.
func TestOperationsAreDistinguishedByNameAndType(t *testing.T) {
	fx := newFixture(t)
	c := fx.collector()
	record := func(name, kind string, complexity int, failed bool, classes ...analytics.Class) {
		o := newOperation(name, 10*time.Millisecond, fx.time)
		o.Type, o.Complexity, o.Failed, o.Classes = kind, complexity, failed, classes
		c.Operation(o)
	}
	record("List", "query", 4, false)
	record("List", "query", 10, true, analytics.ClassResolver, analytics.ClassTimeout)
	record("List", "query", 1, true, analytics.ClassAuth)
	record("List", "mutation", 2, false)
	record("", "subscription", 0, false)
	record("", "", -5, true, analytics.ClassSyntax, analytics.Class(200))
	record("", "nonsense", 0, true, analytics.ClassValidation)
	fx.drain(c)
	for _, rolledUp := range []bool{false, true} {
		if rolledUp {
			fx.rollup()
		}
		got := fx.operations(Last24Hours)
		lines := fmt.Sprintf("all %d %d %v %.2f %d\n", got.Totals.Operations, got.Totals.Failed, got.Totals.Classes,
			got.Totals.ComplexityAvg, got.Totals.ComplexityMax)
		for _, o := range got.Each {
			lines += fmt.Sprintf("%s %s %d %d %v %.2f %d\n", o.Name, o.Type, o.Operations, o.Failed, o.Classes, o.ComplexityAvg,
				o.ComplexityMax)
		}
		const want = "all 7 4 [1 1 1 1 1] 2.43 10\n" +
			"List query 3 2 [0 0 1 1 1] 5.00 10\n" +
			"(unnamed)  2 2 [1 1 0 0 0] 0.00 0\n" +
			"(unnamed) subscription 1 0 [0 0 0 0 0] 0.00 0\n" +
			"List mutation 1 0 [0 0 0 0 0] 2.00 2\n"
		if lines != want {
			t.Errorf("Operations(Last24Hours) with rollup %t =\n%s\nwant\n%s", rolledUp, lines, want)
		}
	}
}

// TestRefusedRequestsHaveNoResolverLatency checks that requests that a policy refuses do not count for the latencies of
// resolvers. With a latency of 0, they would make resolvers look fast.
func TestRefusedRequestsHaveNoResolverLatency(t *testing.T) {
	fx := newFixture(t)
	c := fx.collector()
	slow, refused := newOperation("Slow", 100*time.Millisecond, fx.time),
		newOperation("Refused", time.Millisecond, fx.time)
	slow.Resolver, refused.Resolver = 80*time.Millisecond, 0
	c.Operation(slow)
	for range 20 {
		c.Operation(refused)
	}
	fx.drain(c)
	got := fx.operations(LastHour)
	// 80 ms, within 2 %
	if p := got.Totals.Resolver.P50; got.Totals.Operations != 21 || p < 78_400*time.Microsecond ||
		p > 81_600*time.Microsecond {
		t.Errorf("totals = %+v, want 21 operations and a resolver P50 of 80ms, within 2 %%", got.Totals)
	}
	if n := got.countOf("Refused"); n != 20 {
		t.Errorf("report counts Refused %d times, want 20", n)
	}
	for _, o := range got.Each {
		if o.Name == "Refused" && o.Resolver != (Latency{}) {
			t.Errorf("resolver latency of refused requests = %+v, want none", o.Resolver)
		}
	}
}

// TestEmptyReportHasNoLatencies checks that a report without operations has no latencies, and that a negative latency
// is reported as 0.
func TestEmptyReportHasNoLatencies(t *testing.T) {
	fx := newFixture(t)
	if got := fx.operations(LastThreeMonths); got.Totals != (OperationCount{}) || got.Each != nil {
		t.Errorf("report without operations = %+v, want no totals and no entries", got)
	}
	c := fx.collector()
	o := newOperation("Back", -time.Second, fx.time) // a clock that was set back
	c.Operation(o)
	fx.drain(c)
	if got := fx.operations(LastHour).Totals; got.Operations != 1 || got.Total != (Latency{}) {
		t.Errorf("totals after a negative latency = %+v, want one operation without latency", got)
	}
}

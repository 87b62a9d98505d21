package allowance

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestLimitIsAdmittedAndNoMore(t *testing.T) {
	for _, limit := range []int64{0, 1, 2, 7, 100, 1000} {
		for _, instances := range []int{1, 3} {
			t.Run(fmt.Sprint(limit, " over ", instances), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					table := newBackend()
					var pools []*Pool
					for i := range instances {
						pools = append(pools, table.open(byte(i)))
					}
					a := minute(limit)
					var admitted, refused int64
					for range 2 {
						for k := range 2*int(limit) + 10 {
							d := mustTake(t, pools[k%instances], a, 1)
							synctest.Wait()
							switch {
							case d.Admitted && d.RetryAfter == 0:
								admitted++
							case !d.Admitted && d.RetryAfter == time.Until(a.To) && d.Remaining == 0:
								refused++
							default:
								t.Fatalf("an undecided decision: %+v", d)
							}
						}
						// What one holds and another could use comes back in time.
						for _, b := range pools {
							_ = b.Drain(t.Context())
						}
						time.Sleep(5 * time.Second)
					}
					if admitted != limit {
						t.Errorf("%d were admitted and %d refused, the limit is %d", admitted, refused, limit)
					}
				})
			})
		}
	}
}

func TestNextPeriodBeginsWithoutAWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBackend().open(1)
		for range 3 {
			if !mustTake(t, b, minute(1), 1).Admitted || mustTake(t, b, minute(1), 1).Admitted {
				t.Fatal("a window of one unit admits not exactly one")
			}
			time.Sleep(time.Minute)
		}
	})
}

func TestColdRequestCostsOneRoundTrip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newBackend()
		a := minute(1)
		if !mustTake(t, table.open(1), a, 1).Admitted {
			t.Fatal("refused")
		}
		if mustTake(t, table.open(2), a, 1).Admitted {
			t.Fatal("admitted twice")
		}
		if w, r := table.writes.Load(), table.reads.Load(); w != 2 || r != 0 {
			t.Errorf("%d writes and %d reads for one admission and one refusal, want 2 and 0", w, r)
		}
	})
}

func TestRefusedTrafficAsksTheTableSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newBackend()
		b := table.open(1)
		a := minute(5)
		for range 3000 { // 50 s of 60 requests a second
			if d := mustTake(t, b, a, 1); d.Admitted && time.Until(a.To) < 55*time.Second {
				t.Fatal("admitted beyond the limit")
			}
			time.Sleep(time.Second / 60)
		}
		if w, r := table.writes.Load(), table.reads.Load(); w > 6 || r > 20 {
			t.Errorf("%d writes and %d reads", w, r)
		}
	})
}

func TestLongNamesAreStoredAsHashes(t *testing.T) {
	a, b := minute(1), minute(1)
	a.Name, b.Name = strings.Repeat("x", 9000), strings.Repeat("x", 9000)+"y"
	if len(a.period().name) > longestName || a.period() == b.period() {
		t.Error("a long name is kept as it is, or two of them are one")
	}
}

func TestNonsenseIsRefused(t *testing.T) {
	b := newBackend().open(1)
	good := minute(10)
	for name, change := range map[string]func(*Allowance, *int64){
		"no units":              func(_ *Allowance, n *int64) { *n = 0 },
		"negative units":        func(_ *Allowance, n *int64) { *n = -5 },
		"negative limit":        func(a *Allowance, _ *int64) { a.Limit = -1 },
		"period without length": func(a *Allowance, _ *int64) { a.To = a.From },
	} {
		t.Run(name, func(t *testing.T) {
			a, n := good, int64(1)
			change(&a, &n)
			if d, err := b.Take(t.Context(), a, n); err == nil {
				t.Errorf("Take answers %+v", d)
			}
			if d, err := b.TakeAsync(t.Context(), a, n); err == nil {
				t.Errorf("TakeAsync answers %+v", d)
			}
		})
	}
}

// Real goroutines, for the race detector: spends, sweeps, evictions and
// callers who leave, all at once.
func TestManyGoroutinesKeepTheLimit(t *testing.T) {
	const limit = 2000
	table := newBackend()
	var pools []*Pool
	for i := range byte(3) {
		pools = append(pools, table.open(i, func(o *Options) { o.MaxSlots = 64 }))
	}
	a := minute(limit)
	a.From, a.To = Window(time.Now(), 24*time.Hour)
	var admitted atomic.Int64
	var all sync.WaitGroup
	for g := range 12 {
		all.Go(func() {
			random := rand.New(rand.NewPCG(uint64(g), 0))
			for k := range 600 {
				ctx, cancel := context.WithCancel(t.Context())
				if random.IntN(20) == 0 {
					cancel()
				}
				b := pools[g%len(pools)]
				if d, err := b.Take(ctx, a, 1); err == nil && d.Admitted {
					admitted.Add(1)
				}
				cancel()
				if k%50 == 0 {
					other := a
					other.Name = fmt.Sprint(g, "-", k)
					_, _ = b.TakeAsync(t.Context(), other, 1)
					_ = b.sweep(t.Context())
				}
			}
		})
	}
	all.Wait()
	for _, b := range pools {
		_ = b.Drain(t.Context())
	}
	granted, err := pools[0].ledger.granted(t.Context(), a.period())
	if err != nil || admitted.Load() > limit || granted > limit || granted < admitted.Load() {
		t.Errorf("%d admitted, %d granted of %d, %v", admitted.Load(), granted, limit, err)
	}
}

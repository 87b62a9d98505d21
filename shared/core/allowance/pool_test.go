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
			t.Run(fmt.Sprint("limit ", limit, " with ", instances, " instances"), func(t *testing.T) {
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
								t.Fatalf("Take() = %+v, want admitted without RetryAfter, or refused until the period's end", d)
							}
						}
						// Return the units that an instance still holds, so that another instance can take them.
						for _, pl := range pools {
							_ = pl.Drain(t.Context())
						}
						time.Sleep(5 * time.Second)
					}
					if admitted != limit {
						t.Errorf("Take() admitted %d and refused %d requests, want %d admitted", admitted, refused, limit)
					}
				})
			})
		}
	}
}

// TestEachPeriodHasTheWholeLimit checks that a new window has its own limit, although nothing resets the record.
func TestEachPeriodHasTheWholeLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pl := newBackend().open(1)
		for range 3 {
			first, second := mustTake(t, pl, minute(1), 1), mustTake(t, pl, minute(1), 1)
			if !first.Admitted || second.Admitted {
				t.Fatalf("Take() twice with a limit of 1: Admitted = %t, %t, want true, false", first.Admitted, second.Admitted)
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
			t.Fatal("first Take() with a limit of 1: Admitted = false, want true")
		}
		if mustTake(t, table.open(2), a, 1).Admitted {
			t.Fatal("Take() on a second instance with a limit of 1: Admitted = true, want false")
		}
		if w, r := table.writes.Load(), table.reads.Load(); w != 2 || r != 0 {
			t.Errorf("the admitted and the refused Take() need %d writes and %d reads, want 2 and 0", w, r)
		}
	})
}

// TestRefusedTrafficRarelyReadsTable checks that requests far beyond the limit are refused after the first 5 s, and
// need few calls of the table.
func TestRefusedTrafficRarelyReadsTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newBackend()
		pl := table.open(1)
		a := minute(5)
		for range 3000 { // 50 s with 60 requests a second
			if d := mustTake(t, pl, a, 1); d.Admitted && time.Until(a.To) < 55*time.Second {
				t.Fatalf("Take() beyond the limit = %+v, want refused", d)
			}
			time.Sleep(time.Second / 60)
		}
		if w, r := table.writes.Load(), table.reads.Load(); w > 6 || r > 20 {
			t.Errorf("3000 requests need %d writes and %d reads, want at most 6 and 20", w, r)
		}
	})
}

func TestLongNamesAreStoredAsHashes(t *testing.T) {
	a, b := minute(1), minute(1)
	a.Name, b.Name = strings.Repeat("x", 9000), strings.Repeat("x", 9000)+"y"
	if n := len(a.period().name); n > maxNameBytes {
		t.Errorf("period().name of a long name has %d bytes, want at most %d", n, maxNameBytes)
	}
	if a.period() == b.period() {
		t.Errorf("period() of two long names = %+v, want different periods", a.period())
	}
}

func TestInvalidRequestIsRefused(t *testing.T) {
	pl := newBackend().open(1)
	valid := minute(10)
	for name, change := range map[string]func(*Allowance, *int64){
		"no units":              func(_ *Allowance, n *int64) { *n = 0 },
		"negative units":        func(_ *Allowance, n *int64) { *n = -5 },
		"negative limit":        func(a *Allowance, _ *int64) { a.Limit = -1 },
		"period without length": func(a *Allowance, _ *int64) { a.To = a.From },
	} {
		t.Run(name, func(t *testing.T) {
			a, n := valid, int64(1)
			change(&a, &n)
			if d, err := pl.Take(t.Context(), a, n); err == nil {
				t.Errorf("Take() = %+v, want an error", d)
			}
			if d, err := pl.TakeAsync(t.Context(), a, n); err == nil {
				t.Errorf("TakeAsync() = %+v, want an error", d)
			}
		})
	}
}

// TestManyGoroutinesKeepTheLimit checks that concurrent requests, sweeps and evictions do not exceed
// the limit, even if some requests are canceled. It uses real goroutines, for the race detector.
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
				pl := pools[g%len(pools)]
				if d, err := pl.Take(ctx, a, 1); err == nil && d.Admitted {
					admitted.Add(1)
				}
				cancel()
				if k%50 == 0 {
					other := a
					other.Name = fmt.Sprint(g, "-", k)
					_, _ = pl.TakeAsync(t.Context(), other, 1)
					_ = pl.sweep(t.Context())
				}
			}
		})
	}
	all.Wait()
	for _, pl := range pools {
		_ = pl.Drain(t.Context())
	}
	granted, err := pools[0].ledger.granted(t.Context(), a.period())
	if err != nil || admitted.Load() > limit || granted > limit || granted < admitted.Load() {
		t.Errorf("granted() = %d, %v, %d admitted, want at most %d granted and at least as many as admitted",
			granted, err, admitted.Load(), limit)
	}
}

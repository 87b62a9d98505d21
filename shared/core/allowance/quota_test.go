package allowance

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/core/store"
)

// quotas returns the Quotas of an instance. nth distinguishes it from other instances in the same test.
func (b *backend) quotas(nth byte, change ...func(*Options)) *Quotas {
	return quotasOver(b, nth, change...)
}

// quotasOver returns the Quotas of an instance over a backend.
func quotasOver(b store.Backend, nth byte, change ...func(*Options)) *Quotas {
	o := Options{
		Table: store.New(b, store.Options{Random: rand.NewChaCha8([32]byte{nth, 1}), Now: time.Now}),
		Now:   time.Now, Random: rand.NewChaCha8([32]byte{nth, 2}), Log: slog.New(slog.DiscardHandler),
	}
	for _, c := range change {
		c(&o)
	}
	return NewQuotas(o)
}

// month returns an allowance for the month that begins with a synctest bubble.
func month(limit int64) Allowance {
	from := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // the start of a bubble's time
	return Allowance{Name: "account/subscription/calls", Limit: limit, From: from, To: from.AddDate(0, 1, 0)}
}

func used(t *testing.T, q *Quotas, a Allowance) int64 {
	t.Helper()
	n, err := Used(t.Context(), q.table, a)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestUnspentUnitsOfInstance checks that Used minus Unspent is the number of
// spent units, even immediately after a refund, before the table is written.
func TestUnspentUnitsOfInstance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newBackend().quotas(1)
		a := month(100_000)
		spendSome(t, q, a, 40)
		refunded := a
		refunded.Limit = 50_000 // during a rollout two limits are in force
		mustTake(t, q.pool, refunded, 7)
		synctest.Wait()
		for range 5 {
			mustTake(t, q.pool, a, 3)
			q.Refund(t.Context(), a, 3)
		}
		q.Refund(t.Context(), refunded, 7)
		synctest.Wait()
		if n := used(t, q, a) - q.Unspent(a); n != 40 {
			t.Errorf("Used() - Unspent() = %d, want 40", n)
		}
		if err := q.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n, unspent := used(t, q, a), q.Unspent(a); n != 40 || unspent != 0 {
			t.Errorf("after Drain(): Used() = %d, Unspent() = %d, want 40 and 0", n, unspent)
		}
	})
}

// spendSome requests n units from an instance, ten a second, so that it leases ahead.
func spendSome(t *testing.T, q *Quotas, a Allowance, n int) {
	t.Helper()
	for range n {
		mustTake(t, q.pool, a, 1)
		synctest.Wait()
		time.Sleep(100 * time.Millisecond)
	}
}

// holdings returns the units that an instance holds of an allowance. activated is the number of units that the instance
// can spend. reserve is the number of leased units that are not activated.
func (q *Quotas) holdings(a Allowance) (activated, reserve int64) {
	s := q.pool.find(a.period(), a.Limit)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tokens.Load(), s.currentReserve()
}

func TestReclaimReturnsReservedUnitsAfterCrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, a := newBackend(), month(10_000)
		crashed, other := table.quotas(1), table.quotas(2)
		spendSome(t, crashed, a, 50)
		activated, reserve := crashed.holdings(a)
		if before := used(t, other, a); reserve < 50 || before != 50+activated+reserve {
			t.Fatalf("Used() = %d with %d activated and %d reserved units, want a reserve of at least 50, and %d used",
				before, activated, reserve, 50+activated+reserve)
		}
		if err := Reclaim(t.Context(), other.table, time.Now()); err != nil {
			t.Fatal(err)
		}
		if got := used(t, other, a); got != 50+activated+reserve {
			t.Errorf("Used() after Reclaim() with a live instance = %d, want %d", got, 50+activated+reserve)
		}
		time.Sleep(deadAfter + dueStep + time.Second)
		for range 3 { // one call is enough, and more calls do no harm
			if err := Reclaim(t.Context(), other.table, time.Now()); err != nil {
				t.Fatal(err)
			}
			if got := used(t, other, a); got != 50+activated {
				t.Errorf("Used() after Reclaim() with a dead instance = %d, want the 50 admitted and the %d activated units",
					got, activated)
			}
		}
		if activated > minActivated {
			t.Errorf("activated units of the crashed instance = %d, want at most %d", activated, minActivated)
		}
	})
}

// TestFrozenInstanceContinuesWithActivatedUnits checks that an instance that was presumed dead while it was frozen can
// still spend its activated units. Its reserve was reclaimed, so it leases further units. Exactly the admitted units
// are counted.
func TestFrozenInstanceContinuesWithActivatedUnits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, a := newBackend(), month(10_000)
		q := table.quotas(1)
		spendSome(t, q, a, 50)
		activated, reserve := q.holdings(a)
		time.Sleep(time.Hour)
		if err := Reclaim(t.Context(), q.table, time.Now()); err != nil {
			t.Fatal(err)
		}
		spendSome(t, q, a, int(activated+reserve))
		if err := q.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got, want := used(t, q, a), 50+activated+reserve; got != want {
			t.Errorf("Used() after Drain() = %d, want the %d admitted units", got, want)
		}
	})
}

func TestReclaimSkipsLiveInstance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, a := newBackend(), month(1_000_000)
		q := table.quotas(1)
		ctx, stop := context.WithCancel(t.Context())
		go q.Run(ctx, time.Second)
		for range 300 { // too rarely for another lease, too often for a return
			mustTake(t, q.pool, a, 1)
			time.Sleep(time.Second)
			if err := Reclaim(t.Context(), q.table, time.Now()); err != nil {
				t.Fatal(err)
			}
			if b := q.pool.units.(*journals); b.all[0].closed.Load() {
				t.Fatal("Reclaim() closed the journal of a live instance, want it open")
			}
		}
		time.Sleep(3 * time.Minute) // idle
		if got := used(t, q, a); got != 300 {
			t.Errorf("Used() after an idle time = %d, want the 300 admitted units", got)
		}
		stop()
		synctest.Wait()
		if got := used(t, q, a); got != 300 {
			t.Errorf("Used() after the end of Run() = %d, want the 300 admitted units", got)
		}
	})
}

// TestSixteenInstancesAdmitExactlyTheQuota checks that sixteen instances that compete for a quota together admit
// exactly its limit.
func TestSixteenInstancesAdmitExactlyTheQuota(t *testing.T) {
	for _, limit := range []int64{100, 2000} {
		synctest.Test(t, func(t *testing.T) {
			table := &countingBackend{Backend: newBackend().Backend}
			a := month(limit)
			var admitted atomic.Int64
			ctx, stop := context.WithCancel(t.Context())
			for nth := range byte(16) {
				q := quotasOver(table, nth)
				go q.Run(ctx, time.Second)
				for range limit / 10 {
					go func() {
						d, err := q.Take(ctx, a, 1)
						for ; err == nil && !d.Admitted && limit > quotaOnDemandUnits; d, err = q.Take(ctx, a, 1) {
							// Another instance may hold the remainder, for half a minute at most.
							if time.Sleep(time.Second); time.Now().After(a.From.Add(5 * time.Minute)) {
								break
							}
						}
						if err != nil {
							t.Errorf("Take() error = %v, want none", err)
						}
						if d.Admitted {
							admitted.Add(1)
						}
					}()
				}
			}
			time.Sleep(10 * time.Minute)
			if got := admitted.Load(); got != limit {
				t.Errorf("Take() admitted %d of %d requests, want %d", got, 16*(limit/10), limit)
			}
			stop()
			synctest.Wait()
		})
	}
}

// TestQuotasAreSparing checks the number of admitted units per write, which is at least 20 under
// load. Its cases are the rows of the table in docs/decisions/0039-quotas-with-journals.md.
func TestQuotasAreSparing(t *testing.T) {
	for _, tt := range []struct {
		instances int
		rate      float64
		perWrite  float64 // the minimum number of admitted units per write
	}{
		{16, 100, 20},
		{16, 50, 20},
		{16, 30, 20},
		{1, 100, 20},
		{1, 400, 60},
		{4, 5, 3},
	} {
		t.Run(fmt.Sprint(tt.instances, " instances with ", tt.rate, " requests a second each"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, 10_000_000, 30*24*time.Hour)
				f.quota = true
				ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
				defer stop()
				for range tt.instances {
					go f.serve(ctx, tt.rate, false)
				}
				<-ctx.Done()
				time.Sleep(time.Minute)
				t.Log(f)
				if float64(f.admitted.Load()) < tt.perWrite*float64(f.table.writes.Load()) {
					t.Errorf("%v: want at least %v admitted units per write", f, tt.perWrite)
				}
			})
		})
	}
}

// TestCrashCostsAFractionOfASecond checks that a crash loses only the units of a
// fraction of a second of the instance's traffic, and few units if this traffic is low.
func TestCrashCostsAFractionOfASecond(t *testing.T) {
	for rate, maxLost := range map[int]int64{2: 3, 20: 28, 100: 45, 400: 150, 1000: 350} {
		synctest.Test(t, func(t *testing.T) {
			table, a := newBackend(), month(10_000_000)
			q := table.quotas(1)
			var lost int64
			for range 40 * rate {
				mustTake(t, q.pool, a, 1)
				synctest.Wait()
				activated, _ := q.holdings(a)
				lost = max(lost, activated)
				time.Sleep(time.Second / time.Duration(rate))
			}
			t.Logf("%d a second: at most %d are lost", rate, lost)
			if lost > maxLost || lost == 0 {
				t.Errorf("%d requests a second: a crash loses %d units, want 1 to %d", rate, lost, maxLost)
			}
		})
	}
}

// TestQuotaIsUsedUpWhileInstancesCrash crashes an instance every five seconds, in the middle of traffic. It checks that
// the other instances use up the quota, except at most 14 units for each crash.
func TestQuotaIsUsedUpWhileInstancesCrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 20_000
		f := newFleet(t, limit, 30*24*time.Hour)
		f.quota = true
		ctx, stop := context.WithTimeout(t.Context(), 30*time.Minute)
		defer stop()
		sweeper := store.New(f.table, store.Options{Random: rand.NewChaCha8([32]byte{}), Now: time.Now})
		go func() {
			for ctx.Err() == nil {
				time.Sleep(time.Minute)
				if err := Reclaim(t.Context(), sweeper, time.Now()); err != nil {
					t.Errorf("Reclaim() = %v, want nil", err)
				}
			}
		}()
		crashed := 0
		for time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)) < 10*time.Minute {
			runCtx, cancel := context.WithTimeout(ctx, 25*time.Second)
			defer cancel()
			go f.serve(runCtx, 10, true)
			crashed++
			time.Sleep(5 * time.Second)
		}
		go f.serve(ctx, 100, false)
		go f.serve(ctx, 100, false)
		<-ctx.Done()
		time.Sleep(time.Minute)
		lost := limit - f.admitted.Load()
		t.Logf("%d crashes: %d of %d are lost, %v", crashed, lost, limit, f)
		if lost < 0 || lost > int64(crashed)*14 {
			t.Errorf("%d crashes lose %d units, want 0 to %d; %v", crashed, lost, crashed*14, f)
		}
	})
}

func BenchmarkTakeQuotaFromMemory(b *testing.B) {
	q := newBackend().quotas(1)
	a := month(1 << 40)
	a.To = time.Now().Add(24 * time.Hour)
	if _, err := q.Take(b.Context(), a, 1); err != nil {
		b.Fatal(err)
	}
	q.pool.find(a.period(), a.Limit).tokens.Store(1 << 39)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if d, err := q.Take(b.Context(), a, 1); err != nil || !d.Admitted {
				b.Fatalf("Take() = %+v, %v, want admitted", d, err)
			}
		}
	})
}

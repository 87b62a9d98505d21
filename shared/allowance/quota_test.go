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

	"github.com/gatewright/gatewright/shared/store"
)

// quotas makes an instance; nth tells it from others of the same test.
func (b *backend) quotas(nth byte, change ...func(*Options)) *Quotas {
	return quotasOver(b, nth, change...)
}

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

func month(limit int64) Allowance {
	from := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // when a bubble's time begins
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

// TestHeldUnitsAreTheInstancesOwn: the used units in the table less the held units are the spent units. This is so at once
// after a request has handed units back, and without a write.
func TestHeldUnitsAreTheInstancesOwn(t *testing.T) {
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
			q.Give(t.Context(), a, 3)
		}
		q.Give(t.Context(), refunded, 7)
		synctest.Wait()
		if n := used(t, q, a) - q.Held(a); n != 40 {
			t.Errorf("Used - Held = %d, want the 40 units that were spent", n)
		}
		if err := q.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n, held := used(t, q, a), q.Held(a); n != 40 || held != 0 {
			t.Errorf("after Drain: Used = %d, Held = %d, want 40 and 0", n, held)
		}
	})
}

// spendSome has an instance admit n units, ten a second, so that it leases ahead.
func spendSome(t *testing.T, q *Quotas, a Allowance, n int) {
	t.Helper()
	for range n {
		mustTake(t, q.pool, a, 1)
		synctest.Wait()
		time.Sleep(100 * time.Millisecond)
	}
}

// held is what an instance has of an allowance: what it may spend, and what it has
// leased beyond.
func (q *Quotas) held(a Allowance) (begun, reserve int64) {
	s := q.pool.find(a.period(), a.Limit)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tokens.Load(), s.settleReserve()
}

func TestWhatACrashedInstanceHadNotBegunComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, a := newBackend(), month(10_000)
		dead, other := table.quotas(1), table.quotas(2)
		spendSome(t, dead, a, 50)
		begun, reserve := dead.held(a)
		if before := used(t, other, a); reserve < 50 || before != 50+begun+reserve {
			t.Fatalf("%d are used, it holds %d and %d: this test shows nothing", before, begun, reserve)
		}
		if err := Reclaim(t.Context(), other.table, time.Now()); err != nil {
			t.Fatal(err)
		}
		if got := used(t, other, a); got != 50+begun+reserve {
			t.Errorf("of a living instance something was taken: %d are used", got)
		}
		time.Sleep(deadAfter + dueStep + time.Second)
		for range 3 { // once is enough, more do no harm
			if err := Reclaim(t.Context(), other.table, time.Now()); err != nil {
				t.Fatal(err)
			}
			if got := used(t, other, a); got != 50+begun {
				t.Errorf("%d are used, want the 50 admitted and the %d begun", got, begun)
			}
		}
		if begun > fewestBegun {
			t.Errorf("%d were begun, at most %d should be", begun, fewestBegun)
		}
	})
}

// TestFrozenInstanceGoesOnWithWhatItHasBegun: it was held to be dead meanwhile.
func TestFrozenInstanceGoesOnWithWhatItHasBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, a := newBackend(), month(10_000)
		q := table.quotas(1)
		spendSome(t, q, a, 50)
		begun, reserve := q.held(a)
		time.Sleep(time.Hour)
		if err := Reclaim(t.Context(), q.table, time.Now()); err != nil {
			t.Fatal(err)
		}
		spendSome(t, q, a, int(begun+reserve))
		if err := q.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got, want := used(t, q, a), 50+begun+reserve; got != want {
			t.Errorf("%d are used, %d were admitted", got, want)
		}
	})
}

func TestLivingInstanceKeepsItsJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, a := newBackend(), month(1_000_000)
		q := table.quotas(1)
		ctx, stop := context.WithCancel(t.Context())
		go q.Run(ctx, time.Second)
		for range 300 { // too seldom for another lease, too often to give back
			mustTake(t, q.pool, a, 1)
			time.Sleep(time.Second)
			if err := Reclaim(t.Context(), q.table, time.Now()); err != nil {
				t.Fatal(err)
			}
			if b := q.pool.books.(*journals); b.all[0].gone.Load() {
				t.Fatal("it is held to be dead")
			}
		}
		time.Sleep(3 * time.Minute) // idle
		if got := used(t, q, a); got != 300 {
			t.Errorf("%d are used after the lull, 300 were admitted", got)
		}
		stop()
		synctest.Wait()
		if got := used(t, q, a); got != 300 {
			t.Errorf("%d are used after the end, 300 were admitted", got)
		}
	})
}

// TestSixteenInstancesAdmitExactlyTheQuota races them over it.
func TestSixteenInstancesAdmitExactlyTheQuota(t *testing.T) {
	for _, limit := range []int64{100, 2000} {
		synctest.Test(t, func(t *testing.T) {
			table := &counted{Backend: newBackend().Backend}
			a := month(limit)
			var admitted atomic.Int64
			ctx, stop := context.WithCancel(t.Context())
			for nth := range byte(16) {
				q := quotasOver(table, nth)
				go q.Run(ctx, time.Second)
				for range limit / 10 {
					go func() {
						d, err := q.Take(ctx, a, 1)
						for ; err == nil && !d.Admitted && limit > lastUnits; d, err = q.Take(ctx, a, 1) {
							// Another may hold what is left, for half a minute at most.
							if time.Sleep(time.Second); time.Now().After(a.From.Add(5 * time.Minute)) {
								break
							}
						}
						if err != nil {
							t.Error(err)
						}
						if d.Admitted {
							admitted.Add(1)
						}
					}()
				}
			}
			time.Sleep(10 * time.Minute)
			if got := admitted.Load(); got != limit {
				t.Errorf("%d are admitted of %d requests, the quota is %d", got, 16*(limit/10), limit)
			}
			stop()
			synctest.Wait()
		})
	}
}

// TestQuotasAreSparing: under one write for 20 units at load. Its rows are those of
// docs/decisions/0039-quotas-with-journals.md.
func TestQuotasAreSparing(t *testing.T) {
	for _, tt := range []struct {
		instances int
		rate      float64
		least     float64
	}{
		{16, 100, 20},
		{16, 50, 20},
		{16, 30, 20},
		{1, 100, 20},
		{1, 400, 60},
		{4, 5, 3},
	} {
		t.Run(fmt.Sprint(tt.instances, " of ", tt.rate), func(t *testing.T) {
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
				if float64(f.admitted.Load()) < tt.least*float64(f.table.writes.Load()) {
					t.Errorf("too many writes: %v", f)
				}
			})
		})
	}
}

// TestCrashCostsAFractionOfASecond of the instance's own traffic, and few units where
// that is slow.
func TestCrashCostsAFractionOfASecond(t *testing.T) {
	for rate, most := range map[int]int64{2: 3, 20: 28, 100: 45, 400: 150, 1000: 350} {
		synctest.Test(t, func(t *testing.T) {
			table, a := newBackend(), month(10_000_000)
			q := table.quotas(1)
			var lost int64
			for range 40 * rate {
				mustTake(t, q.pool, a, 1)
				synctest.Wait()
				begun, _ := q.held(a)
				lost = max(lost, begun)
				time.Sleep(time.Second / time.Duration(rate))
			}
			t.Logf("%d a second: at most %d are lost", rate, lost)
			if lost > most || lost == 0 {
				t.Errorf("%d a second: %d units are lost, at most %d should be", rate, lost, most)
			}
		})
	}
}

// TestQuotaIsUsedUpWhileInstancesCrash every five seconds, each in the middle of traffic.
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
					t.Error(err)
				}
			}
		}()
		crashed := 0
		for time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)) < 10*time.Minute {
			life, end := context.WithTimeout(ctx, 25*time.Second)
			defer end()
			go f.serve(life, 10, true)
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
			t.Errorf("%d units are lost by %d crashes, %v", lost, crashed, f)
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
				b.Fatal(d, err)
			}
		}
	})
}

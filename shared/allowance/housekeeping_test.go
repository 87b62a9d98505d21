package allowance

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestFailuresThatNobodyWaitsForAreLogged, and no others: who waits is told.
func TestFailuresThatNobodyWaitsForAreLogged(t *testing.T) {
	for name, ask := range map[string]func(*Pool, context.Context, Allowance, int64) (Decision, error){
		"": (*Pool).Take, "the table did not answer": (*Pool).TakeAsync,
	} {
		synctest.Test(t, func(t *testing.T) {
			table := newBackend()
			var lines strings.Builder
			pl := table.open(1, func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&lines, nil)) })
			table.before = func(context.Context) error { return errSimulated }
			_, _ = ask(pl, t.Context(), minute(10), 1)
			synctest.Wait()
			if got := strings.Count(lines.String(), "\n"); got != min(len(name), 1) || !strings.Contains(lines.String(), name) {
				t.Errorf("logged is %q, not %q", lines.String(), name)
			}
			table.before = nil
			time.Sleep(time.Second)
			mustTake(t, pl, minute(10), 1)
			synctest.Wait()
			if got := strings.Count(lines.String(), "\n"); got != min(len(name), 1) {
				t.Errorf("logged is what went well: %q", lines.String())
			}
		})
	}
}

func TestAsyncAdmitsTheWholeLimitAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pl := newBackend().open(1)
		if d, err := pl.TakeAsync(t.Context(), minute(10), 10); err != nil || !d.Admitted {
			t.Errorf("got %+v, %v", d, err)
		}
		if d, err := pl.TakeAsync(t.Context(), minute(11), 12); err != nil || d.Admitted {
			t.Errorf("more than the limit: got %+v, %v", d, err)
		}
		synctest.Wait()
	})
}

func TestAsyncLooksAgainAtAnEmptyRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newBackend()
		holder, pl, a := table.open(1), table.open(2), minute(10)
		mustTake(t, holder, a, 1)
		if err := holder.ledger.overdraw(t.Context(), a.period(), 9); err != nil {
			t.Fatal(err)
		}
		for range 2 { // the first is admitted unasked, and counted
			_, _ = pl.TakeAsync(t.Context(), a, 1)
			synctest.Wait()
		}
		if d, _ := pl.TakeAsync(t.Context(), a, 1); d.Admitted {
			t.Fatal("admitted though it is known that nothing is left")
		}
		if err := holder.ledger.overdraw(t.Context(), a.period(), -6); err != nil {
			t.Fatal(err)
		}
		time.Sleep(recheck(a.period()))
		if d, _ := pl.TakeAsync(t.Context(), a, 1); d.Admitted {
			t.Error("admitted before the record was looked at")
		}
		synctest.Wait()
		if d, _ := pl.TakeAsync(t.Context(), a, 1); !d.Admitted {
			t.Error("what came back is not seen")
		}
		synctest.Wait()
	})
}

func TestTheNextSliceIsAskedForInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pl, s := newBackend().open(1), newSlot(minute(100).period(), 100, 0)
		s.leased = 6
		s.tokens.Store(6)
		s.low.Store(5)
		for i, want := range []int64{5, 0} { // 5 units are not fewer than 5
			d, ok := pl.spend(t.Context(), s, 1)
			if !ok || !d.Admitted || s.low.Load() != want {
				t.Errorf("unit %d: %+v, and the next slice is asked for below %d", i, d, s.low.Load())
			}
		}
		synctest.Wait()
	})
}

func TestSpendingSaysWhatRemains(t *testing.T) {
	s := newSlot(aMinute(), 100, 0)
	s.tokens.Store(5)
	for _, tt := range []struct {
		n, remain int64
		ok        bool
	}{{2, 3, true}, {4, 3, false}, {3, 0, true}, {1, 0, false}} {
		if remain, ok := s.spend(tt.n); remain != tt.remain || ok != tt.ok || s.tokens.Load() != tt.remain {
			t.Errorf("%d: %d remain of %d, %v", tt.n, remain, s.tokens.Load(), ok)
		}
	}
}

// TestAShareTakesTwoLooks: what the record held before an instance knew it says
// nothing of who took it.
func TestAShareTakesTwoLooks(t *testing.T) {
	s := newSlot(aMinute(), 100, 0)
	for range 2 {
		s.settle(at(0), grant{leased: 10, left: 70, before: 20})
		if s.demand.share != 0 {
			t.Errorf("after one look the share is %v", s.demand.share)
		}
		s.settle(at(time.Second), grant{leased: 10, left: 50, before: 40})
		if s.demand.share != 0.5 {
			t.Errorf("after two looks the share is %v", s.demand.share)
		}
		// A lease that failed may have been made: nothing is known any more.
		s.fail(at(2*time.Second), errSimulated)
		s.demand.share = 0
	}
}

func TestTwoLooksAtOneMomentAreOne(t *testing.T) {
	s := newSlot(aMinute(), 100, 0)
	s.leased = 60
	s.tokens.Store(60)
	s.reclaim(at(0), false)
	s.tokens.Store(40) // 20 are spent
	s.reclaim(at(0), false)
	if got := s.reclaim(at(16*time.Second), false).n; got != 22 {
		t.Errorf("gives back %d, not what is beyond 20 in 16 s", got)
	}
}

func TestSweepsAreASecondApart(t *testing.T) {
	now := at(time.Hour)
	pl := newBackend().open(1, func(o *Options) { o.Now = func() time.Time { return now } })
	for ago, want := range map[time.Duration]bool{0: false, sweepInterval - 1: false, sweepInterval: true, -time.Hour: true} {
		last := now.Add(-ago).UnixNano()
		pl.swept.Store(last)
		pl.sweepWhenDue(t.Context())
		if swept := ago != 0 && pl.swept.Load() == now.UnixNano(); swept != want {
			t.Errorf("%v after the last one: %v", ago, swept)
		}
	}
}

func TestPeriodsAreRememberedForTheNextOne(t *testing.T) {
	for length, memory := range map[time.Duration]time.Duration{time.Minute: time.Minute, time.Hour: 2 * time.Minute} {
		for after, want := range map[time.Duration]int{memory - 1: 1, memory: 0} {
			now := at(length + after)
			pl := newBackend().open(1, func(o *Options) { o.Now = func() time.Time { return now } })
			pl.slot(Allowance{Name: "a", Limit: 1, From: at(0), To: at(length)})
			pl.collect(t.Context(), false)
			held := 0
			for i := range pl.shards {
				held += len(pl.shards[i].slots)
			}
			if held != want {
				t.Errorf("%v after a period of %v: %d", after, length, held)
			}
		}
	}
}

// TestAnEvictionLooksAtAFew: under a flood of names each one costs an eviction,
// so that one may not look at all that there are.
func TestAnEvictionLooksAtAFew(t *testing.T) {
	pl, least := newBackend().open(1), 0
	const tries = 40
	for range tries {
		sh := &shard{slots: map[slotKey]*slot{}}
		for n := range int64(200) {
			s := newSlot(aMinute(), n, 0)
			s.tokens.Store(n)
			sh.slots[slotKey{aMinute(), n}] = s
		}
		pl.evict(sh)
		if len(sh.slots) != 199 {
			t.Fatalf("%d are left of 200", len(sh.slots))
		}
		if sh.slots[slotKey{aMinute(), 0}] == nil {
			least++
		}
	}
	if least == tries {
		t.Error("it always finds the one with the fewest units, and so looks at all of them")
	}
}

func TestARefundThatWasMadeIsNotAskedForTwice(t *testing.T) {
	table := newBackend()
	pl, p := table.open(1), minute(100).period()
	if err := pl.ledger.lease(t.Context(), p, 100, 50); err != nil {
		t.Fatal(err)
	}
	pl.enqueueReturn(p, 5)
	if err := pl.ledger.release(t.Context(), pl.pending.refunds...); err != nil {
		t.Fatal(err)
	}
	before := table.writes.Load()
	if err := pl.flushReturns(t.Context()); err != nil || table.writes.Load() != before+1 || len(pl.pending.refunds) != 0 {
		t.Errorf("%d writes, %d still owed, %v", table.writes.Load()-before, len(pl.pending.refunds), err)
	}
}

// TestRefundsOfABatchThatFailOneByOneAreKept: another one of the batch was made
// before, and its reply lost.
func TestRefundsOfABatchThatFailOneByOneAreKept(t *testing.T) {
	table := newBackend()
	pl := table.open(1)
	first, second := minute(100).period(), minute(100).period()
	first.name, second.name = "a", "b"
	for _, p := range []period{first, second} {
		if err := pl.ledger.lease(t.Context(), p, 100, 50); err != nil {
			t.Fatal(err)
		}
		pl.enqueueReturn(p, 5)
	}
	if err := pl.ledger.release(t.Context(), pl.pending.refunds[0]); err != nil {
		t.Fatal(err)
	}
	calls := 0 // the batch, the first alone, the second alone
	table.before = func(context.Context) error {
		if calls++; calls == 3 {
			return errSimulated
		}
		return nil
	}
	if err := pl.flushReturns(t.Context()); !errors.Is(err, errSimulated) || len(pl.pending.refunds) != 1 {
		t.Errorf("answers %v, and owes %d", err, len(pl.pending.refunds))
	}
	if err := pl.flushReturns(t.Context()); err != nil || len(pl.pending.refunds) != 0 {
		t.Errorf("then answers %v, and owes %d", err, len(pl.pending.refunds))
	}
	for _, p := range []period{first, second} {
		if got, err := pl.ledger.granted(t.Context(), p); err != nil || got != 45 {
			t.Errorf("%s: %d are granted, %v", p.name, got, err)
		}
	}
}

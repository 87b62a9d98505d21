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

// TestFailuresWithoutWaitersAreLogged checks that a failed lease is logged if no caller waits
// for it. A failure with waiters must not be logged, because the waiters receive the error.
func TestFailuresWithoutWaitersAreLogged(t *testing.T) {
	// The keys are texts in the wanted line, "" for no line.
	for want, take := range map[string]func(*Pool, context.Context, Allowance, int64) (Decision, error){
		"": (*Pool).Take, "the table did not answer": (*Pool).TakeAsync,
	} {
		wantLines := min(len(want), 1)
		synctest.Test(t, func(t *testing.T) {
			table := newBackend()
			var lines strings.Builder
			pl := table.open(1, func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&lines, nil)) })
			table.before = func(context.Context) error { return errSimulated }
			_, _ = take(pl, t.Context(), minute(10), 1)
			synctest.Wait()
			if got := strings.Count(lines.String(), "\n"); got != wantLines || !strings.Contains(lines.String(), want) {
				t.Errorf("log after a failure is %q, want %d lines with %q", lines.String(), wantLines, want)
			}
			table.before = nil
			time.Sleep(time.Second)
			mustTake(t, pl, minute(10), 1)
			synctest.Wait()
			if got := strings.Count(lines.String(), "\n"); got != wantLines {
				t.Errorf("log after the failure and a success is %q, want %d lines", lines.String(), wantLines)
			}
		})
	}
}

func TestTakeAsyncAdmitsWholeLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pl := newBackend().open(1)
		if d, err := pl.TakeAsync(t.Context(), minute(10), 10); err != nil || !d.Admitted {
			t.Errorf("TakeAsync(10 of 10) = %+v, %v, want admitted", d, err)
		}
		if d, err := pl.TakeAsync(t.Context(), minute(11), 12); err != nil || d.Admitted {
			t.Errorf("TakeAsync(12 of 11) = %+v, %v, want not admitted and no error", d, err)
		}
		synctest.Wait()
	})
}

func TestTakeAsyncRechecksEmptyRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newBackend()
		holder, pl, a := table.open(1), table.open(2), minute(10)
		mustTake(t, holder, a, 1)
		if err := holder.ledger.overdraw(t.Context(), a.period(), 9); err != nil {
			t.Fatal(err)
		}
		for range 2 { // the first request is admitted before the record is read, and counted
			_, _ = pl.TakeAsync(t.Context(), a, 1)
			synctest.Wait()
		}
		if d, err := pl.TakeAsync(t.Context(), a, 1); err != nil || d.Admitted {
			t.Fatalf("TakeAsync() when the record is exhausted = %+v, %v, want refused and no error", d, err)
		}
		if err := holder.ledger.overdraw(t.Context(), a.period(), -6); err != nil {
			t.Fatal(err)
		}
		time.Sleep(recheckInterval(a.period()))
		if d, err := pl.TakeAsync(t.Context(), a, 1); err != nil || d.Admitted {
			t.Errorf("TakeAsync() before the record is read again = %+v, %v, want refused and no error", d, err)
		}
		synctest.Wait()
		if d, err := pl.TakeAsync(t.Context(), a, 1); err != nil || !d.Admitted {
			t.Errorf("TakeAsync() after units were returned = %+v, %v, want admitted", d, err)
		}
		synctest.Wait()
	})
}

// TestNextSliceIsRequestedAtWatermark checks that spend sets the watermark to 0 when fewer units than the watermark
// remain. It does so once, when it requests the next slice.
func TestNextSliceIsRequestedAtWatermark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pl, s := newBackend().open(1), newSlot(minute(100).period(), 100, 0)
		s.leased = 6
		s.tokens.Store(6)
		s.watermark.Store(5)
		for i, want := range []int64{5, 0} { // 5 units are not fewer than 5
			d, ok := pl.spend(t.Context(), s, 1)
			if !ok || !d.Admitted || s.watermark.Load() != want {
				t.Errorf("spend() of unit %d = %+v, %t, watermark %d, want admitted, true, %d",
					i+1, d, ok, s.watermark.Load(), want)
			}
		}
		synctest.Wait()
	})
}

func TestSpendReturnsRemaining(t *testing.T) {
	s := newSlot(minutePeriod(), 100, 0)
	s.tokens.Store(5)
	for _, tt := range []struct {
		n, remaining int64
		ok           bool
	}{{2, 3, true}, {4, 3, false}, {3, 0, true}, {1, 0, false}} {
		if remaining, ok := s.spend(tt.n); remaining != tt.remaining || ok != tt.ok || s.tokens.Load() != tt.remaining {
			t.Errorf("spend(%d) = %d, %t, %d tokens left, want %d, %t, %d",
				tt.n, remaining, ok, s.tokens.Load(), tt.remaining, tt.ok, tt.remaining)
		}
	}
}

// TestShareNeedsTwoReads checks that the share stays unknown after the first read of the
// record. One value does not show how many units other instances have taken meanwhile.
func TestShareNeedsTwoReads(t *testing.T) {
	s := newSlot(minutePeriod(), 100, 0)
	for range 2 {
		s.applyGrant(at(0), grant{leased: 10, remaining: 70, grantedBefore: 20})
		if s.demand.share != 0 {
			t.Errorf("share after one grant = %v, want 0", s.demand.share)
		}
		s.applyGrant(at(time.Second), grant{leased: 10, remaining: 50, grantedBefore: 40})
		if s.demand.share != 0.5 {
			t.Errorf("share after two grants = %v, want 0.5", s.demand.share)
		}
		// The failed lease may have taken units, so the record's value is unknown again.
		s.fail(at(2*time.Second), errSimulated)
		s.demand.share = 0
	}
}

// TestReclaimTwiceAtSameTime checks that a second call of reclaim within a horizon takes no new sample.
func TestReclaimTwiceAtSameTime(t *testing.T) {
	s := newSlot(minutePeriod(), 100, 0)
	s.leased = 60
	s.tokens.Store(60)
	s.reclaim(at(0), false)
	s.tokens.Store(40) // 20 are spent
	s.reclaim(at(0), false)
	if got := s.reclaim(at(16*time.Second), false).n; got != 22 {
		t.Errorf("reclaim() after 20 units were spent in 16 s = %d, want 22", got)
	}
}

func TestSweepInterval(t *testing.T) {
	now := at(time.Hour)
	pl := newBackend().open(1, func(o *Options) { o.Now = func() time.Time { return now } })
	for age, want := range map[time.Duration]bool{
		0: false, sweepInterval - 1: false, sweepInterval: true,
		-time.Hour: true,
	} {
		pl.swept.Store(now.Add(-age).UnixNano())
		pl.sweepWhenDue(t.Context())
		if swept := age != 0 && pl.swept.Load() == now.UnixNano(); swept != want {
			t.Errorf("sweepWhenDue() %v after the last sweep: swept = %t, want %t", age, swept, want)
		}
	}
}

// TestEndedPeriodsAreRemembered checks that the slot of an ended period is kept for the length of the period, but for
// at most two minutes.
func TestEndedPeriodsAreRemembered(t *testing.T) {
	for length, retention := range map[time.Duration]time.Duration{time.Minute: time.Minute, time.Hour: 2 * time.Minute} {
		for age, want := range map[time.Duration]int{retention - 1: 1, retention: 0} {
			now := at(length + age)
			pl := newBackend().open(1, func(o *Options) { o.Now = func() time.Time { return now } })
			pl.slot(Allowance{Name: "a", Limit: 1, From: at(0), To: at(length)})
			pl.collect(t.Context(), false)
			slots := 0
			for i := range pl.shards {
				slots += len(pl.shards[i].slots)
			}
			if slots != want {
				t.Errorf("slots after collect(), %v after the end of a period of %v = %d, want %d", age, length, slots, want)
			}
		}
	}
}

// TestEvictionConsidersFewSlots checks that an eviction does not consider
// all slots, because in a flood of new names each name causes an eviction.
func TestEvictionConsidersFewSlots(t *testing.T) {
	pl, evictedSmallest := newBackend().open(1), 0
	const tries = 40
	for range tries {
		sh := &shard{slots: map[slotKey]*slot{}}
		for n := range int64(200) {
			s := newSlot(minutePeriod(), n, 0)
			s.tokens.Store(n)
			sh.slots[slotKey{minutePeriod(), n}] = s
		}
		pl.evict(sh)
		if len(sh.slots) != 199 {
			t.Fatalf("slots after evict() = %d, want 199", len(sh.slots))
		}
		if sh.slots[slotKey{minutePeriod(), 0}] == nil {
			evictedSmallest++
		}
	}
	if evictedSmallest == tries {
		t.Errorf("evict() removed the smallest slot in %d of %d tries, want fewer: it examines all slots",
			evictedSmallest, tries)
	}
}

func TestAppliedRefundIsNotRepeated(t *testing.T) {
	table := newBackend()
	pl, p := table.open(1), minute(100).period()
	if err := pl.ledger.lease(t.Context(), p, 100, 50); err != nil {
		t.Fatal(err)
	}
	pl.scheduleRefund(refund{period: p, n: 5})
	if err := pl.ledger.release(t.Context(), pl.pending.refunds...); err != nil {
		t.Fatal(err)
	}
	before := table.writes.Load()
	if err := pl.flushReturns(t.Context()); err != nil || table.writes.Load() != before+1 || len(pl.pending.refunds) != 0 {
		t.Errorf("flushReturns() of an applied refund = %v, %d writes, %d pending refunds, want no error, 1, 0",
			err, table.writes.Load()-before, len(pl.pending.refunds))
	}
}

// TestFailedRefundsOfBatchAreKept checks a batch with a refund that was already applied, but whose reply was lost. The
// batch fails, so its refunds are made separately. Only the refund that then fails stays pending.
func TestFailedRefundsOfBatchAreKept(t *testing.T) {
	table := newBackend()
	pl := table.open(1)
	first, second := minute(100).period(), minute(100).period()
	first.name, second.name = "a", "b"
	for _, p := range []period{first, second} {
		if err := pl.ledger.lease(t.Context(), p, 100, 50); err != nil {
			t.Fatal(err)
		}
		pl.scheduleRefund(refund{period: p, n: 5})
	}
	if err := pl.ledger.release(t.Context(), pl.pending.refunds[0]); err != nil {
		t.Fatal(err)
	}
	calls := 0 // the batch, then the first and the second refund separately
	table.before = func(context.Context) error {
		if calls++; calls == 3 {
			return errSimulated
		}
		return nil
	}
	if err := pl.flushReturns(t.Context()); !errors.Is(err, errSimulated) || len(pl.pending.refunds) != 1 {
		t.Errorf("flushReturns() = %v, %d pending refunds, want %v, 1", err, len(pl.pending.refunds), errSimulated)
	}
	if err := pl.flushReturns(t.Context()); err != nil || len(pl.pending.refunds) != 0 {
		t.Errorf("second flushReturns() = %v, %d pending refunds, want no error, 0", err, len(pl.pending.refunds))
	}
	for _, p := range []period{first, second} {
		if got, err := pl.ledger.granted(t.Context(), p); err != nil || got != 45 {
			t.Errorf("granted(%s) = %d, %v, want 45", p.name, got, err)
		}
	}
}

package allowance

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestConcurrentCallersShareLeases checks that callers that arrive during a lease need at most one further lease.
func TestConcurrentCallersShareLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newBackend()
		unblock := make(chan struct{})
		table.before = func(context.Context) error { <-unblock; return nil }
		pl := table.open(1)
		a := minute(1000)
		var admitted atomic.Int64
		for range 200 {
			go func() {
				if d, err := pl.Take(t.Context(), a, 1); err == nil && d.Admitted {
					admitted.Add(1)
				}
			}()
		}
		synctest.Wait()
		close(unblock)
		synctest.Wait()
		if admitted.Load() != 200 || table.writes.Load() > 2 {
			t.Errorf("Take() admits %d of 200 with %d writes, want all with at most 2", admitted.Load(), table.writes.Load())
		}
	})
}

func TestCanceledCallerSpendsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newBackend()
		unblock := make(chan struct{})
		table.before = func(context.Context) error { <-unblock; return nil }
		pl := table.open(1)
		a := minute(1)
		ctx, cancel := context.WithCancelCause(t.Context())
		cause := errors.New("the client went away")
		result := make(chan error)
		go func() {
			_, err := pl.Take(ctx, a, 1)
			result <- err
		}()
		synctest.Wait()
		cancel(cause)
		if err := <-result; !errors.Is(err, cause) {
			t.Errorf("Take() with a canceled context = %v, want %v", err, cause)
		}
		close(unblock)
		synctest.Wait()
		if !mustTake(t, pl, a, 1).Admitted {
			t.Error("Take() after the canceled caller: Admitted = false, want true")
		}
	})
}

func TestCanceledCallerReturnsItsUnits(t *testing.T) {
	for _, tt := range []struct {
		name string
		out  outcome
		want int64
	}{
		{"admitted", outcome{admitted: true}, 3},
		{"refused", outcome{}, 0},
		{"failed", outcome{err: errSimulated}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSlot(testPeriod(), 10, 0)
			w := &waiter{n: 3, done: make(chan outcome, 1)}
			w.done <- tt.out // at the moment at which the caller stops waiting
			s.removeWaiter(w)
			if got := s.tokens.Load(); got != tt.want {
				t.Errorf("tokens after removeWaiter() = %d, want %d", got, tt.want)
			}
		})
	}
}

func TestLastUnitsAreAllAdmitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newBackend()
		a := minute(10)
		if !mustTake(t, table.open(1), a, 7).Admitted {
			t.Fatal("Take(7 of 10): Admitted = false, want true")
		}
		unblock := make(chan struct{})
		table.before = func(context.Context) error { <-unblock; return nil }
		pl := table.open(2)
		var admitted atomic.Int64
		for range 5 {
			go func() {
				if d, err := pl.Take(t.Context(), a, 1); err == nil && d.Admitted {
					admitted.Add(1)
				}
			}()
		}
		synctest.Wait()
		close(unblock)
		synctest.Wait()
		if admitted.Load() != 3 {
			t.Errorf("5 calls of Take() with 3 units left admitted %d, want 3", admitted.Load())
		}
	})
}

// TestTooLargeFirstLeaseIsReduced checks that a blind lease that wants more units than are left takes fewer.
func TestTooLargeFirstLeaseIsReduced(t *testing.T) {
	pl := newBackend().open(1)
	p := minute(10).period()
	if err := pl.ledger.lease(t.Context(), p, 10, 8); err != nil {
		t.Fatal(err)
	}
	g, err := pl.lease(t.Context(), request{period: p, limit: 10, need: 1, want: 5, blind: true})
	if err != nil || g.leased < 1 || g.leased+g.remaining != 2 {
		t.Errorf("lease() with 2 units left = %+v, %v, want at least 1 leased, and 2 with the remaining", g, err)
	}
}

// TestHeldUnitsAreSpentIfRecordIsEmpty checks that held units are spent although the record is known to be empty. Such
// units come from a lease that ends after a caller has read the tokens and before it reads the record's state.
func TestHeldUnitsAreSpentIfRecordIsEmpty(t *testing.T) {
	pl := newBackend().open(1)
	s := newSlot(testPeriod(), 10, 0)
	s.tokens.Store(2)
	s.exhausted, s.exhaustedAt = true, time.Now()
	if _, got, err := pl.enqueue(t.Context(), s, 1); err != nil || got != admitted {
		t.Errorf("enqueue(1) = %v, %v, want %v", got, err, admitted)
	}
	if got := pl.admitAhead(t.Context(), s, 1); got != admitted {
		t.Errorf("admitAhead(1) = %v, want %v", got, admitted)
	}
	if _, got, err := pl.enqueue(t.Context(), s, 1); err != nil || got != refused {
		t.Errorf("enqueue(1) without units = %v, %v, want %v", got, err, refused)
	}
}

// TestTableFailureIsReturnedToCaller checks that callers receive the error of a failing table, and that the table is
// not called again within the backoff.
func TestTableFailureIsReturnedToCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newBackend()
		errTable := errors.New("no route to the table")
		table.before = func(context.Context) error { return errTable }
		pl := table.open(1)
		a := minute(10)
		for range 50 {
			if _, err := pl.Take(t.Context(), a, 1); !errors.Is(err, errTable) {
				t.Fatalf("Take() with a failing table = %v, want %v", err, errTable)
			}
		}
		if n := table.writes.Load(); n != 1 {
			t.Errorf("calls of the failing table within the backoff = %d, want 1", n)
		}
		table.before = nil
		time.Sleep(failureBackoff)
		if !mustTake(t, pl, a, 1).Admitted {
			t.Error("Take() after the table recovered: Admitted = false, want true")
		}
	})
}

func TestHangingTableTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newBackend()
		table.before = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		start := time.Now()
		_, err := table.open(1).Take(t.Context(), minute(10), 1)
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 2*time.Second {
			t.Errorf("Take() with a table that hangs = %v after %v, want %v after 2s", err, time.Since(start),
				context.DeadlineExceeded)
		}
	})
}

package allowance

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestConcurrentCallersShareOneLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newBackend()
		open := make(chan struct{})
		table.before = func(context.Context) error { <-open; return nil }
		b := table.open(1)
		a := minute(1000)
		var admitted atomic.Int64
		for range 200 {
			go func() {
				if d, err := b.Take(t.Context(), a, 1); err == nil && d.Admitted {
					admitted.Add(1)
				}
			}()
		}
		synctest.Wait()
		close(open)
		synctest.Wait()
		if admitted.Load() != 200 || table.writes.Load() > 2 {
			t.Errorf("%d of 200 admitted with %d writes, want all with at most 2", admitted.Load(), table.writes.Load())
		}
	})
}

func TestCallerWhoLeavesSpendsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newBackend()
		open := make(chan struct{})
		table.before = func(context.Context) error { <-open; return nil }
		b := table.open(1)
		a := minute(1)
		ctx, leave := context.WithCancelCause(t.Context())
		why := errors.New("the client went away")
		left := make(chan error)
		go func() {
			_, err := b.Take(ctx, a, 1)
			left <- err
		}()
		synctest.Wait()
		leave(why)
		if err := <-left; !errors.Is(err, why) {
			t.Errorf("the caller heard %v", err)
		}
		close(open)
		synctest.Wait()
		if !mustTake(t, b, a, 1).Admitted {
			t.Error("the unit of the caller who left is lost")
		}
	})
}

func TestCallerWhoLeavesReturnsOnlyWhatItGot(t *testing.T) {
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
			s := newSlot(somePeriod(), 10, 0)
			w := &waiter{n: 3, done: make(chan outcome, 1)}
			w.done <- tt.out // at the moment in which the caller left
			s.leave(w)
			if got := s.tokens.Load(); got != tt.want {
				t.Errorf("%d units are there again, want %d", got, tt.want)
			}
		})
	}
}

func TestLastUnitsGoToAsManyAsTheySufficeFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newBackend()
		a := minute(10)
		if !mustTake(t, table.open(1), a, 7).Admitted {
			t.Fatal("refused")
		}
		open := make(chan struct{})
		table.before = func(context.Context) error { <-open; return nil }
		b := table.open(2)
		var admitted atomic.Int64
		for range 5 {
			go func() {
				if d, err := b.Take(t.Context(), a, 1); err == nil && d.Admitted {
					admitted.Add(1)
				}
			}()
		}
		synctest.Wait()
		close(open)
		synctest.Wait()
		if admitted.Load() != 3 {
			t.Errorf("%d of 5 were admitted, 3 units were left", admitted.Load())
		}
	})
}

func TestFirstGuessThatIsTooLargeStillTakesWhatIsLeft(t *testing.T) {
	b := newBackend().open(1)
	p := minute(10).period()
	if err := b.ledger.lease(t.Context(), p, 10, 8); err != nil {
		t.Fatal(err)
	}
	g, err := b.lease(t.Context(), request{period: p, limit: 10, need: 1, want: 5, blind: true})
	if err != nil || g.leased < 1 || g.leased+g.left != 2 {
		t.Errorf("got %+v, %v of the 2 units that are left", g, err)
	}
}

// A lease may arrive between a caller's look at the tokens and its look at the
// record's state.
func TestHeldUnitsAreSpentThoughTheRecordIsEmpty(t *testing.T) {
	b := newBackend().open(1)
	s := newSlot(somePeriod(), 10, 0)
	s.tokens.Store(2)
	s.exhausted, s.exhaustedAt = true, time.Now()
	if _, got, err := b.enqueue(t.Context(), s, 1); err != nil || got != admitted {
		t.Errorf("Take decides %v, %v", got, err)
	}
	if got := b.admitAhead(t.Context(), s, 1); got != admitted {
		t.Errorf("TakeAsync decides %v", got)
	}
	if _, got, err := b.enqueue(t.Context(), s, 1); err != nil || got != refused {
		t.Errorf("Take of more decides %v, %v", got, err)
	}
}

func TestTableFailureIsTheCallersToJudge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newBackend()
		broken := errors.New("no route to the table")
		table.before = func(context.Context) error { return broken }
		b := table.open(1)
		a := minute(10)
		for range 50 {
			if _, err := b.Take(t.Context(), a, 1); !errors.Is(err, broken) {
				t.Fatalf("heard %v", err)
			}
		}
		if n := table.writes.Load(); n != 1 {
			t.Errorf("the broken table was asked %d times within a moment, want once", n)
		}
		table.before = nil
		time.Sleep(failurePause)
		if !mustTake(t, b, a, 1).Admitted {
			t.Error("refused after the table came back")
		}
	})
}

func TestTableThatHangsIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newBackend()
		table.before = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		begin := time.Now()
		_, err := table.open(1).Take(t.Context(), minute(10), 1)
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != 2*time.Second {
			t.Errorf("after %v: %v, want a deadline after 2s", time.Since(begin), err)
		}
	})
}

package counts

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/memory"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

// live is a process that counts by the clock of a synctest bubble.
type live struct {
	*Collector
	table *store.Table
	stop  func() // as SIGTERM does, when the last request has its answer
}

func start(t *testing.T, items store.Backend) live {
	table := storetest.Over(t, items, storetest.Clock(time.Now), storetest.Pause(store.Backoff))
	c := New(Options{Table: table, Now: time.Now, Random: rand.Reader, Log: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.Run(ctx)
	}()
	return live{c, table, func() {
		cancel()
		<-done
	}}
}

// counted says how many calls a report of the last hour has.
func (l live) counted(t *testing.T) (n int64) {
	t.Helper()
	got, err := NewReader(l.table, time.Now).Statuses(t.Context(), shop.Name, LastHour, everybody)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range got.Totals {
		n += c.Calls
	}
	return n
}

// TestCallsAreSeenWithinTwentySeconds, each of them, added up or not.
func TestCallsAreSeenWithinTwentySeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := start(t, memory.New())
		defer l.stop()
		for i := range int64(200) {
			l.Call(calledBy("acme", 200, time.Now()))
			if i%50 == 49 {
				if _, err := NewRollup(l.table, time.Now).Run(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(20 * time.Second)
			if n := l.counted(t); n != min(i+1, 180) && i < 180 {
				t.Fatalf("20 s after call %d, %d are seen", i+1, n)
			}
		}
	})
}

// TestNothingIsLostAtTheEnd of a process that is asked to end, with requests on their way up to then.
func TestNothingIsLostAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := start(t, memory.New())
		const clients, each = 10, 1_234
		done := make(chan struct{})
		for range clients {
			go func() {
				for range each {
					l.Call(calledBy("acme", 200, time.Now()))
					time.Sleep(3 * time.Millisecond)
				}
				done <- struct{}{}
			}()
		}
		for range clients {
			<-done
		}
		l.stop()
		if n := l.counted(t); n != clients*each {
			t.Errorf("%d calls are counted, of %d", n, clients*each)
		}
	})
}

// TestCrashLosesOneIntervalAtMost: what an instance had not written, and nothing older.
func TestCrashLosesOneIntervalAtMost(t *testing.T) {
	for _, after := range []time.Duration{time.Second, 9*time.Second + 990*time.Millisecond, 25 * time.Second, 47 * time.Minute} {
		t.Run(after.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := start(t, memory.New())
				defer l.stop()
				calls := int64(0)
				for end := time.Now().Add(after); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
					l.Call(calledBy("acme", 200, time.Now()))
					calls++
				}
				// Nobody hears of the end: what is in the table now is what is left.
				if lost := calls - l.counted(t); lost > int64(writeInterval/(100*time.Millisecond)) {
					t.Errorf("of %d calls, ten a second, %d are lost", calls, lost)
				}
			})
		})
	}
}

// silent is a table that does not answer while it is down, though what it is asked to write may be written.
type silent struct {
	store.Backend
	down atomic.Bool
	deaf bool
}

func (s *silent) Transact(ctx context.Context, token string, writes []store.Write) error {
	switch {
	case s.down.Load() && s.deaf:
		return fmt.Errorf("%w: nobody there", store.ErrLost)
	case s.down.Load():
		_ = s.Backend.Transact(ctx, token, writes)
		return fmt.Errorf("%w: no answer", store.ErrLost)
	}
	return s.Backend.Transact(ctx, token, writes)
}

// TestOutageLosesNothing, and nothing is counted twice after it, whether the table took what it did not answer or not.
func TestOutageLosesNothing(t *testing.T) {
	for _, deaf := range []bool{false, true} {
		t.Run(fmt.Sprint("deaf ", deaf), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				table := &silent{Backend: memory.New(), deaf: deaf}
				l := start(t, table)
				calls := int64(0)
				for second := range 50 * 60 {
					table.down.Store(second%600 > 60)
					l.Call(calledBy("acme", 200, time.Now()))
					calls++
					if second%60 == 0 {
						_, _ = NewRollup(l.table, time.Now).Run(t.Context())
					}
					time.Sleep(time.Second)
				}
				table.down.Store(false)
				l.stop()
				if n := l.counted(t); n != calls {
					t.Errorf("%d calls are counted, of %d", n, calls)
				}
			})
		})
	}
}

// TestOutageOfHoursIsTold: what nobody can tell whether it was written is given up while that can still be told apart from what comes after.
func TestOutageOfHoursIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		table := &silent{Backend: memory.New(), deaf: true}
		table.down.Store(true)
		opened := storetest.Over(t, table, storetest.Clock(time.Now), storetest.Pause(storetest.AtOnce))
		c := New(Options{Table: opened, Now: time.Now, Random: rand.Reader, Log: slog.New(slog.NewTextHandler(&log, nil))})
		c.Call(calledBy("acme", 200, time.Now()))
		c.Call(calledBy("acme", 200, time.Now()))
		if err := c.Drain(t.Context()); !errors.Is(err, store.ErrLost) {
			t.Fatalf("got %v", err)
		}
		table.down.Store(false)
		time.Sleep(lateWrites + time.Second)
		c.Call(calledBy("globex", 200, time.Now()))
		if err := c.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(log.String(), "requests=2") {
			t.Errorf("the log is %s", &log)
		}
		if n := (live{c, opened, nil}).counted(t); n != 1 {
			t.Errorf("%d calls of the last hour are counted, want the last one", n)
		}
	})
}

// hanging is a table that never answers.
type hanging struct{ store.Backend }

func (hanging) Transact(ctx context.Context, _ string, _ []store.Write) error {
	<-ctx.Done()
	return fmt.Errorf("%w: no answer", store.ErrLost)
}

// TestTheEndWaitsForNoTable that does not answer: whoever ends a process kills it some seconds later, with what else it has to do.
func TestTheEndWaitsForNoTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := start(t, hanging{memory.New()})
		l.Call(calledBy("acme", 200, time.Now()))
		begun := time.Now()
		l.stop()
		if waited := time.Since(begun); waited > lastWrite { // by the bubble's clock
			t.Errorf("it has waited for %s", waited)
		}
		// So does a Lambda, at the end of an invocation.
		l.Call(calledBy("acme", 200, time.Now()))
		begun = time.Now()
		l.FlushWhenDue(t.Context())
		if waited := time.Since(begun); waited > lastWrite {
			t.Errorf("an invocation has waited for %s", waited)
		}
	})
}

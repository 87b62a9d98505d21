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

	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/memory"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
)

// process is a process that counts with the clock of a synctest bubble.
type process struct {
	*Collector
	table *store.Table
	stop  func() // ends the process like SIGTERM, after the last response
}

// startProcess starts a process whose Collector writes to items with Run.
func startProcess(t *testing.T, items store.Backend) process {
	table := storetest.NewWithBackend(t, items, storetest.Clock(time.Now), storetest.Backoff(store.Backoff))
	c := New(Options{Table: table, Now: time.Now, Random: rand.Reader, Log: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.Run(ctx)
	}()
	return process{c, table, func() {
		cancel()
		<-done
	}}
}

// countCalls returns the number of calls in a report of the last hour.
func (p process) countCalls(t *testing.T) (n int64) {
	t.Helper()
	got, err := NewReader(p.table, time.Now).Statuses(t.Context(), shop.Name, LastHour, allCallers)
	if err != nil {
		t.Fatalf("Statuses(%s) error = %v, want none", LastHour, err)
	}
	for _, c := range got.Totals {
		n += c.Calls
	}
	return n
}

// TestCallsAreVisibleWithinTwentySeconds checks that each call of the first hour is counted within twenty seconds, with
// and without a rollup. Later, the first calls are older than the report's last hour, so the test ignores the number.
func TestCallsAreVisibleWithinTwentySeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := startProcess(t, memory.New())
		defer p.stop()
		for i := range int64(200) {
			p.Call(newCall("acme", 200, time.Now()))
			if i%50 == 49 {
				if _, err := NewRollup(p.table, time.Now).Run(t.Context()); err != nil {
					t.Fatalf("Run() of a rollup after call %d: error = %v, want none", i+1, err)
				}
			}
			time.Sleep(20 * time.Second)
			if n := p.countCalls(t); n != i+1 && i < 180 {
				t.Fatalf("20 s after call %d: %d calls counted, want %[1]d", i+1, n)
			}
		}
	})
}

// TestShutdownLosesNoCalls shuts down a process directly after its last request. All requests must be counted.
func TestShutdownLosesNoCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := startProcess(t, memory.New())
		const clients, callsEach = 10, 1_234
		done := make(chan struct{})
		for range clients {
			go func() {
				for range callsEach {
					p.Call(newCall("acme", 200, time.Now()))
					time.Sleep(3 * time.Millisecond)
				}
				done <- struct{}{}
			}()
		}
		for range clients {
			<-done
		}
		p.stop()
		if n := p.countCalls(t); n != clients*callsEach {
			t.Errorf("after the shutdown: %d calls counted, want %d", n, clients*callsEach)
		}
	})
}

// TestCrashLosesAtMostOneInterval checks that a crash loses at most the calls of one writeInterval.
func TestCrashLosesAtMostOneInterval(t *testing.T) {
	for _, after := range []time.Duration{
		time.Second, 9*time.Second + 990*time.Millisecond, 25 * time.Second,
		47 * time.Minute,
	} {
		t.Run(after.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := startProcess(t, memory.New())
				defer p.stop()
				calls := int64(0)
				for end := time.Now().Add(after); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
					p.Call(newCall("acme", 200, time.Now()))
					calls++
				}
				// The process crashes: the report has only the counts in the table.
				if lost := calls - p.countCalls(t); lost > int64(writeInterval/(100*time.Millisecond)) {
					t.Errorf("after a crash: %[2]d of %[1]d calls lost, want at most %[3]d",
						calls, lost, int64(writeInterval/(100*time.Millisecond)))
				}
			})
		})
	}
}

// unreliableTable is a table that does not respond while it is down. If dropWrites is false, it executes the writes
// although it does not respond.
type unreliableTable struct {
	store.Backend
	down       atomic.Bool
	dropWrites bool
}

func (t *unreliableTable) Transact(ctx context.Context, token string, writes []store.Write) error {
	switch {
	case t.down.Load() && t.dropWrites:
		return fmt.Errorf("%w: no response", store.ErrOutcomeUnknown)
	case t.down.Load():
		_ = t.Backend.Transact(ctx, token, writes)
		return fmt.Errorf("%w: no answer", store.ErrOutcomeUnknown)
	}
	return t.Backend.Transact(ctx, token, writes)
}

// TestOutageLosesNothing checks that no call is lost or counted twice after an outage, whether or not the table executed the writes.
func TestOutageLosesNothing(t *testing.T) {
	for _, dropWrites := range []bool{false, true} {
		t.Run(fmt.Sprintf("dropWrites=%t", dropWrites), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				table := &unreliableTable{Backend: memory.New(), dropWrites: dropWrites}
				p := startProcess(t, table)
				calls := int64(0)
				for second := range 50 * 60 {
					table.down.Store(second%600 > 60)
					p.Call(newCall("acme", 200, time.Now()))
					calls++
					if second%60 == 0 {
						_, _ = NewRollup(p.table, time.Now).Run(t.Context())
					}
					time.Sleep(time.Second)
				}
				table.down.Store(false)
				p.stop()
				if n := p.countCalls(t); n != calls {
					t.Errorf("after the outage: %d calls counted, want %d", n, calls)
				}
			})
		})
	}
}

// TestLongOutageIsLogged checks that the collector stops retrying a write with an unknown result after an hour, and
// logs the number of lost calls. The table keeps the sequence number of a write for longer than an hour, so no retry
// can be counted twice.
func TestLongOutageIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		table := &unreliableTable{Backend: memory.New(), dropWrites: true}
		table.down.Store(true)
		retryingTable := storetest.NewWithBackend(t, table, storetest.Clock(time.Now), storetest.Backoff(storetest.NoBackoff))
		c := New(Options{
			Table: retryingTable, Now: time.Now, Random: rand.Reader,
			Log: slog.New(slog.NewTextHandler(&log, nil)),
		})
		c.Call(newCall("acme", 200, time.Now()))
		c.Call(newCall("acme", 200, time.Now()))
		if err := c.Drain(t.Context()); !errors.Is(err, store.ErrOutcomeUnknown) {
			t.Fatalf("Drain() during an outage: error = %v, want %v", err, store.ErrOutcomeUnknown)
		}
		table.down.Store(false)
		time.Sleep(retryWindow + time.Second)
		c.Call(newCall("globex", 200, time.Now()))
		if err := c.Drain(t.Context()); err != nil {
			t.Fatalf("Drain() after the outage: error = %v, want none", err)
		}
		if !strings.Contains(log.String(), "requests=2") {
			t.Errorf("log = %s, want requests=2", &log)
		}
		if n := (process{c, retryingTable, nil}).countCalls(t); n != 1 {
			t.Errorf("%d calls of the last hour counted, want 1", n)
		}
	})
}

// hangingTable is a table that never responds.
type hangingTable struct{ store.Backend }

func (hangingTable) Transact(ctx context.Context, _ string, _ []store.Write) error {
	<-ctx.Done()
	return fmt.Errorf("%w: no answer", store.ErrOutcomeUnknown)
}

// TestShutdownDoesNotWaitForTable checks that a shutdown takes at most shutdownTimeout if the table does not respond.
// The process is killed some seconds after the shutdown begins, and has other work to do before that.
func TestShutdownDoesNotWaitForTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := startProcess(t, hangingTable{memory.New()})
		p.Call(newCall("acme", 200, time.Now()))
		startedAt := time.Now()
		p.stop()
		if elapsed := time.Since(startedAt); elapsed > shutdownTimeout { // by the clock of the bubble
			t.Errorf("shutdown takes %s, want at most %s", elapsed, shutdownTimeout)
		}
		// The same is true for a Lambda at the end of an invocation.
		p.Call(newCall("acme", 200, time.Now()))
		startedAt = time.Now()
		p.FlushWhenDue(t.Context())
		if elapsed := time.Since(startedAt); elapsed > shutdownTimeout {
			t.Errorf("FlushWhenDue() takes %s, want at most %s", elapsed, shutdownTimeout)
		}
	})
}

package allowance

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/store"
)

// takes asks for n units beside what goes on, and tells how that ends.
func takes(t *testing.T, q *Quotas, a Allowance, n int64) <-chan error {
	t.Helper()
	took := make(chan error, 1)
	go func() {
		_, err := q.Take(t.Context(), a, n)
		took <- err
	}()
	return took
}

// TestDrainWaitsForLeases that are being made: who drains ends afterwards, and nobody else
// would give back what they bring.
func TestDrainWaitsForLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, a := newBackend(), month(10_000)
		q := table.quotas(1)
		spendSome(t, q, a, 50)
		_, reserve := q.held(a)
		spent := q.pool.find(a.period(), a.Limit).spent()
		begun, drained := make(chan struct{}), atomic.Bool{}
		table.instead = func(token string, writes []store.Write) error {
			close(begun)
			synctest.Wait() // Drain waits
			if drained.Load() {
				t.Error("Drain returned before the lease did")
			}
			return table.Backend.Transact(context.WithoutCancel(t.Context()), token, writes)
		}
		took := takes(t, q, a, reserve+10)
		<-begun
		if err := q.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		drained.Store(true)
		if err := <-took; err != nil {
			t.Fatal(err)
		}
		if got, want := used(t, q, a), spent+reserve+10; got != want {
			t.Errorf("%d are used after Drain, %d were admitted", got, want)
		}
	})
}

// TestDrainGivesBackWhatALeaseCouldNot: the table fails for as long as the goroutine that leases runs.
func TestDrainGivesBackWhatALeaseCouldNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, a := newBackend(), month(10_000)
		q := table.quotas(1)
		spendSome(t, q, a, 50)
		_, reserve := q.held(a)
		spent := q.pool.find(a.period(), a.Limit).spent()
		begun, leased, failed := make(chan struct{}), atomic.Bool{}, atomic.Bool{}
		table.before = func(context.Context) error {
			q.pool.fills.mu.Lock()
			defer q.pool.fills.mu.Unlock()
			if leased.Load() && len(q.pool.fills.running) > 0 {
				failed.Store(true)
				return fault.New(fault.Throttled, "the table is busy")
			}
			return nil
		}
		table.instead = func(token string, writes []store.Write) error {
			close(begun)
			synctest.Wait() // Drain waits
			leased.Store(true)
			return table.Backend.Transact(context.WithoutCancel(t.Context()), token, writes)
		}
		took := takes(t, q, a, reserve+10)
		<-begun
		if err := q.Drain(t.Context()); err != nil || !failed.Load() {
			t.Errorf("Drain ends with %v, after a table that failed: %t", err, failed.Load())
		}
		if err := <-took; err != nil {
			t.Fatal(err)
		}
		if got, want := used(t, q, a), spent+reserve+10; got != want {
			t.Errorf("%d are used after Drain, %d were admitted", got, want)
		}
	})
}

// TestDrainEndsWithItsTime has a lease that nobody answers for long.
func TestDrainEndsWithItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, a := newBackend(), month(10_000)
		q := table.quotas(1)
		spendSome(t, q, a, 50)
		_, reserve := q.held(a)
		begun := make(chan struct{})
		table.instead = func(string, []store.Write) error {
			close(begun)
			time.Sleep(time.Minute)
			return errors.New("the table is gone")
		}
		took := takes(t, q, a, reserve+10)
		<-begun
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := q.Drain(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Drain ends with %v", err)
		}
		<-took
	})
}

package allowance

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/store"
)

// takeInBackground requests n units in the background, and returns the result on a channel.
func takeInBackground(t *testing.T, q *Quotas, a Allowance, n int64) <-chan error {
	t.Helper()
	result := make(chan error, 1)
	go func() {
		_, err := q.Take(t.Context(), a, n)
		result <- err
	}()
	return result
}

// TestDrainWaitsForLeases checks that Drain waits for leases in progress. Otherwise
// the units of these leases would be lost, because the instance ends after Drain.
func TestDrainWaitsForLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, a := newBackend(), month(10_000)
		q := table.quotas(1)
		spendSome(t, q, a, 50)
		_, reserve := q.holdings(a)
		spent := q.pool.find(a.period(), a.Limit).spent()
		started, drained := make(chan struct{}), atomic.Bool{}
		table.replaceNext = func(token string, writes []store.Write) error {
			close(started)
			synctest.Wait() // Drain is waiting
			if drained.Load() {
				t.Error("Drain() returned before the lease, want it to wait")
			}
			return table.Backend.Transact(context.WithoutCancel(t.Context()), token, writes)
		}
		result := takeInBackground(t, q, a, reserve+10)
		<-started
		if err := q.Drain(t.Context()); err != nil {
			t.Fatalf("Drain() during a lease = %v, want no error", err)
		}
		drained.Store(true)
		if err := <-result; err != nil {
			t.Fatalf("Take() during Drain() = %v, want no error", err)
		}
		if got, want := used(t, q, a), spent+reserve+10; got != want {
			t.Errorf("Used() after Drain() = %d, want the %d admitted units", got, want)
		}
	})
}

// TestDrainRetriesFailedReturns checks that Drain returns units again if their
// return has failed: here the return that follows a lease in progress.
func TestDrainRetriesFailedReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, a := newBackend(), month(10_000)
		q := table.quotas(1)
		spendSome(t, q, a, 50)
		_, reserve := q.holdings(a)
		spent := q.pool.find(a.period(), a.Limit).spent()
		started, leased, failed := make(chan struct{}), atomic.Bool{}, atomic.Bool{}
		// Calls fail after the commit of the lease, while the lease is still running.
		table.before = func(context.Context) error {
			q.pool.fills.mu.Lock()
			defer q.pool.fills.mu.Unlock()
			if leased.Load() && len(q.pool.fills.running) > 0 {
				failed.Store(true)
				return fault.New(fault.Throttled, "the table is busy")
			}
			return nil
		}
		table.replaceNext = func(token string, writes []store.Write) error {
			close(started)
			synctest.Wait() // Drain is waiting
			leased.Store(true)
			return table.Backend.Transact(context.WithoutCancel(t.Context()), token, writes)
		}
		result := takeInBackground(t, q, a, reserve+10)
		<-started
		if err := q.Drain(t.Context()); err != nil || !failed.Load() {
			t.Errorf("Drain() = %v, table failed: %t, want no error and a failed return", err, failed.Load())
		}
		if err := <-result; err != nil {
			t.Fatalf("Take() during Drain() = %v, want no error", err)
		}
		if got, want := used(t, q, a), spent+reserve+10; got != want {
			t.Errorf("Used() after Drain() = %d, want the %d admitted units", got, want)
		}
	})
}

// TestDrainStopsOnContext checks that Drain returns when its context
// ends, although the table does not reply to a lease for a long time.
func TestDrainStopsOnContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, a := newBackend(), month(10_000)
		q := table.quotas(1)
		spendSome(t, q, a, 50)
		_, reserve := q.holdings(a)
		started := make(chan struct{})
		table.replaceNext = func(string, []store.Write) error {
			close(started)
			time.Sleep(time.Minute)
			return errors.New("the table is gone")
		}
		result := takeInBackground(t, q, a, reserve+10)
		<-started
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := q.Drain(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Drain() with a timeout of 1 s = %v, want %v", err, context.DeadlineExceeded)
		}
		<-result
	})
}

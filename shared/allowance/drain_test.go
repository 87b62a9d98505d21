package allowance

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/gatewright/gatewright/shared/store"
)

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
		took := make(chan error, 1)
		go func() {
			_, err := q.Take(t.Context(), a, reserve+10)
			took <- err
		}()
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

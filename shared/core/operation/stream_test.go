package operation_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/core/operation"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
)

// stream returns a function that returns the stream's records since its last call.
func (fx *fixture) stream() func() []store.StreamRecord {
	var mu sync.Mutex
	var records []store.StreamRecord
	fx.backend.OnChange(func(r store.StreamRecord) {
		mu.Lock()
		defer mu.Unlock()
		records = append(records, r)
	})
	return func() []store.StreamRecord {
		mu.Lock()
		defer mu.Unlock()
		out := records
		records = nil
		return out
	}
}

func TestHandleStreamRunsOperations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newFixture(t, stepsDefinition("a"))
		records := fx.stream()
		fx.commit(store.Put(counterKey("other"), struct{}{}))
		fx.begin("one", "steps")
		fx.begin("two", "steps")
		batch := records()
		if failed := fx.engine.HandleStream(t.Context(), append(batch, batch...)); failed != nil {
			t.Errorf("HandleStream() = %v failed, want none", failed)
		}
		for _, id := range []string{"one", "two"} {
			if r := fx.read(id); r.Status != operation.Success {
				t.Errorf("operation %s = %+v, want success", id, r)
			}
		}
		if fx.counter("a") != 2 {
			t.Errorf("the effects of two operations happened %d times, want 2", fx.counter("a"))
		}
	})
}

func TestDeletedOperationIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newFixture(t, stepsDefinition("a"))
		records := fx.stream()
		fx.begin("op", "steps")
		fx.commit(store.Delete(operation.Key("op")))
		if failed := fx.engine.HandleStream(t.Context(), records()); failed != nil {
			t.Errorf("HandleStream() of a deleted operation = %v failed, want none", failed)
		}
	})
}

func TestHandleStreamReturnsFailedRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newFixture(t, stepsDefinition("a"))
		records := fx.stream()
		fx.begin("readable", "steps")
		fx.begin("unreadable", "steps")
		fx.begin("another", "steps")
		engine := fx.unresponsiveEngine(operation.Key("unreadable"))
		batch := records()
		batch = append(batch, batch[1])
		if failed := engine.HandleStream(t.Context(), batch); !slices.Equal(failed, []int{1, 3}) {
			t.Errorf("HandleStream() = %v, want [1 3]", failed)
		}
		canceled, cancel := context.WithCancel(t.Context())
		cancel()
		if failed := fx.engine.HandleStream(canceled, batch); !slices.Equal(failed, []int{0, 1, 2, 3}) {
			t.Errorf("HandleStream() with a canceled context = %v, want all indexes", failed)
		}
	})
}

// unresponsiveEngine returns an engine whose table does not respond for one key.
func (fx *fixture) unresponsiveEngine(key store.Key) *operation.Engine {
	fx.t.Helper()
	table := storetest.NewWithBackend(fx.t, unresponsiveBackend{fx.backend, key}, storetest.Clock(time.Now),
		func(o *store.Options) {
			o.Random = rand.NewChaCha8([32]byte{1}) // two tables must not generate the same tokens
		})
	engine, err := operation.New(table, fx.definitions, fx.options())
	if err != nil {
		fx.t.Fatal(err)
	}
	return engine
}

// unresponsiveBackend returns store.ErrRetryable for reads of one key, as a table that does not respond does.
type unresponsiveBackend struct {
	store.Backend
	key store.Key
}

func (b unresponsiveBackend) Read(ctx context.Context, keys []store.Key) ([]store.Item, error) {
	if slices.Contains(keys, b.key) {
		return nil, store.ErrRetryable
	}
	return b.Backend.Read(ctx, keys)
}

func TestLongOperationIsSliced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newFixture(t,
			singleState(operation.State{Task: func(_ context.Context, s operation.Step) (operation.Result, error) {
				time.Sleep(time.Second)
				return operation.Result{Repeat: s.Number < 99}, nil
			}}))
		records := fx.stream()
		fx.begin("op", "one")
		rounds := 0
		for batch := records(); len(batch) > 0; batch = records() {
			start := time.Now()
			if failed := fx.engine.HandleStream(t.Context(), batch); failed != nil {
				t.Fatalf("HandleStream() = %v failed, want none", failed)
			}
			if elapsed := time.Since(start); elapsed > 20*time.Second {
				t.Errorf("HandleStream() took %v, want at most 20s", elapsed)
			}
			rounds++
		}
		if r := fx.read("op"); r.Status != operation.Success || r.Steps != 100 || r.History[0].Attempts != 100 {
			t.Errorf("record = %+v, want success after 100 steps and 100 attempts", r)
		}
		// There are five slices with work, and one more round with the records of the last slice.
		if rounds != 6 {
			t.Errorf("%d batches, want 6", rounds)
		}
	})
}

func TestBatchRunsInParallel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newFixture(t,
			singleState(operation.State{Task: func(context.Context, operation.Step) (operation.Result, error) {
				time.Sleep(5 * time.Second)
				return operation.Result{}, nil
			}}))
		records := fx.stream()
		for n := range 20 {
			fx.begin(fmt.Sprint(n), "one")
		}
		start := time.Now()
		fx.engine.HandleStream(t.Context(), records())
		if elapsed := time.Since(start); elapsed != 15*time.Second { // eight operations at a time
			t.Errorf("20 operations of 5 s took %v, want 15s", elapsed)
		}
	})
}

func TestSweepFindsUndeliveredOperations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newFixture(t, stepsDefinition("a"))
		for n := range 30 { // enough operations for each shard to have some
			fx.begin(fmt.Sprint(n), "steps")
		}
		fx.commit(operation.Create(operation.Start{ID: "later", Kind: "steps", NotBefore: time.Now().Add(time.Hour)},
			time.Now()))
		fx.sweep()
		if n := fx.counter("a"); n != 30 {
			t.Errorf("Sweep() ran %d operations, want 30", n)
		}
		time.Sleep(time.Hour)
		fx.sweep()
		if n := fx.counter("a"); n != 31 {
			t.Errorf("Sweep() after the delay: %d operations run in all, want 31", n)
		}
		meter := &store.Meter{}
		if err := fx.engine.Sweep(store.WithMeter(t.Context(), meter)); err != nil || meter.Usage().Reads != 0 ||
			meter.Usage().Queries != 4 {
			t.Errorf("Sweep() with nothing due uses %+v, %v, want no reads and 4 queries", meter.Usage(), err)
		}
	})
}

func TestSweepReturnsErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newFixture(t, stepsDefinition("a"))
		fx.begin("readable", "steps")
		fx.begin("unreadable", "steps")
		engine := fx.unresponsiveEngine(operation.Key("unreadable"))
		if err := engine.Sweep(t.Context()); !errors.Is(err, store.ErrRetryable) {
			t.Errorf("Sweep() with an unresponsive backend = %v, want %v", err, store.ErrRetryable)
		}
		if fx.read("readable").Status != operation.Success {
			t.Error("Sweep() did not run the other operation, want it run")
		}
	})
}

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

	"github.com/gatewright/gatewright/shared/operation"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

// stream collects what a table's stream tells.
func (w *world) stream() func() []store.StreamRecord {
	var mu sync.Mutex
	var records []store.StreamRecord
	w.backend.OnChange(func(r store.StreamRecord) {
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

func TestStreamStartsWhatBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, steps("a"))
		records := w.stream()
		w.commit(store.Put(counterKey("other"), struct{}{}))
		w.begin("one", "steps")
		w.begin("two", "steps")
		batch := records()
		if failed := w.engine.HandleStream(t.Context(), append(batch, batch...)); failed != nil {
			t.Errorf("records %v failed", failed)
		}
		for _, id := range []string{"one", "two"} {
			if r := w.read(id); r.Status != operation.Success {
				t.Errorf("operation %s: %+v", id, r)
			}
		}
		if w.counter("a") != 2 {
			t.Errorf("the effect happened %d times for two operations", w.counter("a"))
		}
	})
}

func TestRecordOfWhatIsGoneIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, steps("a"))
		records := w.stream()
		w.begin("op", "steps")
		w.commit(store.Delete(operation.Key("op")))
		if failed := w.engine.HandleStream(t.Context(), records()); failed != nil {
			t.Errorf("records %v failed", failed)
		}
	})
}

func TestRecordsThatTheStoreKeptFromBeingHandledAreToldApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, steps("a"))
		records := w.stream()
		w.begin("good", "steps")
		w.begin("bad", "steps")
		w.begin("late", "steps")
		engine := w.deafEngine(operation.Key("bad"))
		batch := records()
		batch = append(batch, batch[1])
		if failed := engine.HandleStream(t.Context(), batch); !slices.Equal(failed, []int{1, 3}) {
			t.Errorf("failed are %v, want 1 and 3", failed)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if failed := w.engine.HandleStream(ended, batch); !slices.Equal(failed, []int{0, 1, 2, 3}) {
			t.Errorf("with no time left, failed are %v, want all", failed)
		}
	})
}

// deafEngine is an engine whose table does not answer for one key.
func (w *world) deafEngine(key store.Key) *operation.Engine {
	w.t.Helper()
	table := storetest.Over(w.t, deafTo{w.backend, key}, storetest.Clock(time.Now), func(o *store.Options) {
		o.Random = rand.NewChaCha8([32]byte{1}) // two tables may not make the same tokens
	})
	engine, err := operation.New(table, w.kinds, w.options())
	if err != nil {
		w.t.Fatal(err)
	}
	return engine
}

// deafTo does not answer for one key.
type deafTo struct {
	store.Backend
	key store.Key
}

func (d deafTo) Read(ctx context.Context, keys []store.Key) ([]store.Item, error) {
	if slices.Contains(keys, d.key) {
		return nil, store.ErrRepeat
	}
	return d.Backend.Read(ctx, keys)
}

func TestLongOperationGivesOthersATurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t,
			one(operation.State{Task: func(_ context.Context, s operation.Step) (operation.Result, error) {
				time.Sleep(time.Second)
				return operation.Result{Again: s.Number < 99}, nil
			}}))
		records := w.stream()
		w.begin("op", "one")
		rounds := 0
		for batch := records(); len(batch) > 0; batch = records() {
			begun := time.Now()
			if failed := w.engine.HandleStream(t.Context(), batch); failed != nil {
				t.Fatalf("records %v failed", failed)
			}
			if took := time.Since(begun); took > 20*time.Second {
				t.Errorf("a batch took %v", took)
			}
			rounds++
		}
		if r := w.read("op"); r.Status != operation.Success || r.Steps != 100 || r.History[0].Attempts != 100 {
			t.Errorf("record is %+v", r)
		}
		// Five slices with work, and the records of the last one.
		if rounds != 6 {
			t.Errorf("%d batches", rounds)
		}
	})
}

func TestOperationsOfABatchAreAdvancedSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, one(operation.State{Task: func(context.Context, operation.Step) (operation.Result, error) {
			time.Sleep(5 * time.Second)
			return operation.Result{}, nil
		}}))
		records := w.stream()
		for n := range 20 {
			w.begin(fmt.Sprint(n), "one")
		}
		begun := time.Now()
		w.engine.HandleStream(t.Context(), records())
		if took := time.Since(begun); took != 15*time.Second { // eight at a time
			t.Errorf("20 operations of 5 s took %v", took)
		}
	})
}

func TestSweepFindsWhatTheStreamNeverTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, steps("a"))
		for n := range 30 { // some in each shard
			w.begin(fmt.Sprint(n), "steps")
		}
		w.commit(operation.Begin(operation.Start{ID: "later", Kind: "steps", NotBefore: time.Now().Add(time.Hour)}, time.Now()))
		w.sweep()
		if n := w.counter("a"); n != 30 {
			t.Errorf("a sweep found %d of 30", n)
		}
		time.Sleep(time.Hour)
		w.sweep()
		if n := w.counter("a"); n != 31 {
			t.Error("the delayed one was not found in its time")
		}
		meter := &store.Meter{}
		if err := w.engine.Sweep(store.WithMeter(t.Context(), meter)); err != nil || meter.Usage().Reads != 0 || meter.Usage().Queries != 4 {
			t.Errorf("a sweep with nothing due uses %+v, %v", meter.Usage(), err)
		}
	})
}

func TestSweepTellsWhatItCouldNotDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, steps("a"))
		w.begin("good", "steps")
		w.begin("bad", "steps")
		engine := w.deafEngine(operation.Key("bad"))
		if err := engine.Sweep(t.Context()); !errors.Is(err, store.ErrRepeat) {
			t.Errorf("Sweep answers %v", err)
		}
		if w.read("good").Status != operation.Success {
			t.Error("the good one suffered for the bad one")
		}
	})
}

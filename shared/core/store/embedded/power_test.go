package embedded_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/embedded"
	"github.com/gatewright/gatewright/shared/testing/simulations"
)

// pair is the record of each of two items that a commit always writes together.
type pair struct {
	N int `dynamodbav:"n"`
}

func pairKeys(writer int) (a, b store.Key) {
	return store.Key{PK: fmt.Sprint("writer-", writer), SK: "a"}, store.Key{PK: fmt.Sprint("other-", writer), SK: "b"}
}

// writer commits 1, 2, 3 … to its pair. acknowledged is the number of its last commit that was acknowledged before the
// power cut.
type writer struct {
	number       int
	acknowledged int
}

func (w *writer) write(ctx context.Context, table *store.Table, power *atomic.Bool) error {
	a, b := pairKeys(w.number)
	for n := 1; power.Load(); n++ {
		previous := store.Absent()
		if n > 1 {
			previous = store.Equal(store.At("n"), n-1)
		}
		filler := make([]byte, rand.IntN(3000))
		err := table.Commit(ctx,
			store.Put(a, pair{n}).If(previous), store.Put(b, pair{n}),
			store.Put(store.Key{PK: fmt.Sprint("log-", w.number), SK: fmt.Sprintf("%06d", n)}, map[string]any{"filler": filler}))
		if err != nil {
			return err
		}
		if power.Load() {
			w.acknowledged = n
		}
	}
	return nil
}

// TestPowerCuts checks that the store has all acknowledged commits after a power cut at a random moment.
// It must have each commit whole or not at all, and all data that was read before the power cut.
func TestPowerCuts(t *testing.T) {
	t.Parallel()
	for seed := range simulations.Runs(125) {
		if err := powerCut(t, uint64(seed)); err != nil {
			t.Fatalf("run %d: %v, want no error", seed, err)
		}
	}
}

func powerCut(t *testing.T, seed uint64) error {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 0))
	fs := vfs.NewCrashableMem()
	writers := make([]writer, 1+random.IntN(4))
	maxRead := make([]int, len(writers))
	for start := range 3 { // each start continues with the files that the previous process left
		engine, err := embedded.Open(t.Context(), embedded.Options{Dir: "data/store", FS: fs})
		if err != nil {
			return fmt.Errorf("Open() at start %d: %w", start, err)
		}
		if err := check(engine, writers, maxRead); err != nil {
			return fmt.Errorf("check() at start %d: %w", start, err)
		}
		// Unsynced data may be on the disk or not.
		cut := vfs.CrashCloneCfg{UnsyncedDataPercent: []int{0, 50, 100}[random.IntN(3)], RNG: random}
		after := runUntilPowerCut(t, engine, fs, writers, maxRead, random.IntN(500), cut)
		// Writes of the engine after the power cut do not reach the disk.
		_ = engine.Close()
		fs = after
	}
	return nil
}

// runUntilPowerCut lets all writers write and one goroutine read, until the power fails after the given number of
// changes. It returns the disk in its state at that moment.
func runUntilPowerCut(
	t *testing.T, engine *embedded.Backend, fs *vfs.MemFS, writers []writer, maxRead []int, changes int,
	cut vfs.CrashCloneCfg,
) (after *vfs.MemFS) {
	t.Helper()
	table := tableOver(engine)
	var power atomic.Bool
	power.Store(true)
	var wg sync.WaitGroup
	for i := range writers {
		w := &writers[i]
		w.number, w.acknowledged = i, 0
		resetPair(t, table, i)
		wg.Go(func() {
			if err := w.write(t.Context(), table, &power); err != nil {
				t.Errorf("Commit() of writer %d = %v, want success", i, err)
			}
		})
	}
	wg.Go(func() {
		for power.Load() {
			for i := range writers {
				n := read(t, table, i)
				if power.Load() {
					maxRead[i] = max(maxRead[i], n)
				}
			}
		}
	})
	wg.Go(func() {
		for last, remaining := uint64(0), changes; remaining > 0; {
			changed, err := engine.Changes(t.Context(), last, 10)
			if err != nil {
				t.Errorf("Changes() = %v, want success", err)
				break
			}
			last, remaining = changed[len(changed)-1].Seq, remaining-len(changed)
		}
		// In this order, so that commits after the power cut are not counted as acknowledged.
		power.Store(false)
		after = fs.CrashClone(cut)
	})
	wg.Wait()
	return after
}

// resetPair deletes both items of a writer's pair, so that the writer can start again with 1.
func resetPair(t *testing.T, table *store.Table, i int) {
	t.Helper()
	a, b := pairKeys(i)
	if err := table.Commit(t.Context(), store.Delete(a), store.Delete(b)); err != nil {
		t.Fatal(err)
	}
}

// read returns the number in the pair of writer i, and checks that both items have it.
func read(t *testing.T, table *store.Table, i int) int {
	t.Helper()
	a, b := pairKeys(i)
	var first, second pair
	if err := table.Load(t.Context(), store.Get(a, &first), store.Get(b, &second)); err != nil {
		t.Errorf("Load() of the pair of writer %d = %v, want success", i, err)
	}
	if first != second {
		t.Errorf("Load() of the pair of writer %d = %d and %d, want the same number twice", i, first.N, second.N)
	}
	return first.N
}

// check returns an error unless the store has all commits that were acknowledged or read, each
// whole. maxRead has the last commit of each writer that was read. check sets it to 0 again.
func check(engine *embedded.Backend, writers []writer, maxRead []int) error {
	table := tableOver(engine)
	for i, w := range writers {
		a, b := pairKeys(i)
		var first, second pair
		if err := table.Load(context.Background(), store.Get(a, &first), store.Get(b, &second)); err != nil {
			return err
		}
		if first != second {
			return fmt.Errorf("writer %d: the items of its pair have %d and %d, want one number because of one commit",
				i, first.N, second.N)
		}
		if minimum := max(w.acknowledged, maxRead[i]); first.N < minimum {
			return fmt.Errorf("writer %d: acknowledged %d, read before %d, read now %d, want no less",
				i, w.acknowledged, maxRead[i], first.N)
		}
		maxRead[i] = 0
	}
	return nil
}

package embedded_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gatewright/gatewright/shared/operation/simulations"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/embedded"
)

// pair is one of two items that a commit always writes together.
type pair struct {
	N int `dynamodbav:"n"`
}

func pairKeys(writer int) (a, b store.Key) {
	return store.Key{PK: fmt.Sprint("writer-", writer), SK: "a"}, store.Key{PK: fmt.Sprint("other-", writer), SK: "b"}
}

// writer commits 1, 2, 3 … to its pair. noted is the last that was acknowledged
// before the power went.
type writer struct {
	number int
	noted  int
}

func (w *writer) write(ctx context.Context, table *store.Table, power *atomic.Bool) error {
	a, b := pairKeys(w.number)
	for n := 1; power.Load(); n++ {
		last := store.Absent()
		if n > 1 {
			last = store.Equal(store.At("n"), n-1)
		}
		filler := make([]byte, rand.IntN(3000))
		err := table.Commit(ctx,
			store.Put(a, pair{n}).If(last), store.Put(b, pair{n}),
			store.Put(store.Key{PK: fmt.Sprint("log-", w.number), SK: fmt.Sprintf("%06d", n)}, map[string]any{"filler": filler}))
		if err != nil {
			return err
		}
		if power.Load() {
			w.noted = n
		}
	}
	return nil
}

// Whenever the power goes, everything that was acknowledged is there, every
// commit is there whole or not at all, and so is what somebody has read.
func TestPowerCuts(t *testing.T) {
	t.Parallel()
	for seed := range simulations.Runs(250) {
		if err := powerCut(t, uint64(seed)); err != nil {
			t.Fatalf("run %d: %v", seed, err)
		}
	}
}

func powerCut(t *testing.T, seed uint64) error {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 0))
	fs := vfs.NewCrashableMem()
	writers := make([]writer, 1+random.IntN(4))
	seen := make([]int, len(writers))
	for life := range 3 { // what is found is written on
		engine, err := embedded.Open(t.Context(), embedded.Options{Dir: "data/store", FS: fs})
		if err != nil {
			return fmt.Errorf("start %d: %w", life, err)
		}
		if err := check(engine, writers, seen); err != nil {
			return fmt.Errorf("after cut %d: %w", life, err)
		}
		// Unsynced data may be on the disk or not.
		cut := vfs.CrashCloneCfg{UnsyncedDataPercent: []int{0, 50, 100}[random.IntN(3)], RNG: random}
		after := live(t, engine, fs, writers, seen, random.IntN(500), cut)
		// What an engine without power still does reaches no disk.
		_ = engine.Close()
		fs = after
	}
	return nil
}

// live lets all writers write and one goroutine read until the power fails after some
// changes. It returns the disk as it is then.
func live(t *testing.T, engine *embedded.Backend, fs *vfs.MemFS, writers []writer, seen []int, changes int, cut vfs.CrashCloneCfg) (after *vfs.MemFS) {
	t.Helper()
	table := tableOver(engine)
	var power atomic.Bool
	power.Store(true)
	var all sync.WaitGroup
	for i := range writers {
		w := &writers[i]
		w.number, w.noted = i, 0
		begin(t, table, i)
		all.Go(func() {
			if err := w.write(t.Context(), table, &power); err != nil {
				t.Error(err)
			}
		})
	}
	all.Go(func() {
		for power.Load() {
			for i := range writers {
				n := read(t, table, i)
				if power.Load() {
					seen[i] = max(seen[i], n)
				}
			}
		}
	})
	all.Go(func() {
		for last, left := uint64(0), changes; left > 0; {
			told, err := engine.Changes(t.Context(), last, 10)
			if err != nil {
				t.Error(err)
				break
			}
			last, left = told[len(told)-1].Seq, left-len(told)
		}
		// In this order: what is noted from here on counts for nothing.
		power.Store(false)
		after = fs.CrashClone(cut)
	})
	all.Wait()
	return after
}

// begin clears a writer's pair, whose count begins anew.
func begin(t *testing.T, table *store.Table, i int) {
	t.Helper()
	a, b := pairKeys(i)
	if err := table.Commit(t.Context(), store.Delete(a), store.Delete(b)); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, table *store.Table, i int) int {
	t.Helper()
	a, b := pairKeys(i)
	var first, second pair
	if err := table.Load(t.Context(), store.Want(a, &first), store.Want(b, &second)); err != nil {
		t.Error(err)
	}
	if first != second {
		t.Errorf("a commit is read in halves: %d and %d", first.N, second.N)
	}
	return first.N
}

func check(engine *embedded.Backend, writers []writer, seen []int) error {
	table := tableOver(engine)
	for i, w := range writers {
		a, b := pairKeys(i)
		var first, second pair
		if err := table.Load(context.Background(), store.Want(a, &first), store.Want(b, &second)); err != nil {
			return err
		}
		if first != second {
			return fmt.Errorf("half a commit: %d and %d", first.N, second.N)
		}
		if promised := max(w.noted, seen[i]); first.N < promised {
			return fmt.Errorf("writer %d was told of %d, and %d was read; there is %d", i, w.noted, seen[i], first.N)
		}
		seen[i] = 0
	}
	return nil
}

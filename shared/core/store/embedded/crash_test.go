package embedded_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/embedded"
	"github.com/gatewright/gatewright/shared/testing/simulations"
)

// interruptedDisk is a copy of a disk after a kill or a power cut.
type interruptedDisk struct {
	disk         *vfs.MemFS
	description  string
	acknowledged int // the number of commits that were acknowledged before
}

// interrupter copies a disk before some of the engine's operations on it.
type interrupter struct {
	mu           sync.Mutex
	disk         *vfs.MemFS
	random       *rand.Rand
	acknowledged int
	copies       []interruptedDisk
	remaining    int // the number of copies that it still makes
}

// String implements errorfs.Injector.
func (i *interrupter) String() string { return "interrupter" }

// MaybeError implements errorfs.Injector.
func (i *interrupter) MaybeError(op errorfs.Op) error {
	if op.Kind.ReadOrWrite() != errorfs.OpIsWrite {
		return nil
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	// Each commit writes to the log, so most operations are on logs. Make copies before such operations rarely.
	rarity := 4
	if strings.HasSuffix(op.Path, ".log") && op.Kind != errorfs.OpCreate && op.Kind != errorfs.OpRemove {
		rarity = 100
	}
	if i.remaining == 0 || i.random.IntN(rarity) > 0 {
		return nil
	}
	i.remaining--
	percent := []int{0, 50, 100}[i.random.IntN(3)]
	i.copies = append(i.copies, interruptedDisk{
		i.disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: i.random}),
		fmt.Sprintf("with %d %% of the unsynced data, before %v of %s", percent, op.Kind, op.Path), i.acknowledged,
	})
	return nil
}

func (i *interrupter) acknowledge() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.acknowledged++
}

// TestInterruptedStoreStarts kills the engine, or cuts its power, before operations
// on the disk during commits, flushes, compactions and starts, including the first
// start. No start may be refused, and each start must find all acknowledged data.
func TestInterruptedStoreStarts(t *testing.T) {
	seeds := simulations.Runs(10)
	if simulations.RaceEnabled { // the test looks for lost data, not for races
		seeds = 2
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			disk := vfs.NewCrashableMem()
			cuts := &interrupter{disk: disk, random: rand.New(rand.NewPCG(uint64(seed), 5))}
			const starts, commits = 3, 250
			for start := range starts {
				cuts.remaining = 8
				engine, err := embedded.Open(t.Context(), embedded.Options{
					Dir: "data/" + folder, FS: errorfs.Wrap(disk, cuts),
					MemTableBytes: smallMemTable,
				})
				if err != nil {
					t.Fatal(err)
				}
				table := tableOver(engine)
				for n := range commits {
					put(t, table, start*commits+n)
					cuts.acknowledge()
				}
				if err := engine.Close(); err != nil {
					t.Fatal(err)
				}
			}
			if len(cuts.copies) == 0 {
				t.Fatal("the disk was copied 0 times, want copies before some operations")
			}
			for _, cut := range cuts.copies {
				engine, err := embedded.Open(t.Context(), embedded.Options{
					Dir: "data/" + folder, FS: cut.disk,
					MemTableBytes: smallMemTable,
				})
				if err != nil {
					t.Errorf("Open() %s = %v, want success", cut.description, err)
					continue
				}
				if n := count(t, tableOver(engine)); n < cut.acknowledged {
					t.Errorf("Count() %s = %d, want at least %d", cut.description, n, cut.acknowledged)
				}
				for n := range cut.acknowledged {
					var got map[string]any
					if err := tableOver(engine).Load(t.Context(), store.Get(numberedKey(n), &got)); err != nil || got == nil {
						t.Errorf("Load(%d) %s = %v, %v, want the item", n, cut.description, got, err)
						break
					}
				}
				if err := engine.Close(); err != nil {
					t.Errorf("Close() %s = %v, want nil", cut.description, err)
				}
			}
		})
	}
}

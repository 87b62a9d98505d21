package embedded_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/gatewright/gatewright/shared/operation/simulations"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/embedded"
)

// interrupted is a copy of a disk as a kill or a power cut leaves it.
type interrupted struct {
	disk         *vfs.MemFS
	how          string
	acknowledged int // number of commits
}

// interrupter copies a disk before some of the engine's operations on it.
type interrupter struct {
	mu           sync.Mutex
	disk         *vfs.MemFS
	random       *rand.Rand
	acknowledged int
	taken        []interrupted
	left         int // copies to take
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
	// Each commit writes to the log, so most operations are on the log: copies before them are rare.
	rarity := 4
	if strings.HasSuffix(op.Path, ".log") && op.Kind != errorfs.OpCreate && op.Kind != errorfs.OpRemove {
		rarity = 100
	}
	if i.left == 0 || i.random.IntN(rarity) > 0 {
		return nil
	}
	i.left--
	percent := []int{0, 50, 100}[i.random.IntN(3)]
	i.taken = append(i.taken, interrupted{
		i.disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: i.random}),
		fmt.Sprintf("with %d %% of what was not synced, before %v of %s", percent, op.Kind, op.Path), i.acknowledged,
	})
	return nil
}

func (i *interrupter) acknowledge() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.acknowledged++
}

// TestEveryInterruptedStoreStarts kills the engine, or cuts its power, before operations on the disk during commits, flushes, compactions
// and starts, the first start among them. No start is refused, and each finds what was acknowledged.
func TestEveryInterruptedStoreStarts(t *testing.T) {
	seeds := simulations.Runs(10)
	if simulations.Racing { // the disk is copied, and not raced for
		seeds = 2
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			disk := vfs.NewCrashableMem()
			cuts := &interrupter{disk: disk, random: rand.New(rand.NewPCG(uint64(seed), 5))}
			const lives, commits = 3, 250
			for life := range lives {
				cuts.left = 8
				engine, err := embedded.Open(t.Context(), embedded.Options{Dir: "data/" + folder, FS: errorfs.Wrap(disk, cuts), MemTableBytes: smallMemTable})
				if err != nil {
					t.Fatal(err)
				}
				table := tableOver(engine)
				for n := range commits {
					put(t, table, life*commits+n)
					cuts.acknowledge()
				}
				if err := engine.Close(); err != nil {
					t.Fatal(err)
				}
			}
			for _, cut := range cuts.taken {
				engine, err := embedded.Open(t.Context(), embedded.Options{Dir: "data/" + folder, FS: cut.disk, MemTableBytes: smallMemTable})
				if err != nil {
					t.Errorf("Open %s = %v, want a start", cut.how, err)
					continue
				}
				if n := count(t, tableOver(engine)); n < cut.acknowledged {
					t.Errorf("Count %s = %d, want at least %d", cut.how, n, cut.acknowledged)
				}
				for n := range cut.acknowledged {
					var got map[string]any
					if err := tableOver(engine).Load(t.Context(), store.Want(numbered(n), &got)); err != nil || got == nil {
						t.Errorf("Load(%d) %s = %v, %v, want it", n, cut.how, got, err)
						break
					}
				}
				if err := engine.Close(); err != nil {
					t.Errorf("Close %s = %v, want nil", cut.how, err)
				}
			}
		})
	}
}

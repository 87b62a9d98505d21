package allowance

import (
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/memory"
	"github.com/gatewright/gatewright/shared/testing/simulations"
)

// TestMain makes garbage collections less frequent, because simulations
// create thousands of small tables that exist only for a moment.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}

var onlySeed = flag.Uint64("seed", 0, "the one seed that the simulation plays, 0 for all")

// seeds is the number of runs of the simulation in `make test`. Seed 368 detects the rarest of the
// defects below. Seeds up to 3 detect all others. `make simulations` makes eight times as many runs.
const seeds = 500

// run plays one seed and returns a digest of its events and of the units that were admitted.
func run(t *testing.T, seed uint64, corrupt corruption) (digest uint64, err error) {
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(seed, 0))
		r := &simulation{
			t: t, corrupt: corrupt, random: random, memory: memory.New(), admitted: map[period]int64{},
			lossy: seed%2 == 0, limit: 1 + random.Int64N(60),
			span: time.Duration(1+random.IntN(60)) * time.Second,
		}
		r.ledger = ledger{store.New(r.memory, store.Options{Random: rand.NewChaCha8([32]byte{}), Now: time.Now})}
		for range 1 + random.IntN(4) {
			r.addInstance()
		}
		for range 150 {
			r.step()
			synctest.Wait()
			for _, i := range r.instances {
				if i.dead {
					r.failCalls(i)
					synctest.Wait()
				}
			}
			if err = r.check(); err != nil {
				break
			}
		}
		r.finish()
		if err == nil {
			err = r.check()
		}
		if err == nil && !r.lossy {
			err = r.complete()
		}
		h := fnv.New64a()
		_, _ = fmt.Fprint(h, r.trace)
		for _, n := range sorted(r.admitted) {
			_, _ = fmt.Fprint(h, n)
		}
		digest = h.Sum64()
		for _, t := range r.takes {
			if t.cancel(); !t.done && err == nil {
				err = errors.New("a request never returned")
			}
		}
	})
	return digest, err
}

// sorted returns a text with the units of each period, in the same order in each run.
func sorted(m map[period]int64) []string {
	var out []string
	for p, n := range m {
		out = append(out, fmt.Sprint(p.name, p.from, n))
	}
	slices.Sort(out)
	return out
}

// complete checks that nothing was lost: after all instances have returned their
// units, the records of current periods have exactly the admitted units.
func (si *simulation) complete() error {
	for p, admitted := range si.admitted {
		granted, err := si.ledger.granted(si.t.Context(), p)
		if err != nil {
			return err
		}
		ended := slices.ContainsFunc(si.instances, func(i *instance) bool {
			return p.end().Sub(i.now()) < maxClockSkew
		})
		if !ended && granted != admitted {
			return fmt.Errorf("%s: %d units are granted after all instances have returned theirs, %d are admitted",
				p.name, granted, admitted)
		}
	}
	return nil
}

// playSeeds plays the seeds from 1 to count, on all processors. name is
// the name of the test, for the message that says how to repeat a run.
func playSeeds(t *testing.T, count int, name string, play func(t *testing.T, seed uint64) error) {
	t.Helper()
	last := uint64(simulations.Runs(count))
	parts := uint64(runtime.GOMAXPROCS(0))
	for part := range parts {
		t.Run(fmt.Sprint("part ", part), func(t *testing.T) {
			t.Parallel()
			for seed := part + 1; seed <= last; seed += parts {
				if err := play(t, seed); err != nil {
					t.Fatalf("seed %d: %v\nreplay it with: go test ./shared/core/allowance -run %s -seed=%d", seed, err, name, seed)
				}
			}
		})
	}
}

func TestNoFaultAdmitsMoreThanTheLimit(t *testing.T) {
	if *onlySeed > 0 {
		if _, err := run(t, *onlySeed, nil); err != nil {
			t.Fatal(err)
		}
		return
	}
	playSeeds(t, seeds, "NoFaultAdmits", func(t *testing.T, seed uint64) error {
		_, err := run(t, seed, nil)
		return err
	})
}

func TestSimulationIsDeterministic(t *testing.T) {
	for seed := uint64(1); seed <= 20; seed++ {
		first, _ := run(t, seed, nil)
		if second, _ := run(t, seed, nil); second != first {
			t.Fatalf("seed %d: two calls of run() return different digests, want equal ones", seed)
		}
	}
}

// TestSimulationDetectsMissingCondition checks that the simulation detects each missing condition. Otherwise it would
// prove nothing.
func TestSimulationDetectsMissingCondition(t *testing.T) {
	isLease := func(writes []store.Write) bool { return len(writes) == 1 && writes[0].Condition != nil }
	granted := store.At("granted")
	tests := map[string]corruption{
		"lease without a condition on the limit": func(_ int64, writes []store.Write) {
			if isLease(writes) {
				writes[0].Condition = nil
			}
		},
		"lease with a condition that ignores its units": func(limit int64, writes []store.Write) {
			if isLease(writes) {
				writes[0].Condition = store.Or(store.Lacks(granted), store.Less(granted, limit))
			}
		},
		"return without a fence": func(_ int64, writes []store.Write) {
			for i := range writes {
				if writes[i].Kind == store.PutKind {
					writes[i].Condition = nil
				}
			}
		},
	}
	for name, corrupt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := uint64(1); seed <= 2000; seed++ {
				if _, err := run(t, seed, corrupt); err != nil {
					t.Logf("seed %d: %v", seed, err)
					return
				}
			}
			t.Error("run() succeeds in all 2000 runs with the defect, want an error")
		})
	}
}

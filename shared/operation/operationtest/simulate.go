// Package operationtest checks definitions of operations under every kind of
// failure: the real engine runs them over a table in memory while a scheduler
// decides, call by call, what happens next. It kills workers before and after
// any call, runs several at once, throttles, loses calls and replies, has others
// change what a read has not come to yet, repeats, drops and re-orders stream
// records, sweeps at any time, moves the clock and gives each worker a wrong one
// of its own. In the end every operation has to be where it would have been
// without all that.
//
// Everything runs in a testing/synctest bubble: one call at a time, chosen by
// the seed, with the bubble's clock. So a run is the same each time:
//
//	go test ./shared/keys -run TestBulkSurvives -seed=1234
//
// What it is not: a test of the store's backends (those have a suite of their
// own) nor of speed.
//
// Read this file first: Scenario is what a test writes. simulation.go is the
// scheduler, activity.go what it begins, worker.go what tasks see of it, outcome.go
// the comparison. What has to hold is in the design, section 6.
package operationtest

import (
	"context"
	"flag"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/operation"
	"github.com/gatewright/gatewright/shared/operation/simulations"
	"github.com/gatewright/gatewright/shared/store"
)

// Scenario is a world and what happens in it. Each run gets a fresh one, so that
// what its functions share belongs to that run. What ends up in the table may
// not depend on chance: identifiers come from a source with a fixed seed, or
// from the step's ID and Number.
type Scenario struct {
	// Definitions gives the definitions as one worker has them. What their
	// tasks touch comes from w: its Table, its clock, and w.Call around
	// everything else that is outside the process.
	Definitions func(w *Worker) []operation.Definition
	// Arrange fills the table and begins operations, before anything fails.
	Arrange func(ctx context.Context, w *Worker) error
	// Act, if not nil, is a request that begins operations, in a worker that
	// may die at any call, and that is not repeated. In the end there is all of
	// it or none: the table's content is as if Act had run undisturbed, or as
	// before it. All of it, if Act has answered nil; none, if a Throttled fault.
	Act func(ctx context.Context, w *Worker) error
	// Always, if not nil, has to hold between any two calls. The table is not
	// disturbed.
	Always func(ctx context.Context, table *store.Table) error
	// OfTable says that Always depends on nothing but the table and the time: it is asked again once the table has
	// changed, and each minute.
	OfTable bool
	// Outside, if not nil, gives what has to be the same in the end beside the
	// table: the content of a bucket, say.
	Outside func() any
	// Ignore names attributes that differ from run to run, such as times.
	Ignore []string
	// Sabotage, if not nil, comes between the workers and the table: a test of
	// the test breaks a rule with it, to see that this is noticed.
	Sabotage func(store.Backend) store.Backend
	// Stop, if not nil, keeps things from happening: also a test of the test.
	Stop func(Event) bool
}

// Event is what the scheduler may let happen beside the workers' calls.
type Event string

// The events that Scenario.Stop is asked about.
const (
	Sweeping   Event = "sweep"
	Delivering Event = "stream"
)

var seedFlag = flag.String("seed", "", "run only this seed of each simulation, and print what happened")

// Simulate runs a scenario undisturbed, then once with a death before and once
// after each call that this made (under the race detector some of these), then as many times as package simulations says
// for runs with everything that can go wrong, each by its seed. It fails the test
// with the first run whose outcome is wrong, and says how to repeat it.
func Simulate(t *testing.T, fresh func() Scenario, runs int) {
	t.Helper()
	if failure := exploreSome(t, fresh, simulations.Sample[plan], simulations.Runs(runs)); failure != nil {
		t.Fatal(failure)
	}
}

// Explore is Simulate for a test of the test: it makes so many runs, whatever
// package simulations says, and answers the first failure found, nil for none.
func Explore(t *testing.T, fresh func() Scenario, runs int) *WrongRunError {
	t.Helper()
	return exploreSome(t, fresh, func(all []plan) []plan { return all }, runs)
}

// exploreSome makes the undisturbed run, those of the deaths that some chooses, and so many with everything that can go wrong.
func exploreSome(t *testing.T, fresh func() Scenario, some func([]plan) []plan, runs int) *WrongRunError {
	t.Helper()
	reference := play(t, fresh(), plan{undisturbed: true})
	if reference.failure != nil {
		return reference.failure
	}
	var deaths []plan
	for call := range reference.calls {
		deaths = append(deaths, plan{undisturbed: true, killAt: call + 1}, plan{undisturbed: true, killAt: call + 1, after: true})
	}
	plans := slices.Clone(some(deaths))
	for seed := range runs {
		plans = append(plans, plan{seed: uint64(seed + 1), calls: reference.calls})
	}
	return explore(t, fresh, plans, reference)
}

// explore runs the plans on all cores until one fails.
func explore(t *testing.T, fresh func() Scenario, plans []plan, reference result) *WrongRunError {
	t.Helper()
	var mu sync.Mutex
	var first *WrongRunError
	next, found := 0, false
	take := func() (plan, bool) {
		mu.Lock()
		defer mu.Unlock()
		for first == nil && next < len(plans) {
			p := plans[next]
			if next++; *seedFlag == "" || *seedFlag == p.String() {
				found = true
				return p, true
			}
		}
		return plan{}, false
	}
	var all sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for {
				p, ok := take()
				if !ok {
					return
				}
				r := play(t, fresh(), p)
				if r.failure == nil {
					r.failure = r.compare(reference, p)
				}
				mu.Lock()
				if first == nil {
					first = r.failure
				}
				if *seedFlag != "" {
					t.Logf("seed %s:\n%s", p, strings.Join(r.trace, "\n"))
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if *seedFlag != "" && !found {
		t.Fatalf("no run of this simulation has the seed %s", *seedFlag)
	}
	return first
}

// WrongRunError is a run whose outcome is wrong.
type WrongRunError struct {
	// Seed repeats the run.
	Seed string
	// Reason says what is wrong.
	Reason string
	// Trace is what happened, a line for each decision of the scheduler.
	Trace []string
}

func (f *WrongRunError) Error() string {
	return fmt.Sprintf("%s\nRepeat this run with -seed=%s. What happened in it:\n%s",
		f.Reason, f.Seed, strings.Join(f.Trace, "\n"))
}

// plan is how one run goes.
type plan struct {
	seed uint64
	// undisturbed runs have one worker, records delivered in order and no fault but a
	// death at call killAt (from 1, 0 for none), before or after it.
	undisturbed bool
	killAt      int
	after       bool
	// calls is how many calls the undisturbed run makes.
	calls int
}

// torn is whether the items of a read are far apart (memory.Backend.Tear): in
// every other run by a seed.
func (p plan) torn() bool { return p.seed%2 == 1 }

func (p plan) String() string {
	switch {
	case !p.undisturbed:
		return fmt.Sprint(p.seed)
	case p.killAt == 0:
		return "calm"
	case p.after:
		return fmt.Sprintf("after-%d", p.killAt)
	default:
		return fmt.Sprintf("before-%d", p.killAt)
	}
}

// play makes one run.
func play(t *testing.T, s Scenario, p plan) result {
	t.Helper()
	var r result
	synctest.Test(t, func(t *testing.T) {
		r = newSimulation(t.Context(), s, p).run()
	})
	return r
}

// runTimeout is how much time a run may take on the bubble's clock.
const runTimeout = 30 * 24 * time.Hour

// Package operationtest tests definitions of operations under every kind of failure. The real engine runs
// them over a table in memory, while a scheduler decides call by call what happens next. The scheduler
// runs several workers at the same time, and kills workers before and after any call. It refuses calls as
// throttled, loses calls and replies, and lets other workers change items in the middle of a read. It
// repeats, drops and reorders stream records, sweeps at any time, moves the clock, and sets each worker's
// clock wrong. In the end every operation must have the same state as without these disturbances.
//
// Everything runs in a testing/synctest bubble: one call at a time, chosen by
// the seed, with the bubble's clock. So a run is reproducible:
//
//	go test ./shared/resource/keys -run TestLargeChangesSurviveFailures -seed=1234
//
// The package does not test the store's backends (those have a separate suite) or speed.
//
// Read this file first: Scenario is what a test writes. simulation.go is the scheduler,
// activity.go has the activities that it starts, worker.go is the process that runs
// tasks, and outcome.go compares runs. The guarantees are in the design, section 6.
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

	"github.com/gatewright/gatewright/shared/core/operation"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/testing/simulations"
)

// Scenario defines a simulation and its events. Each run creates a new Scenario, so its
// functions can share state that belongs to the run. The table's content must not depend on
// chance: identifiers come from a source with a fixed seed, or from the step's ID and Number.
type Scenario struct {
	// Definitions returns the definitions of one worker. Their tasks must use w for everything
	// they touch: its Table, its clock, and w.Call around every call outside the process.
	Definitions func(w *Worker) []operation.Definition
	// Setup fills the table and begins operations. Nothing fails meanwhile.
	Setup func(ctx context.Context, w *Worker) error
	// Request, if not nil, is a request that begins operations, in a worker that can die at any
	// call. It is not repeated. At the end of the run its effect must be complete or absent: the
	// table's content is as if Request had run undisturbed, or as if it had not run. The effect
	// must be complete if Request returned nil, and absent if Request returned a Throttled fault.
	Request func(ctx context.Context, w *Worker) error
	// Invariant, if not nil, is called between any two calls, and must return nil. Its own calls to the table do not fail.
	Invariant func(ctx context.Context, table *store.Table) error
	// TableOnly means that Invariant depends only on the table and the time.
	// Invariant is then called only when the table has changed, and once a minute.
	TableOnly bool
	// External, if not nil, returns further state that must be the same in the end,
	// in addition to the table: the content of a bucket, for example.
	External func() any
	// Ignore has the names of attributes that differ from run to run, such as times.
	Ignore []string
	// Corrupt, if not nil, wraps the table's backend for the workers. Tests of this
	// package use it to break a rule, and check that the simulation detects this. Other tests use it to observe calls.
	Corrupt func(store.Backend) store.Backend
	// Suppress, if not nil, prevents events. It is also for tests of this package.
	Suppress func(Event) bool
}

// Event is an event that the scheduler causes, in addition to the workers' calls.
type Event string

// The events for which Scenario.Suppress is called.
const (
	Sweeping   Event = "sweep"
	Delivering Event = "stream"
)

var seedFlag = flag.String("seed", "", "run only this seed of each simulation, and print what happened")

// Simulate runs a scenario undisturbed. Then, for each call of that run, it makes a run with a death before the
// call, and a run with a death after it. Under the race detector, it makes only a sample of these runs.
// Then it makes runs with all kinds of failures, each with its own seed; package simulations decides their
// number. Simulate fails the test at the first run with a wrong outcome, and reports how to repeat that run.
func Simulate(t *testing.T, newScenario func() Scenario, runs int) {
	t.Helper()
	if failure := exploreSample(t, newScenario, simulations.Sample[plan], simulations.Runs(runs)); failure != nil {
		t.Fatal(failure)
	}
}

// Explore works as Simulate does, for tests that a simulation detects a defect. It returns the first wrong run, nil if
// there is none. Without a wrong run, it makes exactly the given number of runs with all kinds of failures, independent
// of package simulations.
func Explore(t *testing.T, newScenario func() Scenario, runs int) *WrongRunError {
	t.Helper()
	return exploreSample(t, newScenario, func(all []plan) []plan { return all }, runs)
}

// exploreSample makes the undisturbed run, the runs with a death that
// sample selects, and the given number of runs with all kinds of failures.
func exploreSample(t *testing.T, newScenario func() Scenario, sample func([]plan) []plan, runs int) *WrongRunError {
	t.Helper()
	reference := play(t, newScenario(), plan{undisturbed: true})
	if reference.failure != nil {
		return reference.failure
	}
	var deaths []plan
	for call := range reference.calls {
		deaths = append(deaths, plan{undisturbed: true, killAt: call + 1},
			plan{undisturbed: true, killAt: call + 1, afterCall: true})
	}
	plans := slices.Clone(sample(deaths))
	for seed := range runs {
		plans = append(plans, plan{seed: uint64(seed + 1), calls: reference.calls})
	}
	return explore(t, newScenario, plans, reference)
}

// explore runs the plans on all cores until one fails. With -seed, it runs only the plan with this seed.
func explore(t *testing.T, newScenario func() Scenario, plans []plan, reference result) *WrongRunError {
	t.Helper()
	var mu sync.Mutex
	var first *WrongRunError
	next, found := 0, false
	nextPlan := func() (plan, bool) {
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
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for {
				p, ok := nextPlan()
				if !ok {
					return
				}
				r := play(t, newScenario(), p)
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
	wg.Wait()
	if *seedFlag != "" && !found {
		t.Fatalf("no run of this simulation has the seed %s, want one of its seeds", *seedFlag)
	}
	return first
}

// WrongRunError is a run whose outcome is wrong.
type WrongRunError struct {
	// Seed is the seed that repeats the run.
	Seed string
	// Reason describes what is wrong.
	Reason string
	// Trace has a line for each decision of the scheduler.
	Trace []string
}

func (e *WrongRunError) Error() string {
	return fmt.Sprintf("%s\nRepeat this run with -seed=%s. What happened in it:\n%s",
		e.Reason, e.Seed, strings.Join(e.Trace, "\n"))
}

// plan describes one run.
type plan struct {
	seed uint64
	// undisturbed runs have one worker, records delivered in order, and no failure
	// except a death at call killAt (from 1, 0 for none), before or after it.
	undisturbed bool
	killAt      int
	afterCall   bool
	// calls is the number of calls of the undisturbed run.
	calls int
}

// torn reports whether reads are torn (memory.Backend.Tear). They are torn in every second run with a seed.
func (p plan) torn() bool { return p.seed%2 == 1 }

func (p plan) String() string {
	switch {
	case !p.undisturbed:
		return fmt.Sprint(p.seed)
	case p.killAt == 0:
		return "calm"
	case p.afterCall:
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

// runTimeout is the maximum time of a run on the bubble's clock.
const runTimeout = 30 * 24 * time.Hour

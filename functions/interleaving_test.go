package functions_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/events"
	"github.com/gatewright/gatewright/functions"
	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
	"github.com/gatewright/gatewright/shared/management/api"
	"github.com/gatewright/gatewright/shared/testing/simulations"
)

// interruptedBackend is a backend that calls a function once, before the next transaction that writes more than audit
// records.
type interruptedBackend struct {
	store.Backend
	beforeCommit func()
}

// Transact implements store.Backend.
func (i *interruptedBackend) Transact(ctx context.Context, token string, writes []store.Write) error {
	isChange := slices.ContainsFunc(writes, func(w store.Write) bool { return !audit.IsRecord(w.Key) })
	if hook := i.beforeCommit; hook != nil && isChange {
		i.beforeCommit = nil
		hook()
	}
	return i.Backend.Transact(ctx, token, writes)
}

// outcome returns the result of changes as text: their statuses and the contents of the table. It leaves out the parts
// that depend on random numbers or on the order of changes.
func outcome(statuses []int, fx *functionstest.Fixture) string {
	var lines []string
	for key, item := range fx.Items.Snapshot() {
		if audit.IsRecord(key) {
			continue
		}
		kind, _, _ := strings.Cut(key.PK, "#")
		lines = append(lines, kind+storetest.SmallNumbers(item))
	}
	slices.Sort(lines)
	return fmt.Sprintf("%d\n%s", statuses, strings.Join(lines, "\n"))
}

// change is a valid request of an operation.
type change struct {
	api.Declaration
	events.Request
}

// TestConcurrentChangesAreSerializable runs each change of a group between the read and the commit of each change of
// the group, including itself. It also deletes the object there and creates it again. The result must equal the result
// of the changes in some sequential order. The test runs the other changes in a hook, because with a table in memory,
// two goroutines would rarely meet at this point.
func TestConcurrentChangesAreSerializable(t *testing.T) {
	p := newPopulatedFixture(t)
	forEachOperation(t, fewerIfRacing(mutates), func(t *testing.T, d api.Declaration) {
		first := change{d, p.sampleSet.Request(d)}
		for _, second := range p.groupChanges(d) {
			p.checkInterleaving(t, first, second)
		}
		for _, r := range first.Variants {
			if !r.ChangesNothing {
				p.checkInterleaving(t, change{d, r}, change{d, r})
			}
		}
		for i, r := range variants(p.sampleSet, d) {
			if i > 0 && len(r.Values) == 0 || len(r.Prerequisites) > 0 {
				continue // recreated objects have other names, such as ids
			}
			for _, second := range p.groupChanges(d) {
				if parameters := objectParameters(second.Declaration); second.Method == http.MethodDelete && len(parameters) > 0 &&
					slices.Contains(objectParameters(d), parameters[len(parameters)-1]) {
					p.checkInterleaving(t, change{d, r}, second, p.setupChanges(t, d)...)
				}
			}
		}
	})
}

// TestChangeDuringReadIsSerializable runs each change of a group in the middle of another change's read of several
// items, because such a read is not a snapshot.
func TestChangeDuringReadIsSerializable(t *testing.T) {
	p := newPopulatedFixture(t)
	forEachOperation(t, fewerIfRacing(mutates), func(t *testing.T, d api.Declaration) {
		for _, second := range p.groupChanges(d) {
			for seed := range simulations.Runs(2) {
				p.checkInterleavingAt(t, duringRead(seed), change{d, p.sampleSet.Request(d)}, second)
			}
		}
	})
}

// groupOf returns the group of an operation.
func groupOf(d api.Declaration) functions.Group {
	candidates := groups()
	return candidates[slices.IndexFunc(candidates, func(g functions.Group) bool {
		return slices.ContainsFunc(g.Declarations(), func(declared api.Declaration) bool { return declared.ID == d.ID })
	})]
}

// groupChanges returns all changes of the group of an operation.
func (p populatedFixture) groupChanges(d api.Declaration) (out []change) {
	for _, declared := range groupOf(d).Declarations() {
		if declared.Mutates() {
			out = append(out, change{declared, p.sampleSet.Request(declared)})
		}
	}
	return out
}

// setupChanges returns the changes that create the objects of an operation's group. A change for an object that exists
// is refused.
func (p populatedFixture) setupChanges(t *testing.T, d api.Declaration) (out []change) {
	t.Helper()
	groupSamples, err := events.Load(groupOf(d).Name)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range groupSamples.Setup {
		for _, groupChange := range p.groupChanges(d) {
			if groupChange.ID != s.Operation {
				continue
			}
			if s.Body != nil {
				groupChange.Body = s.Body
			}
			out = append(out, groupChange)
		}
	}
	return out
}

// checkInterleaving runs b and more between the read and the commit of a. The result must equal that of a sequential
// order: with a first, after b, or last.
func (p populatedFixture) checkInterleaving(t *testing.T, a, b change, more ...change) {
	t.Helper()
	if !p.checkInterleavingAt(t, beforeCommit, a, b, more...) {
		t.Errorf("%s changes nothing, want a change", a.ID)
	}
}

// interleaving arranges that runOthers is called once during the next change.
type interleaving func(fx *functionstest.Fixture, backend *interruptedBackend, runOthers func())

func beforeCommit(_ *functionstest.Fixture, backend *interruptedBackend, runOthers func()) {
	backend.beforeCommit = runOthers
}

// duringRead returns an interleaving that calls runOthers between two items of a read. seed selects the position.
func duringRead(seed int) interleaving {
	return func(fx *functionstest.Fixture, _ *interruptedBackend, runOthers func()) {
		skip := seed % 3 // the number of earlier positions
		fx.Items.Tear(uint64(seed), func(context.Context) error {
			if skip == 0 {
				fx.Items.Tear(0, nil)
				runOthers()
			}
			skip--
			return nil
		})
	}
}

// checkInterleavingAt works like checkInterleaving, but with any interleaving. It reports whether the interleaving has
// called the other changes.
func (p populatedFixture) checkInterleavingAt(
	t *testing.T, interleave interleaving, a, b change, more ...change,
) (reached bool) {
	t.Helper()
	others := append([]change{b}, more...)
	setup := func() (fx *functionstest.Fixture, backend *interruptedBackend, call func(change) int) {
		fx = p.Copy(t)
		n := maps.Clone(p.values)
		steps := slices.Clone(a.Prerequisites)
		for _, b := range others {
			if a.ID != b.ID {
				steps = append(steps, b.Prerequisites...)
			}
		}
		if err := p.sampleSet.RunSteps(fx.Client(p.key), n, steps); err != nil {
			t.Fatal(err)
		}
		backend = &interruptedBackend{Backend: fx.Items}
		fx.Parts.Table = storetest.NewWithBackend(t, backend, storetest.Clock(fx.Parts.Now))
		fx.Now = fx.Now.Add(time.Second) // audit records of the steps have other ids
		fx.Restart()
		return fx, backend, func(c change) int {
			path, body := requestTarget(t, c.Declaration, c.Request, n)
			return fx.Call(p.key, c.Method, path, body).Status
		}
	}
	var names, sequential []string
	for _, b := range others {
		names = append(names, b.ID)
	}
	for position := range len(others) + 1 {
		if 1 < position && position < len(others) {
			continue
		}
		fx, _, call := setup()
		statuses := make([]int, len(others)+1)
		for i, b := range others {
			if i == position {
				statuses[0] = call(a)
			}
			statuses[i+1] = call(b)
		}
		if position == len(others) {
			statuses[0] = call(a)
		}
		sequential = append(sequential, outcome(statuses, fx))
	}
	fx, backend, call := setup()
	statuses := make([]int, len(others)+1)
	interleave(fx, backend, func() {
		reached = true
		for i, b := range others {
			statuses[i+1] = call(b)
		}
	})
	statuses[0] = call(a)
	if !reached {
		return false
	}
	if got := outcome(statuses, fx); !slices.Contains(sequential, got) {
		t.Errorf("%s during %s: outcome = %s\n\nwant as one after the other:\n%s",
			strings.Join(names, " and "), a.ID, got, strings.Join(sequential, "\n\nor:\n"))
	}
	return true
}

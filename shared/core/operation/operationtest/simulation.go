package operationtest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/core/operation"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/memory"
)

// simulation is one run of a scenario, with the scheduler that decides what happens. Its loop is the bubble's
// main goroutine. It acts only when all other goroutines wait, and lets one of them continue at a time.
type simulation struct {
	scenario    Scenario
	plan        plan
	ctx         context.Context //nolint:containedctx // the run's life
	memory      *memory.Backend
	observer    *Worker // accesses the table without disturbance
	rng         *rand.Rand
	startedAt   time.Time
	lastChecked string // the state of the table and the minute when Invariant was last called

	mu          sync.Mutex
	pending     []*call
	workers     []*Worker // the workers that are alive
	workerCount uint64
	active      int // activities that have not ended
	calls       int
	changes     int // number of changed items
	// activityCount numbers the activities.
	activityCount int
	// faults has the numbers of the calls that fail, or at which the worker dies or
	// freezes. disruptions is the number of other disturbances that can still happen.
	faults      map[int]bool
	disruptions int
	// allMustSucceed is whether all states of the scenario have MustSucceed. Then there
	// can be a long outage. From call outageAt on (0 for no outage), all calls fail for
	// the duration outageFor, except calls that only concern operations' records.
	allMustSucceed bool
	outageAt       int
	outageFor      time.Duration
	outageEnd      time.Time
	trace          []string
	// undelivered and delivered are the table's stream records. Delivered records may be delivered again.
	undelivered, delivered []store.StreamRecord
	// operations has the ids of all operations.
	operations map[string]bool
	// records has the operations' records that were read after their last change.
	records map[string]operation.Record
	// requested is whether Scenario.Request was called, or is nil.
	requested bool
	// acknowledged is whether the request succeeded. refused is whether it was refused without an effect.
	acknowledged, refused bool
	stopped               bool
	initial               outcome
}

// result is the result of a run.
type result struct {
	failure *WrongRunError
	calls   int
	trace   []string
	// before is the state after Scenario.Setup. after is the state at the end of the run.
	before, after outcome
	// hasRequest is whether the scenario has a request. acknowledged is whether it
	// succeeded, and refused is whether it was refused without an effect.
	hasRequest, acknowledged, refused bool
}

const (
	maxWorkers     = 2
	maxFaults      = 12
	maxDisruptions = 12
	maxActive      = 4
	// maxOutage is the maximum duration of an outage. It is long
	// enough for more attempts than any limit of attempts allows.
	maxOutage = 12 * time.Hour
	// maxSteps is far more than any run that makes progress needs.
	maxSteps = 20_000
)

func newSimulation(ctx context.Context, s Scenario, p plan) *simulation {
	sim := &simulation{
		scenario: s, plan: p, ctx: ctx, memory: memory.New(), startedAt: time.Now(),
		rng:        rand.New(rand.NewPCG(p.seed, 0)), //nolint:gosec // G404: runs must be repeatable
		operations: map[string]bool{}, records: map[string]operation.Record{}, faults: map[int]bool{},
	}
	if p.torn() {
		sim.memory.Tear(p.seed, betweenItems)
	}
	if !p.undisturbed {
		// Spread the failures over the whole run. It takes about as many
		// calls as the undisturbed run, plus calls for repeated work.
		for range 1 + sim.rng.IntN(maxFaults) {
			sim.faults[1+sim.rng.IntN(p.calls+p.calls/2)] = true
		}
		sim.disruptions = sim.rng.IntN(maxDisruptions + 1)
		if sim.rng.IntN(3) == 0 {
			sim.outageAt = 1 + sim.rng.IntN(p.calls)
			sim.outageFor = time.Duration(sim.rng.Int64N(int64(maxOutage)))
		}
	}
	return sim
}

// run plays the scenario to its end.
func (s *simulation) run() result {
	reason := s.play()
	r := result{
		calls: s.calls, trace: s.trace, hasRequest: s.scenario.Request != nil, acknowledged: s.acknowledged,
		refused: s.refused,
	}
	if reason == "" {
		r.after = s.outcome()
		r.before = s.initial
	}
	s.stop()
	if reason != "" {
		r.failure = &WrongRunError{Seed: s.plan.String(), Reason: reason, Trace: s.trace}
	}
	return r
}

// play runs the scenario and returns what is wrong, "" if nothing is.
func (s *simulation) play() string {
	var err error
	if s.observer, err = s.newWorker(false); err != nil {
		return "define the operations: " + err.Error()
	}
	s.memory.OnChange(s.onChange)
	if err := s.scenario.Setup(s.ctx, s.observer); err != nil {
		return "set up the scenario: " + err.Error()
	}
	s.initial = s.outcome()
	for range s.workerLimit() {
		if err := s.addWorker(); err != nil {
			return err.Error()
		}
	}
	s.requested = s.scenario.Request == nil
	for range maxSteps {
		s.waitForOthers()
		if s.scenario.Invariant != nil && !s.invariantChecked() {
			if err := s.scenario.Invariant(s.ctx, s.observer.Table); err != nil {
				return "the invariant is violated: " + err.Error()
			}
		}
		if s.complete() {
			return ""
		}
		if time.Since(s.startedAt) > runTimeout {
			break
		}
		s.step()
	}
	return "operations do not end: " + strings.Join(s.unfinished(), ", ")
}

// workerLimit returns the maximum number of workers at the same time.
func (s *simulation) workerLimit() int {
	if s.plan.undisturbed {
		return 1
	}
	return maxWorkers
}

func (s *simulation) addWorker() error {
	w, err := s.newWorker(true)
	if err == nil {
		s.mu.Lock()
		s.workers = append(s.workers, w)
		s.mu.Unlock()
	}
	return err
}

// onChange receives each change of the table.
func (s *simulation) onChange(r store.StreamRecord) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changes++
	if id, ok := operation.IDOf(r.Key); ok {
		s.operations[id] = true
		delete(s.records, id)
		s.undelivered = append(s.undelivered, r)
	}
}

// invariantChecked reports whether Invariant does not have to be called again: with
// TableOnly, one call for each state of the table and each minute is enough.
func (s *simulation) invariantChecked() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := fmt.Sprint(s.changes, time.Now().Truncate(time.Minute))
	unchanged := s.scenario.TableOnly && now == s.lastChecked
	s.lastChecked = now
	return unchanged
}

// decide blocks a worker's goroutine until the scheduler decides about its call, and returns the decision. The decision
// about a call of a dead worker is dieBefore.
func (s *simulation) decide(ctx context.Context, w *Worker, name string, recordsOnly bool) decision {
	activity, _ := ctx.Value(activityKey{}).(int)
	c := &call{worker: w, activity: activity, name: name, recordsOnly: recordsOnly, decision: make(chan decision, 1)}
	s.mu.Lock()
	if w.dead {
		s.mu.Unlock()
		return dieBefore
	}
	s.pending = append(s.pending, c)
	s.mu.Unlock()
	return <-c.decision
}

// step makes a random event happen, or none.
func (s *simulation) step() {
	if s.plan.undisturbed {
		s.undisturbedStep()
		return
	}
	ready := s.ready()
	switch roll := s.rng.IntN(100); {
	case !s.requested && (roll < 20 || len(ready) == 0):
		s.runRequest()
	case len(ready) > 0 && roll < 80:
		s.proceed(ready[s.rng.IntN(len(ready))])
	case len(ready) > 0 && roll < 82: // a slow call, or a long pause
		s.wait(time.Duration(s.rng.Int64N(int64(40 * time.Second))))
	case roll < 84 && s.disruptions > 0:
		s.sweep()
	case len(s.delivered) > 0 && roll < 86 && s.disrupt():
		s.deliver(s.delivered[s.rng.IntN(len(s.delivered))], "again")
	case len(s.undelivered) > 0 && roll < 88 && s.disrupt():
		s.logEvent("a stream record is lost: " + s.takeRecord().Key.PK)
	case len(s.undelivered) > 0 && s.active < maxActive:
		s.deliver(s.takeRecord(), "")
	case len(ready) == 0:
		s.idle()
	}
}

// ready returns the calls of the workers that are not frozen. Each call of ready
// shortens the time for which frozen workers stay frozen. The result is sorted,
// because the order of arrival depends on the runtime if several timers end at once.
func (s *simulation) ready() []*call {
	slices.SortFunc(s.pending, func(a, b *call) int {
		return cmp.Or(cmp.Compare(a.activity, b.activity), cmp.Compare(a.name, b.name))
	})
	var ready []*call
	for _, c := range s.pending {
		if c.worker.frozen > 0 {
			c.worker.frozen--
			continue
		}
		ready = append(ready, c)
	}
	return ready
}

// undisturbedStep makes the next event of a run without failures happen.
func (s *simulation) undisturbedStep() {
	switch {
	case len(s.pending) > 0:
		s.proceed(s.pending[0])
	case !s.requested:
		s.runRequest()
	case len(s.undelivered) > 0:
		s.deliver(s.takeRecord(), "")
	default:
		s.idle()
	}
}

// takeRecord removes and returns an undelivered stream record: the
// next record, or a random record if the stream may reorder records.
func (s *simulation) takeRecord() store.StreamRecord {
	i := 0
	if s.disruptions > 0 {
		i = s.rng.IntN(len(s.undelivered))
	}
	r := s.undelivered[i]
	s.undelivered = slices.Delete(s.undelivered, i, i+1)
	return r
}

// disrupt reports whether one more disruption may happen, and counts it.
func (s *simulation) disrupt() bool {
	if s.disruptions == 0 {
		return false
	}
	s.disruptions--
	return true
}

// proceed lets a call continue, makes it fail, or makes its worker die.
func (s *simulation) proceed(c *call) {
	s.calls++
	d := proceed
	switch w := c.worker; {
	case s.plan.undisturbed:
		if s.calls == s.plan.killAt {
			d = map[bool]decision{false: dieBefore, true: dieAfter}[s.plan.afterCall]
		}
	case s.inOutage() && !c.recordsOnly:
		d = s.outageDecision()
	case w.outage > 0:
		w.outage--
		d = s.outageDecision()
	case s.faults[s.calls]:
		d = decision(1 + s.rng.IntN(int(decisions)-1))
		switch {
		case d == freeze:
			s.freeze(c)
			return
		case d <= loseReply && s.rng.IntN(3) == 0:
			w.outage = s.rng.IntN(2 * tableRetries)
		}
	}
	s.logEvent(fmt.Sprintf("worker %d: %s%s", c.worker.name, c.name, d))
	s.mu.Lock()
	s.pending = slices.DeleteFunc(s.pending, func(other *call) bool { return other == c })
	s.mu.Unlock()
	c.decision <- d
	if d == dieBefore || d == dieAfter {
		s.waitForOthers() // its call completes before the rest of the worker ends
		s.die(c.worker, "")
	}
}

// outageDecision returns the decision about a call during an outage: the call is refused, or its outcome is unknown.
func (s *simulation) outageDecision() decision { return refuse + decision(s.rng.IntN(2)) }

// inOutage reports whether the long outage is in progress. The outage begins with call outageAt.
func (s *simulation) inOutage() bool {
	if s.allMustSucceed && s.calls == s.outageAt && s.outageEnd.IsZero() {
		s.outageEnd = time.Now().Add(s.outageFor)
		s.logEvent(fmt.Sprintf("an outage of %v begins", s.outageFor))
	}
	return time.Now().Before(s.outageEnd)
}

// freeze stops a worker in the middle of its work while the others continue: as if its process were
// suspended or collected garbage. Often the worker's lease has expired when the worker continues.
func (s *simulation) freeze(c *call) {
	s.logEvent(fmt.Sprintf("worker %d freezes: %s", c.worker.name, c.name))
	c.worker.frozen = 20 + s.rng.IntN(200)
	s.wait(time.Duration(s.rng.Int64N(int64(2 * time.Minute))))
	s.sweep()
}

// tableRetries is about the number of times that a table repeats a call. Only longer outages reach the engine.
const tableRetries = 10

// die ends a worker. A new worker takes its place unless the run is over.
func (s *simulation) die(w *Worker, reason string) {
	s.logEvent(fmt.Sprintf("worker %d is dead%s", w.name, reason))
	s.mu.Lock()
	w.dead = true
	s.workers = slices.DeleteFunc(s.workers, func(other *Worker) bool { return other == w })
	for _, c := range s.pending {
		if c.worker == w {
			c.decision <- dieBefore
		}
	}
	s.pending = slices.DeleteFunc(s.pending, func(c *call) bool { return c.worker == w })
	stopped := s.stopped
	s.mu.Unlock()
	w.kill()
	if !stopped {
		// The definitions were valid for the first worker.
		_ = s.addWorker()
	}
}

// idle is called when no call is ready. While an activity is in progress, it lets a second pass. Otherwise
// it lets time pass until all operations are due, at least a minute, and starts a sweep.
func (s *simulation) idle() {
	if s.active > 0 {
		s.wait(time.Second)
		return
	}
	due := time.Now().Add(time.Minute)
	for id := range s.operations {
		if r, err := s.record(id); err == nil && !r.Ended() && r.DueOn.Add(maxSkew).After(due) {
			due = r.DueOn.Add(maxSkew)
		}
	}
	s.wait(time.Until(due))
	s.sweep()
}

// wait lets the bubble's clock run.
func (s *simulation) wait(d time.Duration) {
	s.logEvent(fmt.Sprintf("%v pass", d.Round(time.Millisecond)))
	s.syncMemory()
	time.Sleep(d)
}

// waitForOthers waits until all other goroutines wait. After it the scheduler
// can access shared state without the lock, until it lets one of them continue.
func (s *simulation) waitForOthers() {
	s.syncMemory()
	synctest.Wait()
	s.syncMemory()
}

// syncMemory shows the race detector an order that the bubble guarantees: everything before the call
// of syncMemory happens before everything that another goroutine does after it takes the lock again.
func (s *simulation) syncMemory() {
	s.mu.Lock()
	defer s.mu.Unlock()
}

// complete reports whether the run is complete.
func (s *simulation) complete() bool {
	s.mu.Lock()
	quiet := s.requested && s.active == 0 && len(s.pending) == 0
	s.mu.Unlock()
	return quiet && len(s.unfinished()) == 0
}

// unfinished returns the operations that have not ended, with their states.
func (s *simulation) unfinished() []string {
	var out []string
	for _, id := range slices.Sorted(maps.Keys(s.operations)) {
		if r, err := s.record(id); err == nil && !r.Ended() {
			out = append(out, fmt.Sprintf("%s in state %q", id, r.State))
		}
	}
	return out
}

// record returns the record of an operation. It reads the table only if the record has changed since the last time.
func (s *simulation) record(id string) (operation.Record, error) {
	if r, known := s.records[id]; known {
		return r, nil
	}
	r, err := s.observer.Engine.Read(s.ctx, id)
	if err == nil {
		s.records[id] = r
	}
	return r, err
}

// stop ends all goroutines, as the bubble requires.
func (s *simulation) stop() {
	s.mu.Lock()
	s.stopped = true
	s.mu.Unlock()
	for len(s.workers) > 0 {
		s.die(s.workers[0], ": the run is over")
	}
	for range maxSteps {
		s.waitForOthers()
		s.mu.Lock()
		busy := s.active
		s.mu.Unlock()
		if busy == 0 {
			return
		}
		s.wait(time.Minute) // a task that sleeps without its context
	}
}

// logEvent adds an event to the trace.
func (s *simulation) logEvent(event string) {
	s.trace = append(s.trace, fmt.Sprintf("%10v  %s", time.Since(s.startedAt).Round(time.Millisecond), event))
}

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

	"github.com/gatewright/gatewright/shared/operation"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/memory"
)

// simulation is one run: the world and the scheduler that decides what happens
// in it. Its loop is the bubble's main goroutine; it acts only when all others
// wait, and lets one of them go on at a time.
type simulation struct {
	scenario    Scenario
	plan        plan
	ctx         context.Context //nolint:containedctx // the run's life
	memory      *memory.Backend
	undisturbed *Worker // sees the table without disturbance
	rng         *rand.Rand
	begun       time.Time
	lastLook    string // what the table and the minute were when Always was asked last

	mu      sync.Mutex
	waiting []*call
	workers []*Worker // the living
	born    uint64
	active  int // activities that have not ended
	calls   int
	changes int // of items
	// begunActivities numbers the activities.
	begunActivities int
	// disturbed names the calls that go wrong, by their number; disruptions is how
	// much else may happen.
	disturbed   map[int]bool
	disruptions int
	// lasting is whether all states of the scenario must happen. Then there may be a
	// long outage: from call outageAt on (0 for none), every call fails for
	// outageFor but those about operations' records alone.
	lasting   bool
	outageAt  int
	outageFor time.Duration
	outageEnd time.Time
	trace     []string
	// undelivered stream records, delivered ones (to repeat), and the
	// operations there are.
	undelivered, delivered []store.StreamRecord
	operations             map[string]bool
	// records are those of operations that were read since their last change.
	records map[string]operation.Record
	acted   bool
	// acknowledged tells that the request has had an answer, refused that it was
	// that nothing had happened.
	acknowledged, refused bool
	over                  bool
	beginning             outcome
}

// result is what a run came to.
type result struct {
	failure       *WrongRunError
	calls         int
	trace         []string
	before, after outcome
	// acted tells that there was a request, acknowledged that it was answered with
	// success, refused that it was with the word that nothing had happened.
	acted, acknowledged, refused bool
}

const (
	fewWorkers     = 2
	maxFaults      = 12
	maxDisruptions = 12
	maxActive      = 4
	// maxOutage is long enough for more attempts than any bound there ever was.
	maxOutage = 12 * time.Hour
	// maxTurns is far beyond what any run takes that gets anywhere.
	maxTurns = 20_000
)

func newSimulation(ctx context.Context, s Scenario, p plan) *simulation {
	sim := &simulation{
		scenario: s, plan: p, ctx: ctx, memory: memory.New(), begun: time.Now(),
		rng:        rand.New(rand.NewPCG(p.seed, 0)), //nolint:gosec // G404: a repeatable run is the point
		operations: map[string]bool{}, records: map[string]operation.Record{}, disturbed: map[int]bool{},
	}
	if p.torn() {
		sim.memory.Tear(p.seed, betweenItems)
	}
	if !p.undisturbed {
		// Spread over the whole run, which takes about as many calls as the
		// undisturbed one, and more for what has to be done again.
		for range 1 + sim.rng.IntN(maxFaults) {
			sim.disturbed[1+sim.rng.IntN(p.calls+p.calls/2)] = true
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
	r := result{calls: s.calls, trace: s.trace, acted: s.scenario.Act != nil, acknowledged: s.acknowledged, refused: s.refused}
	if reason == "" {
		r.after = s.outcome()
		r.before = s.beginning
	}
	s.stop()
	if reason != "" {
		r.failure = &WrongRunError{Seed: s.plan.String(), Reason: reason, Trace: s.trace}
	}
	return r
}

// play answers what is wrong, "" for nothing.
func (s *simulation) play() string {
	var err error
	if s.undisturbed, err = s.newWorker(false); err != nil {
		return "define the operations: " + err.Error()
	}
	s.memory.OnChange(s.changed)
	if err := s.scenario.Arrange(s.ctx, s.undisturbed); err != nil {
		return "arrange the scenario: " + err.Error()
	}
	s.beginning = s.outcome()
	for range s.workerLimit() {
		if err := s.addWorker(); err != nil {
			return err.Error()
		}
	}
	s.acted = s.scenario.Act == nil
	for range maxTurns {
		s.waitForOthers()
		if s.scenario.Always != nil && !s.looked() {
			if err := s.scenario.Always(s.ctx, s.undisturbed.Table); err != nil {
				return "something does not hold: " + err.Error()
			}
		}
		if s.settled() {
			return ""
		}
		if time.Since(s.begun) > runTimeout {
			break
		}
		s.turn()
	}
	return "operations do not end: " + strings.Join(s.unfinished(), ", ")
}

// workerLimit is how many workers live at a time.
func (s *simulation) workerLimit() int {
	if s.plan.undisturbed {
		return 1
	}
	return fewWorkers
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

// changed hears of each change in the table.
func (s *simulation) changed(r store.StreamRecord) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changes++
	if id, ok := operation.IDOf(r.Key); ok {
		s.operations[id] = true
		delete(s.records, id)
		s.undelivered = append(s.undelivered, r)
	}
}

// looked reports whether Always has held of the table as it is, in this minute.
func (s *simulation) looked() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := fmt.Sprint(s.changes, time.Now().Truncate(time.Minute))
	same := s.scenario.OfTable && now == s.lastLook
	s.lastLook = now
	return same
}

// decide has a worker's goroutine wait until the scheduler lets it go on.
func (s *simulation) decide(ctx context.Context, w *Worker, what string, own bool) decision {
	activity, _ := ctx.Value(activityKey{}).(int)
	c := &call{worker: w, activity: activity, what: what, own: own, decision: make(chan decision, 1)}
	s.mu.Lock()
	if w.dead {
		s.mu.Unlock()
		return dieBefore
	}
	s.waiting = append(s.waiting, c)
	s.mu.Unlock()
	return <-c.decision
}

// turn lets one thing happen.
func (s *simulation) turn() {
	if s.plan.undisturbed {
		s.undisturbedTurn()
		return
	}
	ready := s.ready()
	switch roll := s.rng.IntN(100); {
	case !s.acted && (roll < 20 || len(ready) == 0):
		s.act()
	case len(ready) > 0 && roll < 80:
		s.proceed(ready[s.rng.IntN(len(ready))])
	case len(ready) > 0 && roll < 82: // a slow call, or a long pause
		s.wait(time.Duration(s.rng.Int64N(int64(40 * time.Second))))
	case roll < 84 && s.disruptions > 0:
		s.sweep()
	case len(s.delivered) > 0 && roll < 86 && s.disrupt():
		s.deliver(s.delivered[s.rng.IntN(len(s.delivered))], "again")
	case len(s.undelivered) > 0 && roll < 88 && s.disrupt():
		s.note("a stream record is lost: " + s.take().Key.PK)
	case len(s.undelivered) > 0 && s.active < maxActive:
		s.deliver(s.take(), "")
	case len(ready) == 0:
		s.idle()
	}
}

// ready returns the calls of the workers that are not frozen. A turn thaws those
// that have been for long enough. The order is not that of their coming: when
// several timers end at once, this is up to the runtime.
func (s *simulation) ready() []*call {
	slices.SortFunc(s.waiting, func(a, b *call) int {
		return cmp.Or(cmp.Compare(a.activity, b.activity), cmp.Compare(a.what, b.what))
	})
	var ready []*call
	for _, c := range s.waiting {
		if c.worker.frozen > 0 {
			c.worker.frozen--
			continue
		}
		ready = append(ready, c)
	}
	return ready
}

// undisturbedTurn lets happen what would happen without failures.
func (s *simulation) undisturbedTurn() {
	switch {
	case len(s.waiting) > 0:
		s.proceed(s.waiting[0])
	case !s.acted:
		s.act()
	case len(s.undelivered) > 0:
		s.deliver(s.take(), "")
	default:
		s.idle()
	}
}

// take removes a stream record that was not delivered yet: the next one, or any
// where the order may be wrong.
func (s *simulation) take() store.StreamRecord {
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

// proceed lets a call go on, or makes it fail.
func (s *simulation) proceed(c *call) {
	s.calls++
	f := proceed
	switch w := c.worker; {
	case s.plan.undisturbed:
		if s.calls == s.plan.killAt {
			f = map[bool]decision{false: dieBefore, true: dieAfter}[s.plan.after]
		}
	case s.inOutage() && !c.own:
		f = s.unanswered()
	case w.outage > 0:
		w.outage--
		f = s.unanswered()
	case s.disturbed[s.calls]:
		f = decision(1 + s.rng.IntN(int(decisions)-1))
		switch {
		case f == freeze:
			s.freeze(c)
			return
		case f <= loseReply && s.rng.IntN(3) == 0:
			w.outage = s.rng.IntN(2 * repeats)
		}
	}
	s.note(fmt.Sprintf("worker %d: %s%s", c.worker.name, c.what, f))
	s.mu.Lock()
	s.waiting = slices.DeleteFunc(s.waiting, func(other *call) bool { return other == c })
	s.mu.Unlock()
	c.decision <- f
	if f == dieBefore || f == dieAfter {
		s.waitForOthers() // its call is made before the rest of it ends
		s.die(c.worker, "")
	}
}

// unanswered is how a call of an outage ends: refused, or nobody knows.
func (s *simulation) unanswered() decision { return refuse + decision(s.rng.IntN(2)) }

// inOutage reports whether the long outage is on. It begins with a call.
func (s *simulation) inOutage() bool {
	if s.lasting && s.calls == s.outageAt && s.outageEnd.IsZero() {
		s.outageEnd = time.Now().Add(s.outageFor)
		s.note(fmt.Sprintf("an outage of %v begins", s.outageFor))
	}
	return time.Now().Before(s.outageEnd)
}

// freeze stops a worker in the middle of what it does, for longer than its
// lease, while the others go on: a process that is suspended, or collects its
// garbage. It finds out when it is too late.
func (s *simulation) freeze(c *call) {
	s.note(fmt.Sprintf("worker %d freezes: %s", c.worker.name, c.what))
	c.worker.frozen = 20 + s.rng.IntN(200)
	s.wait(time.Duration(s.rng.Int64N(int64(2 * time.Minute))))
	s.sweep()
}

// repeats is about how often a table repeats a call: an outage that is longer
// is seen by the engine.
const repeats = 10

// die ends a worker; another takes its place.
func (s *simulation) die(w *Worker, why string) {
	s.note(fmt.Sprintf("worker %d is dead%s", w.name, why))
	s.mu.Lock()
	w.dead = true
	s.workers = slices.DeleteFunc(s.workers, func(other *Worker) bool { return other == w })
	for _, c := range s.waiting {
		if c.worker == w {
			c.decision <- dieBefore
		}
	}
	s.waiting = slices.DeleteFunc(s.waiting, func(c *call) bool { return c.worker == w })
	over := s.over
	s.mu.Unlock()
	w.kill()
	if !over {
		// The definitions were good enough for the first one.
		_ = s.addWorker()
	}
}

// idle is what happens when no call waits: time passes, then a sweep.
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
	s.note(fmt.Sprintf("%v pass", d.Round(time.Millisecond)))
	s.pass()
	time.Sleep(d)
}

// waitForOthers waits until all others wait. After it the scheduler may look at what
// they share without the lock, until it lets one of them go on.
func (s *simulation) waitForOthers() {
	s.pass()
	synctest.Wait()
	s.pass()
}

// pass tells the race detector what the bubble sees to: what was done before it
// is over before any goroutine takes the lock after it.
func (s *simulation) pass() {
	s.mu.Lock()
	defer s.mu.Unlock()
}

// settled reports whether all is done.
func (s *simulation) settled() bool {
	s.mu.Lock()
	still := s.acted && s.active == 0 && len(s.waiting) == 0
	s.mu.Unlock()
	return still && len(s.unfinished()) == 0
}

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
	r, err := s.undisturbed.Engine.Read(s.ctx, id)
	if err == nil {
		s.records[id] = r
	}
	return r, err
}

// stop ends all goroutines, as the bubble demands.
func (s *simulation) stop() {
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	for len(s.workers) > 0 {
		s.die(s.workers[0], ": the run is over")
	}
	for range maxTurns {
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

func (s *simulation) note(what string) {
	s.trace = append(s.trace, fmt.Sprintf("%10v  %s", time.Since(s.begun).Round(time.Millisecond), what))
}

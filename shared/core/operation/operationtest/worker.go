package operationtest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/operation"
	"github.com/gatewright/gatewright/shared/core/store"
)

// Worker is one process, as the code in it sees it. When the scheduler kills it,
// its goroutines end at their next call, and none of their calls has an effect.
type Worker struct {
	// Table is the product's table.
	Table *store.Table
	// Engine has the scenario's definitions. It is nil while they are created.
	Engine *operation.Engine
	// Random is the worker's source of randomness. It returns the same bytes each time the run is repeated.
	Random io.Reader

	name      uint64
	skew      time.Duration
	sim       *simulation
	ctx       context.Context //nolint:containedctx // ends everything that runs in the process
	kill      context.CancelFunc
	dead      bool
	outage    int  // how many of its next calls are refused or lost
	frozen    int  // how many turns its calls have to wait
	disturbed bool // whether the scheduler decides about its calls
}

// Now returns the time of the worker's clock, which may be wrong.
func (w *Worker) Now() time.Time { return time.Now().Add(w.skew) }

// Call makes a call to something outside the process, but not to the table. The
// call can fail as Unavailable, before or after f has run, and the worker can die.
func (w *Worker) Call(ctx context.Context, name string, f func() error) error {
	d, err := w.decideAndRun(ctx, name, false, f)
	if d != proceed {
		return fault.New(fault.Unavailable, "simulated: %s does not respond", name)
	}
	return err
}

// callTable makes a call to the table. Its errors are those of the DynamoDB backend. A refused call had
// no effect. If the request or the reply was lost, or the context has ended, the outcome is unknown.
func (w *Worker) callTable(ctx context.Context, name string, recordsOnly bool, f func() error) error {
	d, err := w.decideAndRun(ctx, name, recordsOnly, f)
	switch d {
	case refuse:
		return fmt.Errorf("%w: simulated: throttled", store.ErrRetryable)
	case loseCall, loseReply:
		return fmt.Errorf("%w: %w: simulated: the connection is broken", store.ErrRetryable, store.ErrOutcomeUnknown)
	case proceed, dieBefore, dieAfter, freeze, decisions:
	}
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w: %w", store.ErrOutcomeUnknown, err)
	}
	return err
}

// decision is the scheduler's decision about a call.
type decision int

const (
	proceed decision = iota
	refuse
	loseCall
	loseReply
	dieBefore
	dieAfter
	freeze    // used only by the scheduler, which decides about the call later
	decisions // the number of decisions
)

func (d decision) String() string {
	return [...]string{
		"", " → refused", " → call lost", " → reply lost", " → dies before", " → dies after",
		" → freezes", "",
	}[d]
}

// call is a call of a worker that waits for the scheduler's decision.
type call struct {
	worker      *Worker
	activity    int
	name        string
	recordsOnly bool // the call only concerns operations' records
	decision    chan decision
}

// activityKey is the context key of the number of an activity.
type activityKey struct{}

// decideAndRun lets the scheduler decide about a call, and makes it. It returns proceed and f's error if the worker
// receives the reply, and otherwise the decision. recordsOnly means that the call only concerns operations' records.
func (w *Worker) decideAndRun(
	ctx context.Context, name string, recordsOnly bool, f func() error,
) (result decision, err error) {
	if !w.disturbed {
		return proceed, f()
	}
	if err := ctx.Err(); err != nil && !w.isDead() {
		return proceed, fmt.Errorf("simulated: %s: %w", name, err)
	}
	d := w.sim.decide(ctx, w, name, recordsOnly)
	switch d {
	case dieBefore:
		runtime.Goexit()
	case refuse, loseCall:
		return d, nil
	case proceed, loseReply, dieAfter, freeze, decisions:
	}
	err = f()
	switch {
	case d == dieAfter:
		runtime.Goexit()
	case d == loseReply:
		return d, nil
	case ctx.Err() != nil: // the reply came too late
		return proceed, fmt.Errorf("simulated: %s: %w", name, ctx.Err())
	}
	return proceed, err
}

func (w *Worker) isDead() bool {
	w.sim.mu.Lock()
	defer w.sim.mu.Unlock()
	return w.dead
}

// workerBackend is a worker's connection to the table.
type workerBackend struct {
	w     *Worker
	inner store.Backend
}

var (
	_ store.Backend = workerBackend{}
	_ store.Pager   = workerBackend{}
)

func (b workerBackend) Read(ctx context.Context, keys []store.Key) (items []store.Item, err error) {
	names, recordsOnly := make([]string, len(keys)), true
	for i, k := range keys {
		names[i] = k.PK
		recordsOnly = recordsOnly && isOperation(k)
	}
	err = b.w.callTable(ctx, "read "+strings.Join(names, ", "), recordsOnly, func() (err error) {
		items, err = b.inner.Read(context.WithValue(ctx, readerKey{}, b.w), keys)
		return err
	})
	return items, err
}

// readerKey is the context key of the worker that reads from the table.
type readerKey struct{}

// betweenItems is called in the middle of a torn read, so that the scheduler can make
// anything happen there. If the call fails here, the remaining keys are not read.
func betweenItems(ctx context.Context) error {
	w, _ := ctx.Value(readerKey{}).(*Worker)
	if w == nil {
		return nil
	}
	return w.callTable(ctx, "read on", false, func() error { return nil })
}

func (b workerBackend) Query(ctx context.Context, q store.Query) (items []store.Item, next string, err error) {
	err = b.w.callTable(ctx, "query "+q.PK, q.Index == store.DueIndex, func() (err error) {
		items, next, err = b.inner.Query(ctx, q)
		return err
	})
	return items, next, err
}

// Page implements store.Pager, if the table's backend implements it.
func (b workerBackend) Page(
	ctx context.Context, after store.Key, limit int,
) (items []store.Item, last store.Key, err error) {
	pager, ok := b.inner.(store.Pager)
	if !ok {
		return nil, store.Key{}, errors.New("operationtest: the backend of the table has no pages")
	}
	err = b.w.callTable(ctx, "page behind "+after.PK, false, func() (err error) {
		items, last, err = pager.Page(ctx, after, limit)
		return err
	})
	return items, last, err
}

func (b workerBackend) Transact(ctx context.Context, token string, writes []store.Write) error {
	recordsOnly := !slices.ContainsFunc(writes, func(w store.Write) bool { return !isOperation(w.Key) })
	names := make([]string, 0, 4)
	for i, w := range writes {
		if i == 3 && len(writes) > 4 {
			names = append(names, fmt.Sprintf("%d more", len(writes)-i))
			break
		}
		names = append(names, fmt.Sprintf("%s %s %s", w.Kind, w.Key.PK, strings.TrimSuffix(w.Key.SK, ".")))
	}
	return b.w.callTable(ctx, strings.Join(names, ", "), recordsOnly, func() error {
		return b.inner.Transact(ctx, token, writes)
	})
}

func isOperation(k store.Key) bool {
	_, ok := operation.IDOf(k)
	return ok
}

// newWorker returns a new worker. The scheduler decides about its calls if disturbed is true.
func (s *simulation) newWorker(disturbed bool) (*Worker, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.workerCount++
	w := &Worker{name: s.workerCount, sim: s, disturbed: disturbed}
	w.ctx, w.kill = context.WithCancel(s.ctx)
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], s.plan.seed)
	binary.LittleEndian.PutUint64(key[8:], w.name)
	w.Random = &random{source: rand.NewChaCha8(key)}
	if !s.plan.undisturbed && disturbed && s.rng.IntN(2) == 0 {
		w.skew = time.Duration(s.rng.Int64N(int64(2*maxSkew))) - maxSkew
	}
	slice := time.Duration(0)
	if !s.plan.undisturbed && s.rng.IntN(2) == 0 {
		slice = 100 * time.Millisecond
	}
	var backend store.Backend = workerBackend{w, s.memory}
	if s.scenario.Corrupt != nil && disturbed {
		backend = s.scenario.Corrupt(backend)
	}
	w.Table = store.New(backend, store.Options{Random: w.Random, Now: w.Now, Backoff: backoff})
	var err error
	definitions := withoutDeathLimits(s.scenario.Definitions(w))
	s.allMustSucceed = !slices.ContainsFunc(definitions, mayFail)
	w.Engine, err = operation.New(w.Table, definitions, operation.Options{
		Now: w.Now, Random: w.Random, Log: slog.New(slog.DiscardHandler),
		Jitter: func(limit time.Duration) time.Duration { return limit },
		Slice:  slice,
	})
	return w, err
}

// withoutDeathLimits removes the limits on deaths (State.MaxDeaths): a run kills more workers than
// such a state allows, so its outcome would differ from that of the undisturbed run, although
// there is no defect. The tests of package operation and of the definitions check these limits.
func withoutDeathLimits(definitions []operation.Definition) []operation.Definition {
	for _, d := range definitions {
		for name, state := range d.States {
			state.MaxDeaths = 0
			d.States[name] = state
		}
	}
	return definitions
}

// mayFail reports whether operations of a definition can fail: whether a state has no MustSucceed.
func mayFail(d operation.Definition) bool {
	for _, state := range d.States {
		if !state.MustSucceed {
			return true
		}
	}
	return false
}

// maxSkew is the maximum error of a worker's clock.
const maxSkew = 20 * time.Second

// backoff waits before a table repeats a call, without randomness.
func backoff(ctx context.Context, attempt int) error {
	timer := time.NewTimer(10 * time.Millisecond << min(attempt, 6))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// random is a source of randomness for many goroutines.
type random struct {
	mu     sync.Mutex
	source *rand.ChaCha8
}

func (r *random) Read(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.source.Read(b)
}

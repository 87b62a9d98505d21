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

	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/operation"
	"github.com/gatewright/gatewright/shared/store"
)

// Worker is one process, as what runs in it sees it. When the scheduler kills
// it, its goroutines end at their next call, and no call of theirs has any
// effect.
type Worker struct {
	// Table is the product's table.
	Table *store.Table
	// Engine has the scenario's definitions; nil while they are made.
	Engine *operation.Engine
	// Random is the worker's randomness, the same in each repetition.
	Random io.Reader

	name     uint64
	skew     time.Duration
	sim      *simulation
	ctx      context.Context //nolint:containedctx // the process's life, which ends all that runs in it
	kill     context.CancelFunc
	dead     bool
	outage   int // how many of its next calls are refused
	frozen   int // how many turns its calls have to wait
	disturbs bool
}

// Now is the worker's clock, which may be wrong.
func (w *Worker) Now() time.Time { return time.Now().Add(w.skew) }

// Call makes a call to something outside the process that is not the table. It
// may fail as Unavailable, before or after f has run, and the worker may die.
func (w *Worker) Call(ctx context.Context, what string, f func() error) error {
	failed, err := w.do(ctx, what, false, f)
	if failed != proceed {
		return fault.New(fault.Unavailable, "simulated: %s has no answer", what)
	}
	return err
}

// ask makes a call to the table. What it answers of a failure is what DynamoDB's
// backend does: a call that was refused has had no effect; of one whose request or
// reply was lost, or for which the time has come to an end, this is not known.
func (w *Worker) ask(ctx context.Context, what string, own bool, f func() error) error {
	failed, err := w.do(ctx, what, own, f)
	switch failed {
	case refuse:
		return fmt.Errorf("%w: simulated: throttled", store.ErrRepeat)
	case loseCall, loseReply:
		return fmt.Errorf("%w: %w: simulated: the connection is broken", store.ErrRepeat, store.ErrLost)
	case proceed, dieBefore, dieAfter, freeze, decisions:
	}
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w: %w", store.ErrLost, err)
	}
	return err
}

// decision is what the scheduler makes of a call.
type decision int

const (
	proceed decision = iota
	refuse
	loseCall
	loseReply
	dieBefore
	dieAfter
	freeze // the scheduler's own: the call is decided about later
	decisions
)

func (f decision) String() string {
	return [...]string{"", " → refused", " → call lost", " → reply lost", " → dies before", " → dies after", " → freezes", ""}[f]
}

// call is a worker's request to go on.
type call struct {
	worker   *Worker
	activity int
	what     string
	own      bool // whether it is about operations' records alone
	decision chan decision
}

// activityKey has a context carry the number of the activity it belongs to.
type activityKey struct{}

// do has the scheduler decide about a call, and makes it. For a call that has no
// answer it gives the decision, proceed for others. own says that it is about
// operations' records alone.
func (w *Worker) do(ctx context.Context, what string, own bool, f func() error) (failed decision, err error) {
	if !w.disturbs {
		return proceed, f()
	}
	if err := ctx.Err(); err != nil && !w.isDead() {
		return proceed, fmt.Errorf("simulated: %s: %w", what, err)
	}
	fate := w.sim.decide(ctx, w, what, own)
	switch fate {
	case dieBefore:
		runtime.Goexit()
	case refuse, loseCall:
		return fate, nil
	case proceed, loseReply, dieAfter, freeze, decisions:
	}
	err = f()
	switch {
	case fate == dieAfter:
		runtime.Goexit()
	case fate == loseReply:
		return fate, nil
	case ctx.Err() != nil: // the answer came too late
		return proceed, fmt.Errorf("simulated: %s: %w", what, ctx.Err())
	}
	return proceed, err
}

func (w *Worker) isDead() bool {
	w.sim.mu.Lock()
	defer w.sim.mu.Unlock()
	return w.dead
}

// handle is a worker's way to the table.
type handle struct {
	w     *Worker
	inner store.Backend
}

var (
	_ store.Backend = handle{}
	_ store.Pager   = handle{}
)

func (h handle) Read(ctx context.Context, keys []store.Key) (items []store.Item, err error) {
	names, own := make([]string, len(keys)), true
	for i, k := range keys {
		names[i] = k.PK
		own = own && isOperation(k)
	}
	err = h.w.ask(ctx, "read "+strings.Join(names, ", "), own, func() (err error) {
		items, err = h.inner.Read(context.WithValue(ctx, readerKey{}, h.w), keys)
		return err
	})
	return items, err
}

// readerKey has the context of a read carry the worker that makes it.
type readerKey struct{}

// betweenItems is what happens in the middle of a torn read: whatever the scheduler
// chooses. A call that fails here has left keys unprocessed.
func betweenItems(ctx context.Context) error {
	w, _ := ctx.Value(readerKey{}).(*Worker)
	if w == nil {
		return nil
	}
	return w.ask(ctx, "read on", false, func() error { return nil })
}

func (h handle) Query(ctx context.Context, q store.Query) (items []store.Item, next string, err error) {
	err = h.w.ask(ctx, "query "+q.PK, q.Index == store.DueIndex, func() (err error) {
		items, next, err = h.inner.Query(ctx, q)
		return err
	})
	return items, next, err
}

// Page implements store.Pager, over a table that does.
func (h handle) Page(ctx context.Context, behind store.Key, limit int) (items []store.Item, last store.Key, err error) {
	pager, ok := h.inner.(store.Pager)
	if !ok {
		return nil, store.Key{}, errors.New("operationtest: the table gives no pages")
	}
	err = h.w.ask(ctx, "page behind "+behind.PK, false, func() (err error) {
		items, last, err = pager.Page(ctx, behind, limit)
		return err
	})
	return items, last, err
}

func (h handle) Transact(ctx context.Context, token string, writes []store.Write) error {
	own := !slices.ContainsFunc(writes, func(w store.Write) bool { return !isOperation(w.Key) })
	names := make([]string, 0, 4)
	for i, w := range writes {
		if i == 3 && len(writes) > 4 {
			names = append(names, fmt.Sprintf("%d more", len(writes)-i))
			break
		}
		names = append(names, fmt.Sprintf("%s %s %s", w.Kind, w.Key.PK, strings.TrimSuffix(w.Key.SK, ".")))
	}
	return h.w.ask(ctx, strings.Join(names, ", "), own, func() error {
		return h.inner.Transact(ctx, token, writes)
	})
}

func isOperation(k store.Key) bool {
	_, is := operation.IDOf(k)
	return is
}

// newWorker starts a process.
func (s *simulation) newWorker(disturbs bool) (*Worker, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.born++
	w := &Worker{name: s.born, sim: s, disturbs: disturbs}
	w.ctx, w.kill = context.WithCancel(s.ctx)
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], s.plan.seed)
	binary.LittleEndian.PutUint64(key[8:], w.name)
	w.Random = &random{source: rand.NewChaCha8(key)}
	if !s.plan.undisturbed && disturbs && s.rng.IntN(2) == 0 {
		w.skew = time.Duration(s.rng.Int64N(int64(2*maxSkew))) - maxSkew
	}
	slice := time.Duration(0)
	if !s.plan.undisturbed && s.rng.IntN(2) == 0 {
		slice = 100 * time.Millisecond
	}
	var backend store.Backend = handle{w, s.memory}
	if s.scenario.Sabotage != nil && disturbs {
		backend = s.scenario.Sabotage(backend)
	}
	w.Table = store.New(backend, store.Options{Random: w.Random, Now: w.Now, Pause: pause})
	var err error
	definitions := patient(s.scenario.Definitions(w))
	s.lasting = !slices.ContainsFunc(definitions, mayFail)
	w.Engine, err = operation.New(w.Table, definitions, operation.Options{
		Now: w.Now, Random: w.Random, Log: slog.New(slog.DiscardHandler),
		Jitter: func(limit time.Duration) time.Duration { return limit },
		Slice:  slice,
	})
	return w, err
}

// patient has no state give up after so many deaths (State.Deaths): a run kills
// more workers than such a state forgives, and then it is right that its outcome is
// another. That the bound holds is for the tests of operation and of the definitions.
func patient(definitions []operation.Definition) []operation.Definition {
	for _, d := range definitions {
		for name, state := range d.States {
			state.Deaths = 0
			d.States[name] = state
		}
	}
	return definitions
}

// mayFail reports whether operations of a definition may fail by themselves.
func mayFail(d operation.Definition) bool {
	for _, state := range d.States {
		if !state.Must {
			return true
		}
	}
	return false
}

// maxSkew is how wrong a worker's clock may be.
const maxSkew = 20 * time.Second

// pause waits between a table's repeats, without chance.
func pause(ctx context.Context, attempt int) error {
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

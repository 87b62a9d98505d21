package operation

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/telemetry"
)

// Options are what an Engine takes from outside.
type Options struct {
	// Now is the clock. It need not agree with other workers' clocks.
	Now func() time.Time
	// Random feeds the names of leases: crypto/rand.Reader outside tests.
	Random io.Reader
	// Log gets the causes of failures, which clients never see.
	Log *slog.Logger
	// Jitter picks a pause below limit, which is positive; nil picks at random.
	Jitter func(limit time.Duration) time.Duration
	// Slice is how long HandleStream and Sweep work on one operation before
	// they give it back, so that a long one keeps no other waiting; 0 means
	// 20 seconds. The stream brings it round again: the write that gives it
	// back, which is that of its last step, changes its record.
	//
	// A Lambda gets the next batch of a shard only when it has answered, so a
	// cascade that ran to its end would keep every build of the shard waiting.
	// A step for each stream record would be fair too, and cost an invocation
	// and a read each; a function for each operation, lost invocations.
	Slice time.Duration
	// Metrics names the installation, by its table, in the metrics of operations
	// that do not get on; "" for no metrics.
	Metrics string
	// Parallel is how many operations HandleStream and Sweep each advance at a
	// time; 0 means 8.
	Parallel int
}

const (
	// maxWait is the longest pause that a worker waits for itself; a longer
	// one it leaves to a sweep.
	maxWait = 2 * time.Second
	// retention is how long an ended operation stays readable.
	retention = 30 * 24 * time.Hour
)

// Engine advances operations. It keeps nothing between calls and is safe for
// concurrent use, in one process and in many.
type Engine struct {
	table       *store.Table
	definitions map[string]Definition
	ids         *ids.Source
	options     Options
}

// New makes an engine for the definitions. It refuses a definition in which an
// operation could get stuck, and two of the same kind.
func New(table *store.Table, definitions []Definition, o Options) (*Engine, error) {
	e := &Engine{table: table, definitions: map[string]Definition{}, options: o.filled()}
	e.ids = ids.NewSource(o.Random, o.Now)
	var errs []error
	for _, d := range definitions {
		if _, twice := e.definitions[d.Kind]; twice {
			errs = append(errs, fmt.Errorf("operation kind %q is defined twice", d.Kind))
		}
		errs = append(errs, d.validate())
		e.definitions[d.Kind] = d
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("define operations: %w", err)
	}
	return e, nil
}

func (o Options) filled() Options {
	if o.Slice == 0 {
		o.Slice = 20 * time.Second
	}
	if o.Parallel == 0 {
		o.Parallel = 8
	}
	if o.Jitter == nil {
		o.Jitter = func(limit time.Duration) time.Duration {
			return rand.N(limit) //nolint:gosec // G404: jitter is no secret
		}
	}
	return o
}

func (e *Engine) now() time.Time { return e.options.Now() }

// Read returns an operation's record, store.ErrNotFound for none.
func (e *Engine) Read(ctx context.Context, id string) (Record, error) {
	var r Record
	if err := e.table.Get(ctx, Key(id), &r); err != nil {
		return Record{}, fmt.Errorf("read operation %s: %w", id, err)
	}
	return r, nil
}

// Run advances an operation until it ends, has to wait longer than a worker's
// patience, is another worker's, or ctx is about to end. It answers the record
// as it is then; that it has not ended is no error. An error means that the
// store did not answer: the operation goes on later.
func (e *Engine) Run(ctx context.Context, id string) (Record, error) {
	return e.run(ctx, id, time.Time{})
}

func (e *Engine) run(ctx context.Context, id string, until time.Time) (Record, error) {
	r, err := e.Read(ctx, id)
	if err != nil {
		return Record{}, err
	}
	return e.work(ctx, r, e.ids.New("work", 16), until)
}

// work advances r under the name owner until there is nothing left for it to
// do, or the time until has come (zero for no such time).
func (e *Engine) work(ctx context.Context, r Record, owner string, until time.Time) (Record, error) {
	if r.Ended() {
		return r, nil
	}
	var version int64
	for !r.Ended() {
		version = r.Version
		d, known := e.definitionOf(ctx, r)
		if !known {
			return r, nil
		}
		stop := e.mustStop(ctx, until)
		var err error
		switch mine := r.Lease != nil && r.Lease.Owner == owner; {
		case mine && stop:
			r, err = e.release(ctx, r)
			if err != nil {
				return r, err
			}
			return r, nil
		case mine:
			r, err = e.step(ctx, d, r, until)
		case stop:
			return r, nil
		default:
			wait := r.DueOn.Sub(e.now())
			if wait > 0 && (r.Lease != nil || wait > maxWait) {
				return r, nil
			}
			if wait > 0 && !slept(ctx, wait) {
				return r, nil
			}
			r, err = e.acquire(ctx, d, r, owner)
		}
		if err != nil {
			return r, err
		}
	}
	if r.Version != version+1 {
		return r, nil // it was ended by another worker, which tells
	}
	fields := []any{
		"operation", r.ID, "kind", r.Kind,
		"subject", r.Subject, "status", string(r.Status), "state", r.State, "steps", r.Steps, "latency", telemetry.Milliseconds(r.FinishedOn.Sub(r.CreatedOn)),
	}
	if r.Message != "" {
		fields = append(fields, "message", r.Message) // what clients read
	}
	e.options.Log.InfoContext(ctx, "an operation has ended", fields...)
	return r, nil
}

// definitionOf finds the definition that r is a case of. An older release may
// meet operations, or states, that only a newer one knows: it leaves them.
func (e *Engine) definitionOf(ctx context.Context, r Record) (Definition, bool) {
	d, known := e.definitions[r.Kind]
	if known && r.State != "" {
		_, known = d.States[r.State]
	}
	if !known {
		e.options.Log.WarnContext(ctx, "an operation is left alone: this release does not know its kind or state",
			"operation", r.ID, "kind", r.Kind, "state", r.State)
	}
	return d, known
}

const (
	// commitTimeout is how long a commit, or the read after it, may take, whether or
	// not the context has ended. So much of a context's time is kept for it.
	commitTimeout = 4 * time.Second
	// minStepTime is how much time a step needs to be worth beginning.
	minStepTime = 2 * time.Second
)

// mustStop reports whether it is too late for another step.
func (e *Engine) mustStop(ctx context.Context, until time.Time) bool {
	if ctx.Err() != nil {
		return true
	}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < commitTimeout+minStepTime {
		return true
	}
	return !until.IsZero() && !e.now().Before(until)
}

// leaseMargin is how much longer than a step's timeout its lease is: the time
// for a commit and the read after it, and for clocks that differ a little.
//
// Leases outlast a step instead of being renewed. A heartbeat would need a
// goroutine, a write every few seconds and two writers of one record in one
// process, and would go on while the task hangs; and since sweeps run once a
// minute (no schedule of AWS is shorter), it would replace a dead worker hardly
// sooner. The price: a dead worker costs its operation the rest of the step's
// timeout, this margin and up to a minute, so long work is cut into steps.
const leaseMargin = 10 * time.Second

// maxInterruptions is how often one step may end without a result through no
// fault of its task (its worker died, the store did not answer) before the
// task is held to be the cause; not where it must happen.
const maxInterruptions = 50

// acquire takes a record that is nobody's, or whose lease is over.
func (e *Engine) acquire(ctx context.Context, d Definition, r Record, owner string) (Record, error) {
	now := e.now()
	next := r.changed(now)
	if next.State == "" {
		next.State = d.First
	}
	if r.Lease != nil {
		next.Interruptions++
		next.Deaths++
		next.noteFailure("The worker stopped in the middle; another has taken over.")
	}
	switch state := d.States[next.State]; {
	case state.Deaths > 0 && next.Deaths >= state.Deaths:
		return e.commit(ctx, r, e.exhausted(ctx, d, next, errDied, now), nil)
	case state.Must && r.Lease != nil && next.Interruptions >= alarmAfter:
		// It may be what kills its workers: they have a rest between two of them.
		e.delayed(ctx, d, next, errInterrupted)
		next.suspend(now.Add(e.options.Jitter(state.retry().pause(next.Interruptions))))
		return e.commit(ctx, r, next, nil)
	case !state.Must && next.Interruptions >= maxInterruptions:
		return e.commit(ctx, r, e.exhausted(ctx, d, next, errInterrupted, now), nil)
	}
	next.lease(owner, now, now.Add(d.States[next.State].timeout()+leaseMargin))
	return e.commit(ctx, r, next, nil)
}

// release gives a leased record back before its step was tried.
func (e *Engine) release(ctx context.Context, r Record) (Record, error) {
	next := r.changed(e.now())
	next.Attempt--
	next.History[len(next.History)-1].Attempts--
	next.suspend(next.UpdatedOn)
	return e.commit(ctx, r, next, nil)
}

// commit replaces r by next, together with writes, and answers the record as
// it is stored then. Where the commit failed because the record has moved on,
// or its outcome is not known, that is what a second look finds: the caller
// goes on from there. The error means that nothing was committed, or that the
// store does not answer.
func (e *Engine) commit(ctx context.Context, r, next Record, writes []store.Write) (Record, error) {
	lasting := context.WithoutCancel(ctx)
	committing, cancel := context.WithTimeout(lasting, commitTimeout)
	defer cancel()
	err := e.table.Commit(committing, append([]store.Write{next.put(r.Version)}, writes...)...)
	if err == nil {
		return next, nil
	}
	reading, cancel := context.WithTimeout(lasting, commitTimeout)
	defer cancel()
	stored, readErr := e.Read(reading, r.ID)
	if readErr != nil {
		return r, errors.Join(err, readErr)
	}
	if stored.Version == r.Version {
		return r, err
	}
	return stored, nil
}

// slept waits for d and reports whether ctx lasted so long.
func slept(ctx context.Context, d time.Duration) bool { return sleep(ctx, d) == nil }

// sleep waits for d, or answers the context's error.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

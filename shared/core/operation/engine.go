package operation

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/base/telemetry"
	"github.com/gatewright/gatewright/shared/core/store"
)

// Options configure an Engine.
type Options struct {
	// Now is the clock. It does not have to agree with other workers' clocks.
	Now func() time.Time
	// Random is the source of the random IDs of lease owners. Use crypto/rand.Reader outside tests.
	Random io.Reader
	// Log receives the causes of failures, which clients never see.
	Log *slog.Logger
	// Jitter returns a pause below limit. limit is positive. If Jitter is nil, pauses are random.
	Jitter func(limit time.Duration) time.Duration
	// Slice is the time for which HandleStream and Sweep work on one operation before they release it,
	// so that a long operation does not delay others; 0 means 20 seconds. The write that releases the
	// operation changes its record, so the stream then delivers the operation again.
	//
	// A Lambda receives the next batch of a shard only after it has returned. If a cascade ran to its end, every
	// build of the shard would wait. One step per stream record would be fair too, but each step would cost an
	// invocation and a read. A separate invocation for each operation would need a way to recover lost invocations.
	Slice time.Duration
	// MetricsTable is the name of the table, which identifies the installation
	// in the metrics of stuck operations. "" disables these metrics.
	MetricsTable string
	// Parallel is the maximum number of operations that HandleStream and Sweep each advance concurrently; 0 means 8.
	Parallel int
}

const (
	// maxWait is the longest pause after which a worker continues the
	// operation itself. After a longer pause a sweep continues it.
	maxWait = 2 * time.Second
	// recordRetention is how long an ended operation stays readable.
	recordRetention = 30 * 24 * time.Hour
)

// Engine advances operations. It is stateless between calls and safe for concurrent use, in one process and in many.
type Engine struct {
	table       *store.Table
	definitions map[string]Definition
	ids         *ids.Source
	options     Options
}

// New returns an engine for the definitions. It returns an error for a definition
// that could get an operation stuck, and for two definitions of the same kind.
func New(table *store.Table, definitions []Definition, o Options) (*Engine, error) {
	e := &Engine{table: table, definitions: map[string]Definition{}, options: o.withDefaults()}
	e.ids = ids.NewSource(o.Random, o.Now)
	var errs []error
	for _, d := range definitions {
		if _, duplicate := e.definitions[d.Kind]; duplicate {
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

func (o Options) withDefaults() Options {
	if o.Slice == 0 {
		o.Slice = 20 * time.Second
	}
	if o.Parallel == 0 {
		o.Parallel = 8
	}
	if o.Jitter == nil {
		o.Jitter = func(limit time.Duration) time.Duration {
			return rand.N(limit) //nolint:gosec // G404: jitter is not secret
		}
	}
	return o
}

func (e *Engine) now() time.Time { return e.options.Now() }

// Read returns an operation's record, or store.ErrNotFound if it does not exist.
func (e *Engine) Read(ctx context.Context, id string) (Record, error) {
	var r Record
	if err := e.table.Get(ctx, Key(id), &r); err != nil {
		return Record{}, fmt.Errorf("read operation %s: %w", id, err)
	}
	return r, nil
}

// Run advances an operation until it ends, has to wait longer than maxWait, belongs to another worker, or ctx
// is about to end. It does not advance an operation whose kind or state only a newer release knows. It returns
// the latest record. An operation that has not ended is not an error. store.ErrNotFound means that there is no
// such operation. Any other error means that the store was unavailable: the operation continues later.
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

// work advances r as Run describes. Its leases have the given owner. until is the time after which work starts no
// further step. If until is zero, there is no such time.
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
		switch owned := r.Lease != nil && r.Lease.Owner == owner; {
		case owned && stop:
			r, err = e.release(ctx, r)
			if err != nil {
				return r, err
			}
			return r, nil
		case owned:
			r, err = e.step(ctx, d, r, until)
		case stop:
			return r, nil
		default:
			wait := r.DueOn.Sub(e.now())
			if wait > 0 && (r.Lease != nil || wait > maxWait) {
				return r, nil
			}
			if wait > 0 && !sleepCompleted(ctx, wait) {
				return r, nil
			}
			r, err = e.acquire(ctx, d, r, owner)
		}
		if err != nil {
			return r, err
		}
	}
	if r.Version != version+1 {
		return r, nil // another worker has ended the operation and logs it
	}
	fields := []any{
		"operation", r.ID, "kind", r.Kind,
		"subject", r.Subject, "status", string(r.Status), "state", r.State, "steps", r.Steps, "latency",
		telemetry.Milliseconds(r.FinishedOn.Sub(r.CreatedOn)),
	}
	if r.Message != "" {
		fields = append(fields, "message", r.Message) // the text that clients read
	}
	e.options.Log.InfoContext(ctx, "an operation has ended", fields...)
	return r, nil
}

// definitionOf returns the definition of r, and reports whether this release knows r's kind and state.
// Operations with a kind or state that only a newer release knows must not be changed.
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
	// commitTimeout is the timeout of a commit, and also the timeout of the read after a failed commit. Both continue even
	// if the context has ended. mustStop reserves time for the commit before the context's deadline, but not for the read.
	commitTimeout = 4 * time.Second
	// minStepTime is the minimum remaining time for beginning a step.
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

// leaseMargin is how much longer a lease is than the timeout of its step. It is the
// time for a commit and the read after it, and for small differences between clocks.
//
// Leases outlast a step instead of being renewed. A heartbeat would need a goroutine, a write
// every few seconds and two writers of one record in one process, and would continue while the
// task hangs. And because sweeps run once a minute (AWS has no shorter schedule), a dead worker
// would hardly be replaced sooner. The cost: when a worker dies, its operation waits for the rest
// of the step's timeout, this margin and up to a minute. So long work is divided into steps.
const leaseMargin = 10 * time.Second

// maxInterruptions is the number of times that one step can end without a result for reasons outside its task (its worker
// died, the store was unavailable). After that the task is assumed to be the cause. States with MustSucceed have no such limit.
const maxInterruptions = 50

// acquire takes a record that has no lease or whose lease has expired. If the step was
// interrupted too often, acquire suspends the operation or ends the step with a failure instead.
func (e *Engine) acquire(ctx context.Context, d Definition, r Record, owner string) (Record, error) {
	now := e.now()
	next := r.changed(now)
	if next.State == "" {
		next.State = d.First
	}
	if r.Lease != nil {
		next.Interruptions++
		next.Deaths++
		next.recordFailure("The worker stopped in the middle; another has taken over.")
	}
	switch state := d.States[next.State]; {
	case state.MaxDeaths > 0 && next.Deaths >= state.MaxDeaths:
		return e.commit(ctx, r, e.afterLastFailure(ctx, d, next, errDied, now), nil)
	case state.MustSucceed && r.Lease != nil && next.Interruptions >= alarmAfter:
		// The operation may kill its workers, so pause before the next worker takes it.
		e.logRetry(ctx, d, next, errInterrupted)
		next.suspend(now.Add(e.options.Jitter(state.retry().delay(next.Interruptions))))
		return e.commit(ctx, r, next, nil)
	case !state.MustSucceed && next.Interruptions >= maxInterruptions:
		return e.commit(ctx, r, e.afterLastFailure(ctx, d, next, errInterrupted, now), nil)
	}
	next.lease(owner, now, now.Add(d.States[next.State].timeout()+leaseMargin))
	return e.commit(ctx, r, next, nil)
}

// release removes the lease of a record whose step has not begun.
func (e *Engine) release(ctx context.Context, r Record) (Record, error) {
	next := r.changed(e.now())
	next.Attempt--
	next.History[len(next.History)-1].Attempts--
	next.suspend(next.UpdatedOn)
	return e.commit(ctx, r, next, nil)
}

// commit replaces r by next, together with writes, and returns next. If this fails, commit reads the record again. If
// the record has changed (another worker has changed it, or the commit succeeded and only its reply was lost), commit
// returns the stored record without an error, and the caller continues from there. Otherwise commit returns an error.
func (e *Engine) commit(ctx context.Context, r, next Record, writes []store.Write) (Record, error) {
	detached := context.WithoutCancel(ctx)
	commitCtx, cancel := context.WithTimeout(detached, commitTimeout)
	defer cancel()
	err := e.table.Commit(commitCtx, append([]store.Write{next.put(r.Version)}, writes...)...)
	if err == nil {
		return next, nil
	}
	readCtx, cancel := context.WithTimeout(detached, commitTimeout)
	defer cancel()
	stored, readErr := e.Read(readCtx, r.ID)
	if readErr != nil {
		return r, errors.Join(err, readErr)
	}
	if stored.Version == r.Version {
		return r, err
	}
	return stored, nil
}

// sleepCompleted waits for d and reports whether ctx lasted that long.
func sleepCompleted(ctx context.Context, d time.Duration) bool { return sleep(ctx, d) == nil }

// sleep waits for d, or returns the context's error when ctx ends.
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

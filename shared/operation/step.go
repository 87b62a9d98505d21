package operation

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/telemetry"
)

// Step is what a task knows about the run it is in.
type Step struct {
	ID, Kind, Subject, AccountID string
	// State is the one whose task runs.
	State string
	// Number counts the operation's steps before this one. It is the same in
	// every attempt at this step and in no other step.
	Number int
	// Attempt counts the runs of this step, from 1. Beyond 1, effects outside
	// the table may be there already.
	Attempt int
	// CreatedOn is when the operation was begun, Now when this attempt was.
	CreatedOn, Now time.Time
	// Caught is the public text of the failure that led to a catching state.
	Caught string

	input, data document
	cursor      string
}

// Input reads what the operation was begun with into a pointer.
func (s Step) Input(into any) error {
	if err := s.input.decode(into); err != nil {
		return fmt.Errorf("read the input of %s: %w", s.Kind, err)
	}
	return nil
}

// Data reads what the last task that set Result.Data has left into a pointer,
// which stays as it is when there was none.
func (s Step) Data(into any) error {
	if err := s.data.decode(into); err != nil {
		return fmt.Errorf("read the data of %s: %w", s.Kind, err)
	}
	return nil
}

func stepOf(r Record, now time.Time) Step {
	s := Step{
		ID: r.ID, Kind: r.Kind, Subject: r.Subject, AccountID: r.AccountID,
		State: r.State, Number: r.Steps, Attempt: r.Attempt,
		CreatedOn: r.CreatedOn, Now: instant(now),
		input: r.Input, data: r.Data, cursor: r.Cursor,
	}
	if r.Details != "" {
		s.Caught = r.Message
	}
	return s
}

var (
	errTimeout     = errors.New("operation: the step's time is over")
	errStopped     = errors.New("operation: the worker's time is over")
	errInterrupted = errors.New("operation: the step was interrupted too often")
	errDied        = errors.New("operation: the step's workers have ended in the middle of it")
	errBadResult   = errors.New("operation: a task's result is not possible")
)

// step runs the task of a leased record once and commits what it answered.
func (e *Engine) step(ctx context.Context, d Definition, r Record, until time.Time) (Record, error) {
	result, err := e.attempt(ctx, d.States[r.State], r)
	if err == nil {
		var next Record
		if next, err = e.advanced(ctx, d, r, result, until); err == nil {
			var stored Record
			if stored, err = e.commit(ctx, r, next, result.Writes); err == nil {
				return stored, nil
			}
		}
	}
	return e.commit(ctx, r, e.failed(ctx, d, r, err), nil)
}

// attempt runs the task within its timeout. A panic is a failure of the task.
func (e *Engine) attempt(ctx context.Context, s State, r Record) (result Result, err error) {
	limit, cause := s.timeout(), errTimeout
	if deadline, ok := ctx.Deadline(); ok {
		if left := time.Until(deadline) - commitTimeout; left < limit {
			limit, cause = left, errStopped
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, cause)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the task panicked: %v\n%s", p, debug.Stack())
		}
	}()
	result, err = s.Task(ctx, stepOf(r, e.now()))
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return result, err
}

// advanced returns the record after a successful step.
func (e *Engine) advanced(ctx context.Context, d Definition, r Record, result Result, until time.Time) (Record, error) {
	now := e.now()
	state := d.States[r.State]
	target := state.Next
	switch {
	case result.Again:
		target = r.State
	case result.Next != "":
		target = result.Next
		if target != state.Next && !slices.Contains(state.Or, target) {
			return r, fmt.Errorf("%w: state %q does not lead to %q", errBadResult, r.State, target)
		}
	}
	if len(result.Writes) > MaxWrites {
		return r, fmt.Errorf("%w: %d writes, at most %d", errBadResult, len(result.Writes), MaxWrites)
	}
	next := r.changed(now)
	if result.Data != nil {
		data, err := r.Data.replaced(result.Data)
		if err != nil {
			return r, fmt.Errorf("%w: data: %w", errBadResult, err)
		}
		next.Data = data
	}
	if result.cursor != "" {
		next.Cursor = result.cursor
	}
	if result.Message != "" {
		next.Message, next.Details = clip(result.Message), ""
	}
	e.moved(&next, target, now)
	if next.Ended() {
		return next, nil
	}
	if owner := r.Lease.Owner; result.After <= 0 && !e.mustStop(ctx, until) {
		next.lease(owner, now, now.Add(d.States[target].timeout()+leaseMargin))
	} else {
		next.suspend(now.Add(max(0, result.After)))
	}
	return next, nil
}

// moved takes next to a state or to its end.
func (e *Engine) moved(next *Record, target string, now time.Time) {
	switch target {
	case Succeed:
		if next.Details != "" { // a failure that was caught and made good
			next.Message, next.Details = "", ""
		}
		next.enter(next.State, now)
		next.finish(Success, now)
	case Fail:
		if next.Details == "" {
			next.Details = next.where()
		}
		next.enter(next.State, now)
		next.finish(Failure, now)
	default:
		next.enter(target, now)
	}
}

// failed returns the record after a failed attempt: a pause before the next one,
// or the state that catches it.
func (e *Engine) failed(ctx context.Context, d Definition, r Record, err error) Record {
	now := e.now()
	next := r.changed(now)
	next.noteFailure(publicText(err))
	state := d.States[r.State]
	retry := state.retry()
	var pause time.Duration
	class := classify(ctx, err)
	if class == permanent && state.Must {
		class = retryable // for us, by the next release, and not for its client
	}
	switch class {
	case interrupted:
		next.Interruptions++
		// Another worker need not wait for one that has to go, unless all have to.
		if !mustYield(ctx, err) || next.Interruptions >= alarmAfter {
			pause = retry.pause(next.Interruptions)
		}
		if !state.Must && next.Interruptions >= maxInterruptions {
			return e.exhausted(ctx, d, next, err, now)
		}
	case retryable:
		next.Failures++
		pause = retry.pause(next.Failures)
		if !state.Must && next.Failures >= retry.attempts() {
			return e.exhausted(ctx, d, next, err, now)
		}
	case permanent:
		return e.exhausted(ctx, d, next, err, now)
	}
	e.delayed(ctx, d, next, err)
	if pause > 0 {
		pause = e.options.Jitter(pause)
	}
	next.suspend(now.Add(pause))
	return next
}

// delayed logs that a step is tried again. One that must happen, and has not for
// long, rings the alarm with each further attempt.
func (e *Engine) delayed(ctx context.Context, d Definition, next Record, err error) {
	fields := []any{
		"operation", next.ID, "kind", d.Kind, "subject", next.Subject, "state", next.State, "attempt", next.Attempt, "cause", err,
	}
	if !d.States[next.State].Must || next.Failures+next.Interruptions < alarmAfter {
		e.options.Log.WarnContext(ctx, "a step of an operation is tried again", fields...)
		return
	}
	if e.options.Metrics != "" {
		fields = append(fields, "table", e.options.Metrics, telemetry.StuckOperations, 1, telemetry.Count(e.now(), telemetry.StuckOperations, "table"))
	}
	e.options.Log.ErrorContext(ctx, "an operation that must happen does not get on", fields...)
}

// exhausted returns the record after the last failed attempt at a step.
func (e *Engine) exhausted(ctx context.Context, d Definition, next Record, err error, now time.Time) Record {
	next.Message, next.Details = publicText(err), next.where()
	next.noteFailure(next.Message)
	e.options.Log.ErrorContext(ctx, "a step of an operation has failed", "operation", next.ID, "kind", d.Kind,
		"subject", next.Subject, "state", next.State, "attempt", next.Attempt, "cause", err)
	e.moved(&next, d.States[next.State].catch(), now)
	if !next.Ended() {
		next.suspend(now)
	}
	return next
}

// failureClass is what an error of a step means for the next attempt.
type failureClass int

const (
	retryable   failureClass = iota
	interrupted              // no fault of the task
	permanent                // another attempt would fail in the same way
)

func classify(ctx context.Context, err error) failureClass {
	if errors.Is(err, errBadResult) {
		return permanent
	}
	if mustYield(ctx, err) || errors.Is(err, store.ErrRepeat) {
		return interrupted
	}
	switch fault.KindOf(err) {
	case fault.Throttled, fault.Unavailable, fault.Unanswered:
		return interrupted
	case fault.Internal:
		return retryable
	case fault.Invalid, fault.Unauthenticated, fault.Forbidden, fault.NotFound,
		fault.Conflict, fault.Unprocessable, fault.Outdated, fault.TooLarge:
		return permanent
	}
	return retryable
}

// mustYield reports whether a step failed because its worker has to stop.
func mustYield(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, errStopped)
}

// publicText is what clients may read of an error.
func publicText(err error) string {
	if f, ok := errors.AsType[*fault.Fault](err); ok {
		return clip(f.Public)
	}
	switch {
	case errors.Is(err, errTimeout):
		return "The work took longer than it may."
	case errors.Is(err, errDied):
		return "The work was given up: whatever began it ended in the middle, again and again. It may need more memory or time than there is."
	case errors.Is(err, errStopped), errors.Is(err, errInterrupted):
		return "The work was interrupted."
	}
	return "An internal error stopped the work. The service's log has the cause under the operation's id."
}

// clip bounds a text for clients, at a rune's edge.
func clip(text string) string {
	const most = 1000
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

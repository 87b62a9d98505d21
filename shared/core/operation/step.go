package operation

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/base/telemetry"
	"github.com/gatewright/gatewright/shared/core/store"
)

// Step describes the current step to its task.
type Step struct {
	ID, Kind, Subject, AccountID string
	// State is the current state.
	State string
	// Number is the number of the operation's earlier steps. It is the same in every attempt at this step and in no other step.
	Number int
	// Attempt is the number of the current run of this step, from 1. If it is
	// greater than 1, effects outside the table may exist already.
	Attempt int
	// CreatedOn is when the operation began. Now is when this attempt began.
	CreatedOn, Now time.Time
	// CaughtMessage is the public text of the failure that led to a state of State.Catch. It is set in the
	// catching state and in the states after it, until a Result has a Message. It is "" otherwise.
	CaughtMessage string

	input, data document
	cursor      string
}

// Input decodes the operation's input into a pointer.
func (s Step) Input(target any) error {
	if err := s.input.decode(target); err != nil {
		return fmt.Errorf("read the input of %s: %w", s.Kind, err)
	}
	return nil
}

// Data decodes the last Result.Data of a task into a pointer. It does not change the target if there was no data.
func (s Step) Data(target any) error {
	if err := s.data.decode(target); err != nil {
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
		s.CaughtMessage = r.Message
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

// step runs the task of a leased record once and commits its result.
func (e *Engine) step(ctx context.Context, d Definition, r Record, until time.Time) (Record, error) {
	result, err := e.attempt(ctx, d.States[r.State], r)
	if err == nil {
		var next Record
		if next, err = e.afterSuccess(ctx, d, r, result, until); err == nil {
			var stored Record
			if stored, err = e.commit(ctx, r, next, result.Writes); err == nil {
				return stored, nil
			}
		}
	}
	return e.commit(ctx, r, e.afterFailure(ctx, d, r, err), nil)
}

// attempt runs the task within its timeout. A panic counts as a failure of the task.
func (e *Engine) attempt(ctx context.Context, s State, r Record) (result Result, err error) {
	limit, cause := s.timeout(), errTimeout
	if deadline, ok := ctx.Deadline(); ok {
		if remaining := time.Until(deadline) - commitTimeout; remaining < limit {
			limit, cause = remaining, errStopped
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

// afterSuccess returns the record after a successful step, or errBadResult if the task's result is invalid.
func (e *Engine) afterSuccess(
	ctx context.Context, d Definition, r Record, result Result, until time.Time,
) (Record, error) {
	now := e.now()
	state := d.States[r.State]
	target := state.Next
	switch {
	case result.Repeat:
		target = r.State
	case result.Next != "":
		target = result.Next
		if target != state.Next && !slices.Contains(state.Alternatives, target) {
			return r, fmt.Errorf("%w: state %q does not lead to %q", errBadResult, r.State, target)
		}
	}
	if len(result.Writes) > MaxWrites {
		return r, fmt.Errorf("%w: %d writes, at most %d", errBadResult, len(result.Writes), MaxWrites)
	}
	next := r.changed(now)
	if result.Data != nil {
		data, err := r.Data.replaceWith(result.Data)
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
	e.moveTo(&next, target, now)
	if next.Ended() {
		return next, nil
	}
	if owner := r.Lease.Owner; result.Delay <= 0 && !e.mustStop(ctx, until) {
		next.lease(owner, now, now.Add(d.States[target].timeout()+leaseMargin))
	} else {
		next.suspend(now.Add(max(0, result.Delay)))
	}
	return next, nil
}

// moveTo changes a record to the state called target. If target is Succeed or Fail, it ends the record's operation
// instead. next is the record to change.
func (e *Engine) moveTo(next *Record, target string, now time.Time) {
	switch target {
	case Succeed:
		if next.Details != "" { // a failure that was caught and repaired
			next.Message, next.Details = "", ""
		}
		next.enter(next.State, now)
		next.finish(Success, now)
	case Fail:
		if next.Details == "" {
			next.Details = next.failureLocation()
		}
		next.enter(next.State, now)
		next.finish(Failure, now)
	default:
		next.enter(target, now)
	}
}

// afterFailure returns the record after a failed attempt: it is suspended until the next attempt,
// or in the state that catches the failure, or ended with status error.
func (e *Engine) afterFailure(ctx context.Context, d Definition, r Record, err error) Record {
	now := e.now()
	next := r.changed(now)
	next.recordFailure(publicText(err))
	state := d.States[r.State]
	retry := state.retry()
	var delay time.Duration
	class := classify(ctx, err)
	if class == permanent && state.MustSucceed {
		class = retryable // a state with MustSucceed never fails: a later release may fix the cause
	}
	switch class {
	case interrupted:
		next.Interruptions++
		// If this worker only has to stop, the next worker does not have to wait, unless too many workers were interrupted.
		if !mustYield(ctx, err) || next.Interruptions >= alarmAfter {
			delay = retry.delay(next.Interruptions)
		}
		if !state.MustSucceed && next.Interruptions >= maxInterruptions {
			return e.afterLastFailure(ctx, d, next, err, now)
		}
	case retryable:
		next.Failures++
		delay = retry.delay(next.Failures)
		if !state.MustSucceed && next.Failures >= retry.attempts() {
			return e.afterLastFailure(ctx, d, next, err, now)
		}
	case permanent:
		return e.afterLastFailure(ctx, d, next, err, now)
	}
	e.logRetry(ctx, d, next, err)
	if delay > 0 {
		delay = e.options.Jitter(delay)
	}
	next.suspend(now.Add(delay))
	return next
}

// logRetry logs that a step will be repeated. For a state with
// MustSucceed, it raises the alarm from the attempt alarmAfter on.
func (e *Engine) logRetry(ctx context.Context, d Definition, next Record, err error) {
	fields := []any{
		"operation", next.ID, "kind", d.Kind, "subject", next.Subject, "state", next.State, "attempt", next.Attempt, "cause",
		err,
	}
	if !d.States[next.State].MustSucceed || next.Failures+next.Interruptions < alarmAfter {
		e.options.Log.WarnContext(ctx, "a step of an operation is tried again", fields...)
		return
	}
	if e.options.MetricsTable != "" {
		fields = append(fields, "table", e.options.MetricsTable, telemetry.StuckOperations, 1,
			telemetry.Count(e.now(), telemetry.StuckOperations, "table"))
	}
	e.options.Log.ErrorContext(ctx, "an operation that must happen does not get on", fields...)
}

// afterLastFailure returns the record after the last failed attempt at a step.
func (e *Engine) afterLastFailure(ctx context.Context, d Definition, next Record, err error, now time.Time) Record {
	next.Message, next.Details = publicText(err), next.failureLocation()
	next.recordFailure(next.Message)
	e.options.Log.ErrorContext(ctx, "a step of an operation has failed", "operation", next.ID, "kind", d.Kind,
		"subject", next.Subject, "state", next.State, "attempt", next.Attempt, "cause", err)
	e.moveTo(&next, d.States[next.State].catch(), now)
	if !next.Ended() {
		next.suspend(now)
	}
	return next
}

// failureClass is the effect of a step's error on the next attempt.
type failureClass int

const (
	retryable   failureClass = iota
	interrupted              // the attempt ended for a reason outside the task
	permanent                // another attempt would fail in the same way
)

func classify(ctx context.Context, err error) failureClass {
	if errors.Is(err, errBadResult) {
		return permanent
	}
	if mustYield(ctx, err) || errors.Is(err, store.ErrRetryable) {
		return interrupted
	}
	switch fault.KindOf(err) {
	case fault.Throttled, fault.Unavailable, fault.DatabaseUnavailable:
		return interrupted
	case fault.Internal:
		return retryable
	case fault.Invalid, fault.Unauthenticated, fault.Forbidden, fault.NotFound,
		fault.Conflict, fault.Unprocessable, fault.PreconditionFailed, fault.TooLarge:
		return permanent
	}
	return retryable
}

// mustYield reports whether a step failed because its worker has to stop.
func mustYield(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, errStopped)
}

// publicText returns the text of an error for clients.
func publicText(err error) string {
	if f, ok := errors.AsType[*fault.Fault](err); ok {
		return clip(f.Public)
	}
	switch {
	case errors.Is(err, errTimeout):
		return "The work took longer than it may."
	case errors.Is(err, errDied):
		return "The work was given up: whatever began it ended in the middle, again and again. It may need more memory or " +
			"time than there is."
	case errors.Is(err, errStopped), errors.Is(err, errInterrupted):
		return "The work was interrupted."
	}
	return "An internal error stopped the work. The service's log has the cause under the operation's id."
}

// clip shortens a text for clients to about 1,000 bytes. It cuts only between characters.
func clip(text string) string {
	const limit = 1000
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "…"
}

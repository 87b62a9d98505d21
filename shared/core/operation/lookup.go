package operation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/store"
)

// List returns the operations that have not ended, sorted by the number of unsuccessful attempts
// (most first) and then by age (oldest first). It is for operators: it reads all of these operations.
func (e *Engine) List(ctx context.Context) ([]Record, error) {
	var found []Record
	for shard := range dueShards {
		keys, err := e.table.Keys(ctx, store.Query{Index: store.DueIndex, PK: duePartition(shard)})
		if err != nil {
			return nil, fmt.Errorf("list operations: %w", err)
		}
		for _, k := range keys {
			id, ok := IDOf(k)
			if !ok {
				continue
			}
			r, err := e.Read(ctx, id)
			if errors.Is(err, store.ErrNotFound) || err == nil && r.Ended() {
				continue // the operation has ended meanwhile
			}
			if err != nil {
				return nil, err
			}
			found = append(found, r)
		}
	}
	slices.SortStableFunc(found, func(a, b Record) int {
		if n := b.FailedAttempts() - a.FailedAttempts(); n != 0 {
			return n
		}
		return a.CreatedOn.Compare(b.CreatedOn)
	})
	return found, nil
}

// FailedAttempts returns the number of unsuccessful attempts at the current step.
func (r Record) FailedAttempts() int { return r.Failures + r.Interruptions }

// maxDueDelay is the maximum time for which an operation is due
// without a worker if sweeps work: the interval of two sweeps.
const maxDueDelay = 2 * time.Minute

// IsLate reports whether an operation does not progress as it should: the current step had
// unsuccessful attempts, or the operation has been due (or its worker's lease has been over)
// for longer than two sweeps. An operation that is planned for a later time is not late.
// The result is meaningless for an operation that has ended.
func (r Record) IsLate(now time.Time) bool {
	return r.FailedAttempts() > 0 || now.Sub(r.DueOn) > maxDueDelay
}

// LastFailure returns the public text of the last failure in the last entry of the history, "" if there was
// none. Between two states, this is still the entry of the earlier state.
func (r Record) LastFailure() string {
	if n := len(r.History); n > 0 {
		return r.History[n-1].Message
	}
	return ""
}

// Resume makes an operation due immediately and resets its pauses. Call it after the cause of the
// operation's failures is fixed. Resume also continues a failed operation where it stopped, if its state has
// MustSucceed: the state could fail in an earlier release, which has ended the operation. If the operation
// cannot be resumed, or a worker is running it, Resume returns a fault with the reason and changes nothing.
// Resume does not run the operation, so it is safe at any time and can be repeated.
func (e *Engine) Resume(ctx context.Context, id string) (Record, error) {
	r, err := e.Read(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return Record{},
			fault.New(fault.NotFound, "There is no operation of this id; those that have ended are kept for 30 days.")
	}
	if err != nil {
		return Record{}, err
	}
	now := e.now()
	d, known := e.definitionOf(ctx, r)
	switch {
	case r.Status == Success:
		return r, fault.New(fault.Conflict, "The operation has succeeded; there is nothing to resume.")
	case !known:
		return r, fault.New(fault.Conflict, "This release does not know the operation's kind or state; resume it with the "+
			"one that began it.")
	case r.Status == Failure && !d.States[r.State].MustSucceed:
		return r, fault.New(fault.Conflict, "The operation has failed for good; what asked for it has to ask again.")
	case r.Lease != nil && now.Before(r.Lease.Until):
		return r, fault.New(fault.Conflict, "A worker is at it. List the operations again in a minute.")
	}
	next := r.changed(now)
	next.Status, next.FinishedOn, next.TTL, next.Message, next.Details = InProgress, nil, 0, "", ""
	next.Failures, next.Interruptions = 0, 0
	next.suspend(now)
	if err := e.table.Commit(ctx, next.put(r.Version)); err != nil {
		if errors.Is(err, ErrLost) {
			return r, fault.New(fault.Conflict, "The operation has moved on meanwhile. List the operations again.")
		}
		return r, fmt.Errorf("resume operation %s: %w", id, err)
	}
	return next, nil
}

// Summary is the view of an operation for operators. It has no input, no
// data and no cause of failures, because each of these may contain a secret.
type Summary struct {
	ID        string `json:"id"`
	Kind      string `json:"kind"`
	Subject   string `json:"subject,omitempty"`
	AccountID string `json:"accountId,omitempty"`
	Status    Status `json:"status"`
	// State is the current state, "" before the first step.
	State string `json:"state,omitempty"`
	// Message is the message for clients, such as the progress.
	Message string `json:"message,omitempty"`
	// FailedAttempts is the number of unsuccessful attempts at the current step.
	FailedAttempts int `json:"attemptsInVain"`
	// LastFailure is the public text of the last failure.
	LastFailure string `json:"lastFailure,omitempty"`
	// Since is when the operation began.
	Since time.Time `json:"since"`
	// NextAttempt is when the operation is due. It is in the past if the operation waits
	// for a worker, and the end of the worker's lease if a worker runs the operation.
	NextAttempt time.Time `json:"nextAttempt"`
	// Running means that a worker has a lease for the operation. If
	// NextAttempt is in the past, the lease has expired: the worker has probably died.
	Running bool `json:"running,omitempty"`
}

// Summary returns the view of the record for operators.
func (r Record) Summary() Summary {
	return Summary{
		ID: r.ID, Kind: r.Kind, Subject: r.Subject, AccountID: r.AccountID, Status: r.Status, State: r.State,
		Message:        r.Message,
		FailedAttempts: r.FailedAttempts(), LastFailure: r.LastFailure(), Since: r.CreatedOn, NextAttempt: r.DueOn,
		Running: r.Lease != nil,
	}
}

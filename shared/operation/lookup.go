package operation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/store"
)

// List returns the operations that have not ended, those first that have been
// tried in vain most often, then the oldest. It is for who runs the installation:
// it reads them all.
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
				continue // meanwhile
			}
			if err != nil {
				return nil, err
			}
			found = append(found, r)
		}
	}
	slices.SortStableFunc(found, func(a, b Record) int {
		if n := b.InVain() - a.InVain(); n != 0 {
			return n
		}
		return a.CreatedOn.Compare(b.CreatedOn)
	})
	return found, nil
}

// InVain is how many attempts at the current step have had no result.
func (r Record) InVain() int { return r.Failures + r.Interruptions }

// lateAfter is how long an operation may be due without anybody at it: two sweeps.
const lateAfter = 2 * time.Minute

// Behind reports whether an operation does not get on as it should: its step was
// tried in vain, or is due, or its worker's lease over, for longer than two sweeps.
// What is planned for later is not behind.
func (r Record) Behind(now time.Time) bool {
	return r.InVain() > 0 || now.Sub(r.DueOn) > lateAfter
}

// LastFailure is the public text of the last failure in the current state, "" for
// none.
func (r Record) LastFailure() string {
	if n := len(r.History); n > 0 {
		return r.History[n-1].Message
	}
	return ""
}

// Resume has an operation tried at once, and its pauses begin anew: for who has
// mended what kept it. One that has failed goes on where it stopped if its state
// must happen, as none fails any more: an earlier release has given it up. It
// answers a fault that says why there is nothing to resume. It runs nothing itself,
// so that it is safe at any time and as often as one likes: an operation that a
// worker has is left to it, and two workers do no step twice.
func (e *Engine) Resume(ctx context.Context, id string) (Record, error) {
	r, err := e.Read(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return Record{}, fault.New(fault.NotFound, "There is no operation of this id; those that have ended are kept for 30 days.")
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
		return r, fault.New(fault.Conflict, "This release does not know the operation's kind or state; resume it with the one that began it.")
	case r.Status == Failure && !d.States[r.State].Must:
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

// Summary is what an operator is shown of an operation. It holds no input, no
// data and no cause, any of which may be somebody's secret.
type Summary struct {
	ID        string `json:"id"`
	Kind      string `json:"kind"`
	Subject   string `json:"subject,omitempty"`
	AccountID string `json:"accountId,omitempty"`
	Status    Status `json:"status"`
	// State is the current one, "" before the first step.
	State string `json:"state,omitempty"`
	// Message is what clients are told of it, such as how far it has come.
	Message string `json:"message,omitempty"`
	// AttemptsInVain counts those at the current step.
	AttemptsInVain int `json:"attemptsInVain"`
	// LastFailure is its public text.
	LastFailure string `json:"lastFailure,omitempty"`
	// Since is when it was begun.
	Since time.Time `json:"since"`
	// NextAttempt is when it is due: now or earlier for one that waits for a
	// worker, and when its worker's lease ends for one that runs.
	NextAttempt time.Time `json:"nextAttempt"`
	// Running tells that a worker has it.
	Running bool `json:"running,omitempty"`
}

// Summary is the record for an operator.
func (r Record) Summary() Summary {
	return Summary{
		ID: r.ID, Kind: r.Kind, Subject: r.Subject, AccountID: r.AccountID, Status: r.Status, State: r.State, Message: r.Message,
		AttemptsInVain: r.InVain(), LastFailure: r.LastFailure(), Since: r.CreatedOn, NextAttempt: r.DueOn, Running: r.Lease != nil,
	}
}

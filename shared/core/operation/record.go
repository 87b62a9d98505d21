package operation

import (
	"strconv"
	"time"

	"github.com/gatewright/gatewright/shared/core/store"
)

// Status is the status that a client sees when it polls an operation (contract 3.11).
type Status string

// All statuses. The last two are final.
const (
	InProgress Status = "in-progress"
	Success    Status = Succeed
	Failure    Status = Fail
)

// Record is the stored state of an operation. Only an Engine changes it.
type Record struct {
	store.UnknownAttributes

	ID        string `dynamodbav:"id"`
	Kind      string `dynamodbav:"kind"`
	Subject   string `dynamodbav:"subject,omitempty"`
	AccountID string `dynamodbav:"accountId,omitempty"`

	Status Status `dynamodbav:"status"`
	// State is the current state, or the last state of an ended operation. It is "" before the first step.
	State string `dynamodbav:"state,omitempty"`
	// Message is a sentence for clients. If the status is Failure, it says what went wrong.
	Message string `dynamodbav:"message,omitempty"`
	// Details names the state that failed, if the status is Failure or a State.Catch is handling the failure.
	Details string `dynamodbav:"details,omitempty"`

	// Version increases with each commit. Each commit requires the version that was read.
	Version int64 `dynamodbav:"version"`
	// Steps is the number of steps that have ended: successfully, or with their last failed attempt.
	Steps int `dynamodbav:"steps,omitempty"`
	// Attempt is the number of the current or last attempt at the current step, from 1. It is 0 before the first attempt.
	Attempt int `dynamodbav:"attempt,omitempty"`
	// Failures is the number of attempts at the current step that failed because of
	// the task. Interruptions is the number of attempts that ended for other reasons.
	Failures      int `dynamodbav:"failures,omitempty"`
	Interruptions int `dynamodbav:"interruptions,omitempty"`
	// Deaths is the number of interruptions that were the death of a worker.
	Deaths int `dynamodbav:"deaths,omitempty"`
	// Lease is the lease of the current worker, nil if there is none.
	Lease *Lease `dynamodbav:"lease,omitempty"`
	// DueOn is the time from which a sweep runs the operation: the end of a wait or of the
	// lease. It is the zero time if the operation has ended.
	DueOn time.Time `dynamodbav:"dueOn"`

	Input document `dynamodbav:"input,omitempty"`
	Data  document `dynamodbav:"data,omitempty"`
	// Cursor is the sort key of the last item that Items.Walk has visited in this state.
	Cursor string `dynamodbav:"cursor,omitempty"`
	// History has the states, in order. The first lease in a state adds the state's
	// entry, which is open (without FinishedOn) until the operation leaves the state.
	History []Entry `dynamodbav:"history,omitempty"`

	CreatedOn  time.Time  `dynamodbav:"createdOn"`
	UpdatedOn  time.Time  `dynamodbav:"updatedOn"`
	FinishedOn *time.Time `dynamodbav:"finishedOn,omitempty"`

	// DuePK and DueSK are the keys in the due index. They are set only while the operation is in progress.
	DuePK string `dynamodbav:"duePk,omitempty"`
	DueSK string `dynamodbav:"dueSk,omitempty"`
	// TTL is when the record can be deleted. It is set only after the operation has ended.
	TTL int64 `dynamodbav:"ttl,omitempty"`
}

// Lease reserves the next step of an operation for one worker.
type Lease struct {
	store.UnknownAttributes

	Owner string    `dynamodbav:"owner"`
	Until time.Time `dynamodbav:"until"`
}

// Entry describes the time from entering a state to leaving it. Repeated steps of the state share one entry.
type Entry struct {
	store.UnknownAttributes

	State string `dynamodbav:"state"`
	// Steps is the number of steps that have ended. Attempts is the number of runs of the task.
	Steps      int        `dynamodbav:"steps,omitempty"`
	Attempts   int        `dynamodbav:"attempts"`
	StartedOn  time.Time  `dynamodbav:"startedOn"`
	FinishedOn *time.Time `dynamodbav:"finishedOn,omitempty"`
	// Message is the public text of the last failure in this entry.
	Message string `dynamodbav:"message,omitempty"`
	// Omitted is the number of entries that followed this entry and were removed.
	Omitted int `dynamodbav:"omitted,omitempty"`
}

// Ended reports whether the status is final.
func (r Record) Ended() bool { return r.Status != InProgress }

// DecodeInput decodes the input of the operation.
func (r Record) DecodeInput(target any) error { return r.Input.decode(target) }

// DecodeData decodes the last Result.Data of a task.
func (r Record) DecodeData(target any) error { return r.Data.decode(target) }

// changed returns a copy of r with the next version. Changes of the copy do not affect r.
func (r Record) changed(now time.Time) Record {
	r.History = append([]Entry(nil), r.History...)
	r.Version++
	r.UpdatedOn = instant(now)
	return r
}

// setDue sets the time from which a sweep runs the operation.
func (r *Record) setDue(at time.Time) {
	r.DueOn = instant(at)
	r.DuePK = duePartition(shardOf(r.ID))
	// The id makes the sort keys of the index unique, which a paged query needs.
	r.DueSK = r.DueOn.Format(dueFormat) + "#" + r.ID
}

// lease assigns the operation to a worker, for the next attempt at its step.
func (r *Record) lease(owner string, now, until time.Time) {
	r.Lease = &Lease{Owner: owner, Until: instant(until)}
	r.setDue(until)
	r.Attempt++
	if n := len(r.History); n == 0 || r.History[n-1].FinishedOn != nil {
		r.History = compact(append(r.History, Entry{State: r.State, StartedOn: instant(now)}))
	}
	r.History[len(r.History)-1].Attempts++
}

// suspend removes the lease. until is the time at which the operation becomes due.
func (r *Record) suspend(until time.Time) {
	r.Lease = nil
	r.setDue(until)
}

// enter changes the record to a state after a step has ended.
func (r *Record) enter(state string, now time.Time) {
	r.Steps++
	r.Attempt, r.Failures, r.Interruptions, r.Deaths = 0, 0, 0, 0
	if n := len(r.History); n > 0 {
		last := &r.History[n-1]
		last.Steps++
		if state != r.State {
			last.FinishedOn = new(instant(now))
		}
	}
	if state != r.State {
		r.Cursor = ""
	}
	r.State = state
}

// finish ends the operation. The record stays readable for recordRetention.
func (r *Record) finish(status Status, now time.Time) {
	r.Status = status
	r.Lease = nil
	r.FinishedOn = new(instant(now))
	r.DueOn, r.DuePK, r.DueSK = time.Time{}, "", ""
	r.TTL = now.Add(recordRetention).Unix()
	if n := len(r.History); n > 0 && r.History[n-1].FinishedOn == nil {
		r.History[n-1].FinishedOn = new(instant(now))
	}
}

// recordFailure stores the text of a failure in the history.
func (r *Record) recordFailure(text string) {
	if n := len(r.History); n > 0 {
		r.History[n-1].Message = text
	}
}

// The history keeps its first and its last entries. The entries in between are removed.
const (
	historyHead = 16
	historyMax  = 64
)

func compact(h []Entry) []Entry {
	if len(h) <= historyMax {
		return h
	}
	h[historyHead-1].Omitted++
	return append(h[:historyHead], h[historyHead+1:]...)
}

// put returns the write of this record, on the condition that the stored version is still version.
func (r Record) put(version int64) store.Write {
	return store.Put(Key(r.ID), r).
		If(store.Equal(store.At("version"), version)).Else(ErrLost)
}

// failureLocation returns where a failed operation stopped, for Record.Details.
func (r Record) failureLocation() string {
	text := "It stopped in the state " + strconv.Quote(r.State)
	if r.Attempt > 1 {
		text += ", after " + strconv.Itoa(r.Attempt) + " attempts"
	}
	return text + "."
}

// dueFormat is a time format of fixed width, so its texts sort by time.
const dueFormat = "2006-01-02T15:04:05.000Z"

package operation

import (
	"strconv"
	"time"

	"github.com/gatewright/gatewright/shared/store"
)

// Status is what a client that polls an operation sees first (contract 3.11).
type Status string

// All statuses. The last two are final.
const (
	InProgress Status = "in-progress"
	Success    Status = Succeed
	Failure    Status = Fail
)

// Record is how far an operation has come. Only an Engine changes it.
type Record struct {
	store.Rest

	ID        string `dynamodbav:"id"`
	Kind      string `dynamodbav:"kind"`
	Subject   string `dynamodbav:"subject,omitempty"`
	AccountID string `dynamodbav:"accountId,omitempty"`

	Status Status `dynamodbav:"status"`
	// State is the current state, or the last; "" before the first step.
	State string `dynamodbav:"state,omitempty"`
	// Message is a sentence for clients; for Failure it says what went wrong.
	Message string `dynamodbav:"message,omitempty"`
	// Details says, for Failure, where it went wrong.
	Details string `dynamodbav:"details,omitempty"`

	// Version rises with each commit; each holds only for the version it read.
	Version int64 `dynamodbav:"version"`
	// Steps counts the steps that were committed.
	Steps int `dynamodbav:"steps,omitempty"`
	// Attempt is the number of the running or last attempt at the current
	// step, from 1; 0 when there was none.
	Attempt int `dynamodbav:"attempt,omitempty"`
	// Failures and Interruptions count attempts at the current step by the way
	// they ended: the task's fault or not.
	Failures      int `dynamodbav:"failures,omitempty"`
	Interruptions int `dynamodbav:"interruptions,omitempty"`
	// Deaths counts those of the interruptions in which a worker was gone.
	Deaths int `dynamodbav:"deaths,omitempty"`
	// Lease names the worker, nil when there is none.
	Lease *Lease `dynamodbav:"lease,omitempty"`
	// DueOn is when a sweep looks at the operation: the end of a wait or lease.
	DueOn time.Time `dynamodbav:"dueOn"`

	Input document `dynamodbav:"input,omitempty"`
	Data  document `dynamodbav:"data,omitempty"`
	// Cursor is the sort key up to which Items.Walk has come in this state.
	Cursor string `dynamodbav:"cursor,omitempty"`
	// History tells the states in the order they ran; the last is open while
	// the operation is in progress.
	History []Entry `dynamodbav:"history,omitempty"`

	CreatedOn  time.Time  `dynamodbav:"createdOn"`
	UpdatedOn  time.Time  `dynamodbav:"updatedOn"`
	FinishedOn *time.Time `dynamodbav:"finishedOn,omitempty"`

	// The keys of the due index, only while in progress.
	DuePK string `dynamodbav:"duePk,omitempty"`
	DueSK string `dynamodbav:"dueSk,omitempty"`
	// TTL is when the record may go, only after the end.
	TTL int64 `dynamodbav:"ttl,omitempty"`
}

// Lease is a worker's right to run the next step undisturbed.
type Lease struct {
	store.Rest

	Owner string    `dynamodbav:"owner"`
	Until time.Time `dynamodbav:"until"`
}

// Entry is one stay in a state. Repeated steps of a state share one.
type Entry struct {
	store.Rest

	State string `dynamodbav:"state"`
	// Steps counts the steps committed, Attempts the runs of the task.
	Steps      int        `dynamodbav:"steps,omitempty"`
	Attempts   int        `dynamodbav:"attempts"`
	StartedOn  time.Time  `dynamodbav:"startedOn"`
	FinishedOn *time.Time `dynamodbav:"finishedOn,omitempty"`
	// Message is the public text of the last failure in this stay.
	Message string `dynamodbav:"message,omitempty"`
	// Omitted counts the entries left out after this one.
	Omitted int `dynamodbav:"omitted,omitempty"`
}

// Ended reports whether the status is final.
func (r Record) Ended() bool { return r.Status != InProgress }

// DecodeInput reads what the operation was begun with.
func (r Record) DecodeInput(into any) error { return r.Input.decode(into) }

// DecodeData reads what the last task that set Result.Data has left.
func (r Record) DecodeData(into any) error { return r.Data.decode(into) }

// changed is a copy that may be altered without altering r, one version on.
func (r Record) changed(now time.Time) Record {
	r.History = append([]Entry(nil), r.History...)
	r.Version++
	r.UpdatedOn = instant(now)
	return r
}

// due sets when a sweep shall look.
func (r *Record) due(on time.Time) {
	r.DueOn = instant(on)
	r.DuePK = duePartition(shardOf(r.ID))
	// The id keeps the index's sort keys apart, which a paged query needs.
	r.DueSK = r.DueOn.Format(dueFormat) + "#" + r.ID
}

// lease gives the operation to a worker, for the next attempt at its step.
func (r *Record) lease(owner string, now, until time.Time) {
	r.Lease = &Lease{Owner: owner, Until: instant(until)}
	r.due(until)
	r.Attempt++
	if n := len(r.History); n == 0 || r.History[n-1].FinishedOn != nil {
		r.History = compact(append(r.History, Entry{State: r.State, StartedOn: instant(now)}))
	}
	r.History[len(r.History)-1].Attempts++
}

// suspend gives the operation back until wake.
func (r *Record) suspend(wake time.Time) {
	r.Lease = nil
	r.due(wake)
}

// enter goes on to a state: the step that led here is done.
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

// finish ends the operation. The record stays readable for retention.
func (r *Record) finish(status Status, now time.Time) {
	r.Status = status
	r.Lease = nil
	r.FinishedOn = new(instant(now))
	r.DueOn, r.DuePK, r.DueSK = time.Time{}, "", ""
	r.TTL = now.Add(retention).Unix()
	if n := len(r.History); n > 0 && r.History[n-1].FinishedOn == nil {
		r.History[n-1].FinishedOn = new(instant(now))
	}
}

// noteFailure keeps the text of a failure in the history.
func (r *Record) noteFailure(text string) {
	if n := len(r.History); n > 0 {
		r.History[n-1].Message = text
	}
}

// The history keeps its beginning and its end.
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

// put is the write of this record, which holds only if version before is still
// the stored one.
func (r Record) put(before int64) store.Write {
	return store.Put(Key(r.ID), r).
		If(store.Equal(store.At("version"), before)).Else(ErrLost)
}

// where says where a failed operation stood, for Record.Details.
func (r Record) where() string {
	text := "It stopped in the state " + strconv.Quote(r.State)
	if r.Attempt > 1 {
		text += ", after " + strconv.Itoa(r.Attempt) + " attempts"
	}
	return text + "."
}

// dueFormat sorts as the times do: it is as long for each of them.
const dueFormat = "2006-01-02T15:04:05.000Z"

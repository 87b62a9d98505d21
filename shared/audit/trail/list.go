package trail

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/store"
)

// MaxSpan is the longest time that one list is over (contract 2.2).
const MaxSpan = 30 * 24 * time.Hour

// Filter says which records a list has. All of it has to match.
type Filter struct {
	// Action is the exact action, Actor who did it, by email or sub; "" is any.
	Action, Actor string
	// Success is what came of it; nil is anything.
	Success *bool
	// From and To bound the records' times, From alone included. Records older than
	// audit.Retention are in no list.
	From, To time.Time
}

// matches reports whether the filter lets an entry through.
func (f Filter) matches(e audit.Entry) bool {
	at := e.Timestamp
	return at >= audit.Timestamp(f.From) && at < audit.Timestamp(f.To) &&
		(f.Action == "" || f.Action == string(e.Action)) &&
		(f.Success == nil || outcome(f.Success) == outcome(e.Success)) &&
		(f.Actor == "" || slices.Contains(actors(e), f.Actor))
}

// narrow reports whether records of its time may not match.
func (f Filter) narrow() bool { return f.Action != "" || f.Actor != "" || f.Success != nil }

// Found is a page of a list.
type Found struct {
	Entries []audit.Entry
	// Total is how many there are in all, HasMore whether there are some behind the
	// page: both of the one state that the entries are of.
	Total   int
	HasMore bool
}

// Next is where the page behind this one begins, for store.Page; "" where there is
// none.
func (f Found) Next() string {
	if !f.HasMore {
		return ""
	}
	return Position(f.Entries[len(f.Entries)-1])
}

// Position says where an entry stands, for store.Page.
func Position(e audit.Entry) string { return audit.WaitingKey("", e).SK }

// Between gives the times of a list whose bounds are asked for, each nil for none:
// without an end it goes up to now, without a beginning over the 30 days before its
// end. Up to now is a little longer, for clocks that are ahead of this one, and
// begins with a whole window of the counters.
//
// Fault: Invalid, naming the field.
func (t *Trail) Between(startDate, endDate *time.Time) (from, to time.Time, err error) {
	now, whole := t.now(), levels[0].every
	to = now
	if endDate != nil {
		to = *endDate
	}
	from = to.Add(-MaxSpan)
	if startDate != nil {
		from = *startDate
	}
	switch {
	case !from.Before(to) && endDate == nil:
		err = fault.InvalidField("startDate", "lies in the future")
	case !from.Before(to):
		err = fault.InvalidField("startDate", "has to be before endDate")
	case to.Sub(from) > MaxSpan && endDate == nil:
		err = fault.InvalidField("startDate", "lies more than 30 days back: give an endDate too, at most 30 days later")
	case to.Sub(from) > MaxSpan:
		err = fault.InvalidField("endDate", "lies more than 30 days behind startDate: ask for one part after the other")
	}
	if endDate == nil {
		to = now.Truncate(whole).Add(2 * whole)
	}
	if startDate == nil {
		from = from.Truncate(whole)
	}
	return from, to, err
}

// listAttempts is how often a list is begun while its account's chain moves on.
const listAttempts = 12

// List gives the records of an account, newest first. It shows what is committed
// when it begins, chained or not. What it costs depends on the length of the page,
// on how long the time is and on how many records are not chained yet, not on how
// many are.
//
// Fault: Throttled.
func (t *Trail) List(ctx context.Context, accountID string, f Filter, p store.Page) (Found, error) {
	if oldest := t.now().Add(-audit.Retention); f.From.Before(oldest) {
		f.From = oldest
	}
	f.From, f.To = ceil(f.From), ceil(f.To)
	r := &reading{Trail: t, accountID: accountID, filter: f, page: p}
	if err := r.wait(ctx); err != nil {
		return Found{}, err
	}
	for range listAttempts {
		total, err := r.plan(ctx)
		if errors.Is(err, errMoved) {
			if r.length, err = r.seq(ctx); err != nil {
				return Found{}, err
			}
			continue
		}
		if err != nil {
			return Found{}, err
		}
		return r.found(ctx, total)
	}
	busy := fault.New(fault.Throttled, "The account's audit log is being written too fast to be read. Repeat the request after the time in Retry-After.")
	busy.RetryAfter = time.Second
	return Found{}, busy
}

// ceil is the first millisecond that is not before t: records have no finer times.
func ceil(t time.Time) time.Time {
	if down := t.UTC().Truncate(time.Millisecond); down.Before(t) {
		return down.Add(time.Millisecond)
	}
	return t.UTC()
}

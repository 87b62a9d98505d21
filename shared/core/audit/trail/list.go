package trail

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/store"
)

// MaxSpan is the longest time range of one list (contract 2.2).
const MaxSpan = 30 * 24 * time.Hour

// Filter selects the records of a list. All conditions have to match.
type Filter struct {
	// Action is the exact action. Actor is the email or sub of the actor. "" matches any.
	Action, Actor string
	// Success is the result of the change; nil matches any.
	Success *bool
	// From (included) and To (excluded) limit the records' times.
	// No list contains records that are older than audit.Retention.
	From, To time.Time
}

// matches reports whether the entry matches the filter.
func (f Filter) matches(e audit.Entry) bool {
	at := e.Timestamp
	return at >= audit.Timestamp(f.From) && at < audit.Timestamp(f.To) &&
		(f.Action == "" || f.Action == string(e.Action)) &&
		(f.Success == nil || outcome(f.Success) == outcome(e.Success)) &&
		(f.Actor == "" || slices.Contains(actors(e), f.Actor))
}

// hasConditions reports whether the filter has a condition other than the time.
func (f Filter) hasConditions() bool { return f.Action != "" || f.Actor != "" || f.Success != nil }

// ListPage is a page of a list.
type ListPage struct {
	Entries []audit.Entry
	// Total is the number of all matching records. HasMore is whether there
	// are more after the page. Both describe the same state as the entries.
	Total   int
	HasMore bool
}

// Next returns the position after which the next page begins, for store.Page. It returns "" if there is no next page.
func (p ListPage) Next() string {
	if !p.HasMore {
		return ""
	}
	return Position(p.Entries[len(p.Entries)-1])
}

// Position returns the position of an entry, for store.Page.
func Position(e audit.Entry) string { return audit.PendingKey("", e).SK }

// TimeRange returns the time range of a list from the requested bounds, which can be nil. Without endDate
// the range ends one to two of the counters' long windows after now, because the clocks of other processes can
// be ahead. Without startDate it begins 30 days before endDate, or before now, rounded down to a whole window.
//
// Fault: Invalid, naming the field.
func (t *Trail) TimeRange(startDate, endDate *time.Time) (from, to time.Time, err error) {
	now, window := t.now(), levels[0].window
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
		to = now.Truncate(window).Add(2 * window)
	}
	if startDate == nil {
		from = from.Truncate(window)
	}
	return from, to, err
}

// maxListAttempts is the maximum number of attempts to plan a
// list. An attempt fails if the account's chain grows meanwhile.
const maxListAttempts = 12

// List returns the records of an account, newest first. It includes the records that are committed
// when it begins, chained or not. The cost depends on the size of the page, the length of the time
// range and the number of pending records. It does not depend on the number of chained records.
//
// Fault: Throttled.
func (t *Trail) List(ctx context.Context, accountID string, f Filter, p store.Page) (ListPage, error) {
	if oldest := t.now().Add(-audit.Retention); f.From.Before(oldest) {
		f.From = oldest
	}
	f.From, f.To = ceilMillisecond(f.From), ceilMillisecond(f.To)
	r := &listRequest{Trail: t, accountID: accountID, filter: f, page: p}
	if err := r.readPending(ctx); err != nil {
		return ListPage{}, err
	}
	for range maxListAttempts {
		total, err := r.plan(ctx)
		if errors.Is(err, errChainGrown) {
			if r.length, err = r.chainLength(ctx); err != nil {
				return ListPage{}, err
			}
			continue
		}
		if err != nil {
			return ListPage{}, err
		}
		return r.readPage(ctx, total)
	}
	busy := fault.New(fault.Throttled, "The account's audit log is being written too fast to be read. Repeat the "+
		"request after the time in Retry-After.")
	busy.RetryAfter = time.Second
	return ListPage{}, busy
}

// ceilMillisecond rounds t up to a millisecond: records have no finer times.
func ceilMillisecond(t time.Time) time.Time {
	if truncated := t.UTC().Truncate(time.Millisecond); truncated.Before(t) {
		return truncated.Add(time.Millisecond)
	}
	return t.UTC()
}

// Package meter computes the period of a subscription that contains
// an instant (specification 4.9; contract 3.7; design, section 8).
//
// Periods are counted from an anchor. Only the anchor's date in UTC counts: each period begins at midnight. Period n
// begins n months or years after the anchor's date, with the day limited to the last day of the month. It is computed
// from the anchor, never from the previous period. Periods with an anchor on the 31st therefore begin on the 31st
// again after a shorter month. Yearly periods with an anchor on 29 February begin on that day in each leap year, and
// on 28 February in other years.
//
// The package knows no subscriptions, clock or tables. Package metering assigns anchors
// and strategies to subscriptions, package allowance counts. This is its only file.
package meter

import "time"

// Strategy is the length of periods: a subscription's renewalStrategy.
type Strategy string

// The strategies.
const (
	Monthly Strategy = "monthly"
	Yearly  Strategy = "yearly"
)

// months returns the number of months of a period. Unknown strategies count as Monthly; none are stored.
func (s Strategy) months() int {
	if s == Yearly {
		return 12
	}
	return 1
}

// Period is a time from one boundary to the next, [From, To), in UTC. Both times are midnight.
type Period struct{ From, To time.Time }

// Contains reports whether an instant is in the period. From belongs to it, To does not.
func (p Period) Contains(t time.Time) bool { return !t.Before(p.From) && t.Before(p.To) }

// String returns the period in the form of the header Gatewright-Period, such as
// "2026-01-31T00:00:00Z/2026-02-28T00:00:00Z".
func (p Period) String() string {
	return p.From.Format(time.RFC3339) + "/" + p.To.Format(time.RFC3339)
}

// At returns the period of an anchor that contains now. If the anchor is after
// now, periods are counted backwards from it. Both times can be in any time zone.
func At(anchor time.Time, s Strategy, now time.Time) Period {
	anchor, now = anchor.UTC(), now.UTC()
	// The number of the period that begins in the month of now, or in its year.
	n := 12*(now.Year()-anchor.Year()) + int(now.Month()) - int(anchor.Month())
	if s == Yearly {
		n = now.Year() - anchor.Year()
	}
	if boundary(anchor, s, n).After(now) {
		n--
	}
	return Period{boundary(anchor, s, n), boundary(anchor, s, n+1)}
}

// boundary returns the beginning of period n.
func boundary(anchor time.Time, s Strategy, n int) time.Time {
	year, month, day := anchor.Date()
	// AddDate would return 3 March for 31 January plus a month. Day 0 of a month is the last day of the month before it.
	first := time.Date(year, month+time.Month(n*s.months()), 1, 0, 0, 0, 0, time.UTC)
	last := time.Date(first.Year(), first.Month()+1, 0, 0, 0, 0, 0, time.UTC).Day()
	return time.Date(first.Year(), first.Month(), min(day, last), 0, 0, 0, 0, time.UTC)
}

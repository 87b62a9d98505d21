// Package meter is the calendar of metering: in which period of a subscription an instant lies
// (specification 4.9; contract 3.7; design, section 8).
//
// Periods are counted from an anchor, whose date in UTC is what counts: each begins at midnight
// of it. Period n is the anchor's date and n months or years, with the day clamped to the
// month's last. It is never computed from the period before it, so that the 31st comes back after a
// shorter month, and 29 February in leap years.
//
// What it is not: it knows no subscriptions, no clock and no table. Package metering says which
// anchor and strategy are whose, package allowance counts. This is its only file.
package meter

import "time"

// Strategy is how long periods are: a subscription's renewalStrategy.
type Strategy string

// The strategies.
const (
	Monthly Strategy = "monthly"
	Yearly  Strategy = "yearly"
)

// months is how many months a period has. What is no strategy counts as Monthly; none is
// stored.
func (s Strategy) months() int {
	if s == Yearly {
		return 12
	}
	return 1
}

// Period is a time from one boundary to the next, [From, To), in UTC. Both are midnights.
type Period struct{ From, To time.Time }

// Contains reports whether an instant lies in the period: From does, To does not.
func (p Period) Contains(t time.Time) bool { return !t.Before(p.From) && t.Before(p.To) }

// String is the period as the header Gatewright-Period has it, such as
// "2026-01-31T00:00:00Z/2026-02-28T00:00:00Z".
func (p Period) String() string {
	return p.From.Format(time.RFC3339) + "/" + p.To.Format(time.RFC3339)
}

// At gives the period of an anchor in which now lies. The anchor may lie after now: then periods
// are counted back from it. Both may be in any location.
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

// boundary is the beginning of period n.
func boundary(anchor time.Time, s Strategy, n int) time.Time {
	year, month, day := anchor.Date()
	// AddDate would take 31 January and a month for 3 March. Day 0 of a month is the last of
	// the one before it.
	first := time.Date(year, month+time.Month(n*s.months()), 1, 0, 0, 0, 0, time.UTC)
	last := time.Date(first.Year(), first.Month()+1, 0, 0, 0, 0, 0, time.UTC).Day()
	return time.Date(first.Year(), first.Month(), min(day, last), 0, 0, 0, 0, time.UTC)
}

package meter_test

import (
	"fmt"
	"time"

	"github.com/gatewright/gatewright/shared/format/meter"
)

// date is a day of the calendar. walk counts days without package time.
type date struct{ year, month, day int }

func (d date) String() string { return fmt.Sprintf("%04d-%02d-%02dT00:00:00Z", d.year, d.month, d.day) }

func (d date) after(e date) bool {
	if d.year != e.year {
		return d.year > e.year
	}
	if d.month != e.month {
		return d.month > e.month
	}
	return d.day > e.day
}

func dateOf(t time.Time) date {
	year, month, day := t.UTC().Date()
	return date{year, int(month), day}
}

// walk implements the rule literally: from the anchor's day, it moves forward or back by one period at a
// time, until now is between two boundaries. All boundaries are at midnight, so walk compares only days.
func walk(anchor time.Time, s meter.Strategy, now time.Time) string {
	first, today := dateOf(anchor), dateOf(now)
	from := first
	for from.after(today) {
		from = step(from, first.day, s, -1)
	}
	to := step(from, first.day, s, +1)
	for !to.after(today) {
		from, to = to, step(to, first.day, s, +1)
	}
	return from.String() + "/" + to.String()
}

// step moves one period forward or back, to the given day or the month's last.
func step(d date, day int, s meter.Strategy, direction int) date {
	if s == meter.Yearly {
		d.year += direction
	} else {
		d.month += direction
	}
	switch d.month {
	case 0:
		d.year, d.month = d.year-1, 12
	case 13:
		d.year, d.month = d.year+1, 1
	}
	d.day = day
	for d.day > lastDay(d.year, d.month) {
		d.day--
	}
	return d
}

func lastDay(year, month int) int {
	switch month {
	case 4, 6, 9, 11:
		return 30
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	}
	return 31
}

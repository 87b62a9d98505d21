package counts

import (
	"testing"
	"time"
)

// TestRowsOutliveTheReportsThatReadThem: at any time, the earliest row that a report asks for has not expired, or its
// numbers would fall while the window still has them. So do the calls of 24 hours.
func TestRowsOutliveTheReportsThatReadThem(t *testing.T) {
	t.Parallel()
	begin := time.Date(2026, 2, 27, 0, 0, 0, 0, time.UTC)
	for n := range 40 * 24 * 12 {
		now := begin.Add(time.Duration(n)*5*time.Minute + 4*time.Minute + 59*time.Second)
		for _, window := range []Window{LastHour, Last24Hours, Last7Days, Last30Days, LastThreeMonths} {
			s, err := window.span()
			if err != nil {
				t.Fatal(err)
			}
			_, runs := s.cover(now)
			for _, r := range runs {
				if at := expiry(r.from, r.length.duration, r.length.keep); at <= now.Unix() {
					t.Fatalf("%s at %s reads the row of %s from %s, which has expired %d s before", window, now, r.length.name, spell(r.from), now.Unix()-at)
				}
			}
		}
		if hour := hourly.start(now.Add(-recentFor).Unix()); expiry(hour, time.Hour, callsKept) <= now.Unix() {
			t.Fatalf("the calls of the hour of %s have expired at %s", spell(hour), now)
		}
	}
}

// TestCallsOfAClockThatIsAheadAreSeen, added up or not: a gateway's clock may be before that of whoever reads.
func TestCallsOfAClockThatIsAheadAreSeen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.collector()
	c.Call(calledBy("acme", 200, w.time))
	c.Call(calledBy("acme", 200, w.time.Add(10*time.Minute)))
	w.drain(c)
	for _, addedUp := range []bool{false, true} {
		if addedUp {
			w.rollup()
		}
		for _, window := range []Window{LastHour, Last24Hours, Last7Days, Last30Days, LastThreeMonths} {
			if got := text(w.statuses(window, everybody).Totals); got != "acme 2 [{200 2}]\n" {
				t.Errorf("%s, added up %t: there is %q", window, addedUp, got)
			}
		}
	}
}

// TestARollupWritesNoMoreRowsThanATransactionTakes: those of the hours' calls are as large as all others.
func TestARollupWritesNoMoreRowsThanATransactionTakes(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 2, 27, 23, 0, 0, 0, time.UTC)
	over := func(hours int) *fresh {
		f := &fresh{slots: []slot{{finest.start(now.Unix()), newTally()}}}
		for i := range hours {
			f.recent.calls = append(f.recent.calls, RecentCall{At: now.Add(-time.Duration(i) * time.Hour)})
		}
		return f
	}
	for hours, want := range map[int]bool{rollupRows - len(lengths): true, rollupRows - len(lengths) + 1: false} {
		m := newMerged(shop.Name, now)
		if !m.add(over(1)) {
			t.Fatal("the first row does not fit")
		}
		got := m.add(over(hours))
		if rows := len(m.tallies) + len(m.calls); got != want || rows > rollupRows || !got && rows != len(lengths)+1 {
			t.Errorf("calls of %d hours: taken %t, and %d rows are to be written", hours, got, rows)
		}
	}
	if m := newMerged(shop.Name, now); !m.add(over(rollupRows)) {
		t.Error("the first row of a transaction is not taken: it never would be")
	}
}

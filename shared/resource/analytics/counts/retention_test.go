package counts

import (
	"testing"
	"time"
)

// TestRowsDoNotExpireWithinTheirWindow checks that the earliest row of a report never expires while its window still
// covers the row, and that calls do not expire within 24 hours.
func TestRowsDoNotExpireWithinTheirWindow(t *testing.T) {
	t.Parallel()
	begin := time.Date(2026, 2, 27, 0, 0, 0, 0, time.UTC)
	for n := range 40 * 24 * 12 {
		now := begin.Add(time.Duration(n)*5*time.Minute + 4*time.Minute + 59*time.Second)
		for _, window := range []Window{LastHour, Last24Hours, Last7Days, Last30Days, LastThreeMonths} {
			s, err := window.span()
			if err != nil {
				t.Fatalf("span() of %s: error = %v, want none", window, err)
			}
			_, runs := s.cover(now)
			for _, r := range runs {
				if at := expiry(r.from, r.resolution.duration, r.resolution.retention); at <= now.Unix() {
					t.Fatalf("%s at %s reads the row %s from %s, which expired %d s before, want unexpired rows only",
						window, now, r.resolution.name, formatTime(r.from), now.Unix()-at)
				}
			}
		}
		if hour := hourly.start(now.Add(-recentPeriod).Unix()); expiry(hour, time.Hour, callsRetention) <= now.Unix() {
			t.Fatalf("the calls of the hour of %s have expired at %s, want them unexpired", formatTime(hour), now)
		}
	}
}

// TestCallsWithFutureTimestampsAreCounted tests calls with later times than the reader's clock, before and after their
// rollup: a gateway's clock may be ahead.
func TestCallsWithFutureTimestampsAreCounted(t *testing.T) {
	t.Parallel()
	fx := newFixture(t)
	c := fx.collector()
	c.Call(newCall("acme", 200, fx.time))
	c.Call(newCall("acme", 200, fx.time.Add(10*time.Minute)))
	fx.drain(c)
	for _, rolledUp := range []bool{false, true} {
		if rolledUp {
			fx.rollup()
		}
		for _, window := range []Window{LastHour, Last24Hours, Last7Days, Last30Days, LastThreeMonths} {
			if got := formatCounts(fx.statuses(window, allCallers).Totals); got != "acme 2 [{200 2}]\n" {
				t.Errorf("statuses(%s) with rollup %t = %q, want acme with 2 calls", window, rolledUp, got)
			}
		}
	}
}

// TestRollupStaysWithinTransactionLimit checks that the transaction of a rollup has at most maxRollupRows target rows,
// including the rows with single calls, which can be as large as the other rows. Only the first source row may need
// more.
func TestRollupStaysWithinTransactionLimit(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 2, 27, 23, 0, 0, 0, time.UTC)
	countsOver := func(hours int) *pendingCounts {
		pending := &pendingCounts{intervals: []intervalTally{{finest.start(now.Unix()), newTally()}}}
		for i := range hours {
			pending.recent.calls = append(pending.recent.calls, RecentCall{At: now.Add(-time.Duration(i) * time.Hour)})
		}
		return pending
	}
	maxHours := maxRollupRows - len(resolutions)
	for hours, want := range map[int]bool{maxHours: true, maxHours + 1: false} {
		m := newMergeBatch(shop.Name, now)
		if !m.add(countsOver(1)) {
			t.Fatal("add(first row) = false, want true")
		}
		got := m.add(countsOver(hours))
		if rows := len(m.tallies) + len(m.calls); got != want || rows > maxRollupRows || !got && rows != len(resolutions)+1 {
			t.Errorf("add(calls of %d hours) = %t with %d rows to write, want %t with at most %d rows, or %d rows if false",
				hours, got, rows, want, maxRollupRows, len(resolutions)+1)
		}
	}
	if m := newMergeBatch(shop.Name, now); !m.add(countsOver(maxRollupRows)) {
		t.Error("add(largest first row of a transaction) = false, want true")
	}
}

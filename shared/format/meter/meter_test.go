package meter_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gatewright/gatewright/shared/format/meter"
	"github.com/gatewright/gatewright/shared/testing/simulations"
)

// periodCases are anchors and instants, with the periods that
// contain the instants. A date without a time means midnight in UTC.
var periodCases = []struct {
	name     string
	anchor   string
	strategy meter.Strategy
	now      string
	want     string
}{
	{"31 January, period that starts in January", "2026-01-31", meter.Monthly, "2026-02-01", "2026-01-31/2026-02-28"},
	{"31 January, period that starts in February", "2026-01-31", meter.Monthly, "2026-02-28", "2026-02-28/2026-03-31"},
	{"31 January, period that starts in March", "2026-01-31", meter.Monthly, "2026-03-31", "2026-03-31/2026-04-30"},
	{
		"31 January, period that ends in February of a leap year", "2024-01-31", meter.Monthly, "2024-02-28T23:59:59Z",
		"2024-01-31/2024-02-29",
	},
	{
		"30 January, period that ends in March", "2026-01-30", meter.Monthly, "2026-03-29T23:59:59Z",
		"2026-02-28/2026-03-30",
	},
	{"29 February monthly", "2024-02-29", meter.Monthly, "2025-03-01", "2025-02-28/2025-03-29"},
	{"29 February yearly, in a common year", "2024-02-29", meter.Yearly, "2025-02-28", "2025-02-28/2026-02-28"},
	{
		"29 February yearly, before 29 February of a leap year", "2024-02-29", meter.Yearly, "2028-02-28T23:00:00Z",
		"2027-02-28/2028-02-29",
	},
	{
		"29 February yearly, on 29 February of a leap year", "2024-02-29", meter.Yearly, "2028-02-29",
		"2028-02-29/2029-02-28",
	},
	{"29 February yearly, in the common year 2100", "2096-02-29", meter.Yearly, "2100-06-01", "2100-02-28/2101-02-28"},
	{"29 February yearly, in the leap year 2000", "1996-02-29", meter.Yearly, "2000-06-01", "2000-02-29/2001-02-28"},
	{"a month over the end of a year", "2025-11-30", meter.Monthly, "2026-01-01", "2025-12-30/2026-01-30"},
	{"the last moment of a year", "2025-01-01", meter.Yearly, "2025-12-31T23:59:59Z", "2025-01-01/2026-01-01"},
	{"the first moment of a year", "2025-01-01", meter.Yearly, "2026-01-01", "2026-01-01/2027-01-01"},
	{"an anchor before 1970", "1969-12-31", meter.Monthly, "2026-02-28", "2026-02-28/2026-03-31"},
	{"an anchor after 2100", "2104-02-29", meter.Yearly, "2109-01-01", "2108-02-29/2109-02-28"},
	{"a future anchor", "2027-05-31", meter.Monthly, "2027-02-28", "2027-02-28/2027-03-31"},
	{
		"a future anchor, before the end of a month", "2027-05-31", meter.Monthly, "2027-02-27T23:59:59Z",
		"2027-01-31/2027-02-28",
	},
	{"a future anchor, yearly", "2028-02-29", meter.Yearly, "2026-03-01", "2026-02-28/2027-02-28"},
	{"now at the start of a period", "2026-04-15", meter.Monthly, "2026-05-15", "2026-05-15/2026-06-15"},
	{"now at the end of a period", "2026-04-15", meter.Monthly, "2026-06-15", "2026-06-15/2026-07-15"},
	{
		"a nanosecond before the end of a period", "2026-04-15", meter.Monthly, "2026-06-14T23:59:59.999999999Z",
		"2026-05-15/2026-06-15",
	},
	{"an anchor late in the day", "2026-04-15T23:59:59Z", meter.Monthly, "2026-04-15", "2026-04-15/2026-05-15"},
	{"an anchor west of UTC", "2026-01-31T23:30:00-05:00", meter.Monthly, "2026-02-01", "2026-02-01/2026-03-01"},
	{"an anchor east of UTC", "2026-03-01T01:00:00+09:00", meter.Monthly, "2026-03-01", "2026-02-28/2026-03-28"},
	{"now west of UTC", "2026-01-01", meter.Monthly, "2026-01-31T20:00:00-05:00", "2026-02-01/2026-03-01"},
}

func TestPeriodBoundaries(t *testing.T) {
	for _, tt := range periodCases {
		t.Run(tt.name, func(t *testing.T) {
			p := meter.At(instant(t, tt.anchor), tt.strategy, instant(t, tt.now))
			from, to, _ := strings.Cut(tt.want, "/")
			want := from + midnight + "/" + to + midnight
			if p.String() != want {
				t.Errorf("At(%s, %s, %s) = %s, want %s", tt.anchor, tt.strategy, tt.now, p, want)
			}
			if !p.Contains(instant(t, tt.now)) {
				t.Errorf("period %s: Contains(%s) = false, want true", p, tt.now)
			}
			if p.Contains(p.To) || p.Contains(p.From.Add(-1)) || !p.Contains(p.From) || p.From.Location() != time.UTC {
				t.Errorf("period %s in %s: Contains(From), (From-1), (To) = %v, %v, %v, want true, false, false in UTC",
					p, p.From.Location(), p.Contains(p.From), p.Contains(p.From.Add(-1)), p.Contains(p.To))
			}
		})
	}
}

// midnight is the time at which a day begins in UTC.
const midnight = "T00:00:00Z"

// instant parses an RFC 3339 timestamp. A date without a time means midnight in UTC.
func instant(t *testing.T, text string) time.Time {
	t.Helper()
	if !strings.Contains(text, "T") {
		text += midnight
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// TestPeriodsMatchWalk compares random periods, by default a million, with the result of walk.
func TestPeriodsMatchWalk(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	const day = 24 * 60 * 60
	for range simulations.Runs(1_000_000) {
		// The anchor is from 1900 to 2200, and now is at most twelve years from it. In a quarter of the runs, now is within
		// a nanosecond of midnight.
		anchor := time.Unix(random.Int64N(300*365*day)-70*365*day, random.Int64N(1e9))
		distance := random.Int64N(24*366*day) - 12*366*day
		now := anchor.Add(time.Duration(distance) * time.Second)
		if random.IntN(4) == 0 {
			now = now.Truncate(24 * time.Hour).Add(time.Duration(random.IntN(3) - 1))
		}
		if diff := compare(anchor, strategies[random.IntN(2)], now); diff != "" {
			t.Fatal(diff)
		}
	}
}

// TestDistantPeriodsMatchWalk compares periods at any distance from
// their anchor with walk, and reports the smallest failing example.
func TestDistantPeriodsMatchWalk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		instants := rapid.Custom(func(t *rapid.T) time.Time {
			return time.Date(rapid.IntRange(1, 9998).Draw(t, "year"), time.Month(rapid.IntRange(1, 12).Draw(t, "month")),
				rapid.IntRange(1, 31).Draw(t, "day"), 0, 0, rapid.IntRange(-1, 86_400).Draw(t, "second"), 0,
				time.FixedZone("", rapid.IntRange(-12, 14).Draw(t, "hours east")*3600))
		})
		if diff := compare(instants.Draw(t, "anchor"), rapid.SampledFrom(strategies).Draw(t, "strategy"),
			instants.Draw(t, "now")); diff != "" {
			t.Fatal(diff)
		}
	})
}

// TestPeriodsAreContiguous checks that each period begins at the end of
// the previous period, so that each instant is in exactly one period.
func TestPeriodsAreContiguous(t *testing.T) {
	for _, s := range strategies {
		anchor := instant(t, "2024-02-29T12:00:00Z")
		p := meter.At(anchor, s, anchor.AddDate(-40, 0, 0))
		for range 1000 {
			next := meter.At(anchor, s, p.To)
			if !next.From.Equal(p.To) {
				t.Fatalf("period after %s = %s, want one that starts at its end", p, next)
			}
			if !next.To.After(next.From) {
				t.Fatalf("period after %s = %s, want one that ends after its start", p, next)
			}
			if last := meter.At(anchor, s, p.To.Add(-1)); last != p {
				t.Fatalf("period a nanosecond before the end of %s = %s, want the same period", p, last)
			}
			p = next
		}
	}
}

var strategies = []meter.Strategy{meter.Monthly, meter.Yearly}

// compare compares the result of At with the result of walk. It returns "" if they are equal.
func compare(anchor time.Time, s meter.Strategy, now time.Time) (diff string) {
	got, want := meter.At(anchor, s, now).String(), walk(anchor, s, now)
	if got == want {
		return ""
	}
	return "At(" + anchor.Format(time.RFC3339Nano) + ", " + string(s) + ", " + now.Format(time.RFC3339Nano) + ") = " +
		got + ", want " + want
}

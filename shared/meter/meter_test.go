package meter_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gatewright/gatewright/shared/meter"
	"github.com/gatewright/gatewright/shared/operation/simulations"
)

func TestPeriodsByTheCalendar(t *testing.T) {
	const monthly, yearly = meter.Monthly, meter.Yearly
	tests := []struct {
		name     string
		anchor   string
		strategy meter.Strategy
		now      string
		want     string
	}{
		{"31 January in January", "2026-01-31T00:00:00Z", monthly, "2026-02-01T00:00:00Z", "2026-01-31T00:00:00Z/2026-02-28T00:00:00Z"},
		{"31 January in February", "2026-01-31T00:00:00Z", monthly, "2026-02-28T00:00:00Z", "2026-02-28T00:00:00Z/2026-03-31T00:00:00Z"},
		{"31 January comes back after February", "2026-01-31T00:00:00Z", monthly, "2026-03-31T00:00:00Z", "2026-03-31T00:00:00Z/2026-04-30T00:00:00Z"},
		{"31 January in a leap year", "2024-01-31T00:00:00Z", monthly, "2024-02-28T23:59:59Z", "2024-01-31T00:00:00Z/2024-02-29T00:00:00Z"},
		{"30 January in March", "2026-01-30T00:00:00Z", monthly, "2026-03-29T23:59:59Z", "2026-02-28T00:00:00Z/2026-03-30T00:00:00Z"},
		{"29 February monthly", "2024-02-29T00:00:00Z", monthly, "2025-03-01T00:00:00Z", "2025-02-28T00:00:00Z/2025-03-29T00:00:00Z"},
		{"29 February yearly, in a common year", "2024-02-29T00:00:00Z", yearly, "2025-02-28T00:00:00Z", "2025-02-28T00:00:00Z/2026-02-28T00:00:00Z"},
		{"29 February yearly, in a leap year again", "2024-02-29T00:00:00Z", yearly, "2028-02-28T23:00:00Z", "2027-02-28T00:00:00Z/2028-02-29T00:00:00Z"},
		{"29 February yearly, from a leap year on", "2024-02-29T00:00:00Z", yearly, "2028-02-29T00:00:00Z", "2028-02-29T00:00:00Z/2029-02-28T00:00:00Z"},
		{"29 February yearly, over 2100, which is no leap year", "2096-02-29T00:00:00Z", yearly, "2100-06-01T00:00:00Z", "2100-02-28T00:00:00Z/2101-02-28T00:00:00Z"},
		{"29 February yearly, over 2000, which is one", "1996-02-29T00:00:00Z", yearly, "2000-06-01T00:00:00Z", "2000-02-29T00:00:00Z/2001-02-28T00:00:00Z"},
		{"over the end of a year", "2025-11-30T00:00:00Z", monthly, "2026-01-01T00:00:00Z", "2025-12-30T00:00:00Z/2026-01-30T00:00:00Z"},
		{"the last moment of a year", "2025-01-01T00:00:00Z", yearly, "2025-12-31T23:59:59Z", "2025-01-01T00:00:00Z/2026-01-01T00:00:00Z"},
		{"the first moment of a year", "2025-01-01T00:00:00Z", yearly, "2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z/2027-01-01T00:00:00Z"},
		{"an anchor before 1970", "1969-12-31T00:00:00Z", monthly, "2026-02-28T00:00:00Z", "2026-02-28T00:00:00Z/2026-03-31T00:00:00Z"},
		{"an anchor after 2100", "2104-02-29T00:00:00Z", yearly, "2109-01-01T00:00:00Z", "2108-02-29T00:00:00Z/2109-02-28T00:00:00Z"},
		{"an anchor to come", "2027-05-31T00:00:00Z", monthly, "2027-02-28T00:00:00Z", "2027-02-28T00:00:00Z/2027-03-31T00:00:00Z"},
		{"an anchor to come, before its month's end", "2027-05-31T00:00:00Z", monthly, "2027-02-27T23:59:59Z", "2027-01-31T00:00:00Z/2027-02-28T00:00:00Z"},
		{"an anchor to come, yearly", "2028-02-29T00:00:00Z", yearly, "2026-03-01T00:00:00Z", "2026-02-28T00:00:00Z/2027-02-28T00:00:00Z"},
		{"from is in it", "2026-04-15T00:00:00Z", monthly, "2026-05-15T00:00:00Z", "2026-05-15T00:00:00Z/2026-06-15T00:00:00Z"},
		{"to is in the next", "2026-04-15T00:00:00Z", monthly, "2026-06-15T00:00:00Z", "2026-06-15T00:00:00Z/2026-07-15T00:00:00Z"},
		{"a moment before to", "2026-04-15T00:00:00Z", monthly, "2026-06-14T23:59:59.999999999Z", "2026-05-15T00:00:00Z/2026-06-15T00:00:00Z"},
		{"the anchor's time of day does not count", "2026-04-15T23:59:59Z", monthly, "2026-04-15T00:00:00Z", "2026-04-15T00:00:00Z/2026-05-15T00:00:00Z"},
		{"an anchor counts by its date in UTC", "2026-01-31T23:30:00-05:00", monthly, "2026-02-01T00:00:00Z", "2026-02-01T00:00:00Z/2026-03-01T00:00:00Z"},
		{"an anchor east of UTC", "2026-03-01T01:00:00+09:00", monthly, "2026-03-01T00:00:00Z", "2026-02-28T00:00:00Z/2026-03-28T00:00:00Z"},
		{"now counts in UTC", "2026-01-01T00:00:00Z", monthly, "2026-01-31T20:00:00-05:00", "2026-02-01T00:00:00Z/2026-03-01T00:00:00Z"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := meter.At(instant(t, tt.anchor), tt.strategy, instant(t, tt.now))
			if p.String() != tt.want || !p.Contains(instant(t, tt.now)) {
				t.Errorf("it is %s, want %s", p, tt.want)
			}
			if p.Contains(p.To) || p.Contains(p.From.Add(-1)) || !p.Contains(p.From) || p.From.Location() != time.UTC {
				t.Errorf("%s does not contain what it should", p)
			}
		})
	}
}

func instant(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// TestPeriodsAreThoseOfTheWalk compares a million periods with walk.
func TestPeriodsAreThoseOfTheWalk(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	const day = 24 * 60 * 60
	for range simulations.Runs(1_000_000) {
		// From 1900 to 2200, and now at most twelve years from the anchor, often at a day's end.
		anchor := time.Unix(random.Int64N(300*365*day)-70*365*day, random.Int64N(1e9))
		distance := random.Int64N(24*366*day) - 12*366*day
		now := anchor.Add(time.Duration(distance) * time.Second)
		if random.IntN(4) == 0 {
			now = now.Truncate(24 * time.Hour).Add(time.Duration(random.IntN(3) - 1))
		}
		if wrong := compare(anchor, strategies[random.IntN(2)], now); wrong != "" {
			t.Fatal(wrong)
		}
	}
}

// TestFarPeriodsAreThoseOfTheWalk compares periods of any distance, and gives the smallest example of
// what is wrong.
func TestFarPeriodsAreThoseOfTheWalk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		instants := rapid.Custom(func(t *rapid.T) time.Time {
			return time.Date(rapid.IntRange(1, 9998).Draw(t, "year"), time.Month(rapid.IntRange(1, 12).Draw(t, "month")),
				rapid.IntRange(1, 31).Draw(t, "day"), 0, 0, rapid.IntRange(-1, 86_400).Draw(t, "second"), 0,
				time.FixedZone("", rapid.IntRange(-12, 14).Draw(t, "hours east")*3600))
		})
		if wrong := compare(instants.Draw(t, "anchor"), rapid.SampledFrom(strategies).Draw(t, "strategy"), instants.Draw(t, "now")); wrong != "" {
			t.Fatal(wrong)
		}
	})
}

// TestPeriodsFollowEachOther: where one ends the next begins, so that each instant lies in one.
func TestPeriodsFollowEachOther(t *testing.T) {
	for _, s := range strategies {
		anchor := instant(t, "2024-02-29T12:00:00Z")
		p := meter.At(anchor, s, anchor.AddDate(-40, 0, 0))
		for range 1000 {
			next := meter.At(anchor, s, p.To)
			if !next.From.Equal(p.To) || !next.To.After(next.From) || meter.At(anchor, s, p.To.Add(-1)) != p {
				t.Fatalf("%s is followed by %s", p, next)
			}
			p = next
		}
	}
}

var strategies = []meter.Strategy{meter.Monthly, meter.Yearly}

func compare(anchor time.Time, s meter.Strategy, now time.Time) (wrong string) {
	got, want := meter.At(anchor, s, now).String(), walk(anchor, s, now)
	if got == want {
		return ""
	}
	return "from " + anchor.Format(time.RFC3339Nano) + " " + string(s) + " at " + now.Format(time.RFC3339Nano) + " it is " + got + ", want " + want
}

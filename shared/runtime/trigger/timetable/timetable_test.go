package timetable_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gatewright/gatewright/shared/runtime/trigger"
	"github.com/gatewright/gatewright/shared/runtime/trigger/timetable"
)

func parse(t *testing.T, s trigger.Schedule) timetable.Timetable {
	t.Helper()
	out, err := timetable.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestExpressionIsAWSSyntax(t *testing.T) {
	for want, s := range map[string]trigger.Schedule{
		"rate(1 minute)":                      {Interval: time.Minute},
		"rate(59 minutes)":                    {Interval: 59 * time.Minute},
		"cron(1 * * * ? *)":                   {Cron: "1 * * * *"},
		"cron(* * * * ? *)":                   {Cron: "* * * * *"},
		"cron(0,15,30,45 6 * * ? *)":          {Cron: "*/15 6 * * *"},
		"cron(0 0 1 1,4,7,10 ? *)":            {Cron: "0 0 1 */3 *"},
		"cron(30 4 ? * 1 *)":                  {Cron: "30 4 * * 0"},
		"cron(30 4 ? * 2,3,4,5,6 *)":          {Cron: "30 4 * * MON-FRI"},
		"cron(0 12 29 2 ? *)":                 {Cron: "0 12 29 FEB *"},
		"cron(5,10,11,12 0,12 2,4,6,8 * ? *)": {Cron: "5,10-12 */12 2-8/2 * *"},
		"cron(50,52,54,56,58 22,23 * 12 ? *)": {Cron: "50/2 22-23 * dec *"},
		"cron(0 0 ? 1,2,3,4,5,6 7 *)":         {Cron: "0 0 * 1-6 sat"},
	} {
		if got := parse(t, s).Expression(); got != want {
			t.Errorf("Expression() of %+v = %s, want %s", s, got, want)
		}
	}
}

func TestInvalidOrAmbiguousScheduleIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		schedule trigger.Schedule
		want     string
	}{
		"neither an interval nor a cron":       {trigger.Schedule{}, "declare a whole number of minutes, or a cron"},
		"an interval and a cron":               {trigger.Schedule{Interval: time.Minute, Cron: "1 * * * *"}, "declare one"},
		"an interval with seconds":             {trigger.Schedule{Interval: 90 * time.Second}, "whole number of minutes"},
		"an interval of an hour":               {trigger.Schedule{Interval: time.Hour}, "declare when by a cron"},
		"an interval of a day":                 {trigger.Schedule{Interval: 24 * time.Hour}, "declare when by a cron"},
		"a negative interval":                  {trigger.Schedule{Interval: -time.Minute}, "whole number of minutes"},
		"four fields":                          {trigger.Schedule{Cron: "1 * * *"}, "five fields"},
		"six fields":                           {trigger.Schedule{Cron: "0 1 * * * *"}, "five fields"},
		"two spaces":                           {trigger.Schedule{Cron: "1  * * * *"}, "five fields"},
		"a predefined schedule":                {trigger.Schedule{Cron: "@hourly"}, "five fields"},
		"a time zone":                          {trigger.Schedule{Cron: "TZ=Asia/Tokyo 1 * * * *"}, "five fields"},
		"AWS's question mark":                  {trigger.Schedule{Cron: "1 * * * ?"}, "five fields"},
		"AWS's last day":                       {trigger.Schedule{Cron: "1 * L * *"}, "1 * L * *"},
		"minute 60":                            {trigger.Schedule{Cron: "60 * * * *"}, "above maximum"},
		"hour 24":                              {trigger.Schedule{Cron: "0 24 * * *"}, "above maximum"},
		"day 0":                                {trigger.Schedule{Cron: "0 0 0 * *"}, "below minimum"},
		"a descending range":                   {trigger.Schedule{Cron: "30-10 * * * *"}, "beyond end"},
		"a step of zero":                       {trigger.Schedule{Cron: "*/0 * * * *"}, "positive"},
		"February 30":                          {trigger.Schedule{Cron: "0 0 30 2 *"}, "never due"},
		"a day of the month and of the week":   {trigger.Schedule{Cron: "0 0 13 * 5"}, "declare two schedules"},
		"a step of days and a day of the week": {trigger.Schedule{Cron: "0 0 */2 * 1"}, "declare two schedules"},
	} {
		c.schedule.Name = "nightly"
		_, err := timetable.Parse(c.schedule)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "schedule nightly") {
			t.Errorf("%s: Parse() error = %v, want one that contains %q and the schedule's name", name, err, c.want)
		}
	}
}

func TestNextIsLaterAndInUTC(t *testing.T) {
	zone := time.FixedZone("half an hour off", 5*3600+1800)
	for name, c := range map[string]struct {
		schedule trigger.Schedule
		after    time.Time
		want     string
	}{
		"each hour": {
			trigger.Schedule{Cron: "1 * * * *"},
			time.Date(2026, 1, 31, 23, 30, 0, 0, time.UTC),
			"2026-02-01T00:01:00Z",
		},
		"the scheduled minute itself": {
			trigger.Schedule{Cron: "1 * * * *"},
			time.Date(2026, 1, 31, 23, 1, 0, 0, time.UTC),
			"2026-02-01T00:01:00Z",
		},
		"a moment before the scheduled minute": {
			trigger.Schedule{Cron: "1 * * * *"},
			time.Date(2026, 1, 31, 23, 0, 59, 999, time.UTC),
			"2026-01-31T23:01:00Z",
		},
		"a time in another zone": {
			trigger.Schedule{Cron: "0 0 * * *"},
			time.Date(2026, 3, 1, 4, 0, 0, 0, zone),
			"2026-03-01T00:00:00Z",
		},
		"February 29": {
			trigger.Schedule{Cron: "0 0 29 2 *"},
			time.Date(2024, 3, 1, 0, 0, 0, 0, time.UTC),
			"2028-02-29T00:00:00Z",
		},
		"an interval of a minute": {
			trigger.Schedule{Interval: time.Minute},
			time.Date(2026, 1, 1, 0, 0, 30, 0, time.UTC),
			"2026-01-01T00:01:30Z",
		},
		"a day of the week, by cron": {
			trigger.Schedule{Cron: "0 0 * * 1"},
			time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
			"2026-01-05T00:00:00Z",
		},
	} {
		if got := parse(t, c.schedule).Next(c.after).Format(time.RFC3339Nano); got != c.want {
			t.Errorf("%s: Next() = %s, want %s", name, got, c.want)
		}
	}
}

// TestExpressionMatchesNext evaluates the expressions of random crons as
// AWS documents them, and compares the result with Next at random instants.
func TestExpressionMatchesNext(t *testing.T) {
	matches := func(field string, value int) bool {
		return field == "*" || field == "?" || slices.Contains(strings.Split(field, ","), strconv.Itoa(value))
	}
	field := func(r *rapid.T, name string, from, to int) string {
		low := rapid.IntRange(from, to).Draw(r, name+" from")
		high := rapid.IntRange(low, to).Draw(r, name+" to")
		return rapid.SampledFrom([]string{
			"*", strconv.Itoa(low), strconv.Itoa(low) + "-" + strconv.Itoa(high), strconv.Itoa(low) + "," + strconv.Itoa(high),
			"*/" + strconv.Itoa(max(low, 1)),
		}).Draw(r, name)
	}
	rapid.Check(t, func(r *rapid.T) {
		days := []string{field(r, "dom", 1, 31), field(r, "dow", 0, 6)}
		days[rapid.IntRange(0, 1).Draw(r, "the free day")] = "*"
		spec := strings.Join([]string{
			field(r, "minute", 0, 59), field(r, "hour", 0, 23), days[0], field(r, "month", 1, 12),
			days[1],
		}, " ")
		table, err := timetable.Parse(trigger.Schedule{Cron: spec})
		if err != nil {
			if !strings.Contains(err.Error(), "never due") {
				r.Fatal(err)
			}
			return
		}
		f := strings.Fields(strings.TrimSuffix(strings.TrimPrefix(table.Expression(), "cron("), ")"))
		if len(f) != 6 || (f[2] == "?") == (f[4] == "?") || f[5] != "*" {
			r.Fatalf("Expression() of %s = %s, want six fields, one ? for a day, * for the year", spec, table.Expression())
		}
		due := func(instant time.Time) bool {
			return matches(f[0], instant.Minute()) && matches(f[1], instant.Hour()) && matches(f[2], instant.Day()) &&
				matches(f[3], int(instant.Month())) && matches(f[4], int(instant.Weekday())+1)
		}
		instant := time.Unix(rapid.Int64Range(0, 1<<32).Draw(r, "instant")/60*60, 0).UTC()
		if got := table.Next(instant.Add(-time.Second)).Equal(instant); got != due(instant) {
			r.Fatalf("%s as %s: Next() is due at %s: %t, want %t", spec, table.Expression(), instant, got, due(instant))
		}
		if next := table.Next(instant); !due(next) || next.Second() != 0 {
			r.Fatalf("%s as %s: Next(%s) = %s, want a full minute that is due", spec, table.Expression(), instant, next)
		}
	})
}

// Package timetable says when a declared schedule is due, to the local process
// as the next instant and to AWS as an expression of EventBridge Scheduler. It
// refuses what the two would understand differently, so that a schedule means
// the same in both.
//
// It calls nothing: that is package triggers of the local process, and AWS. It
// is apart from package trigger so that functions link no parser.
package timetable

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/gatewright/gatewright/shared/trigger"
)

// Timetable is when a schedule is due. Make it with Of.
type Timetable struct {
	every time.Duration
	cron  *cron.SpecSchedule // nil for one with every
	// expression is AWS's.
	expression string
}

// fiveFields are the characters of crontab(5). The parser's own extensions, such
// as "@hourly", "?" and "TZ=", have no place here.
var fiveFields = regexp.MustCompile(`^[0-9A-Za-z*,/-]+( [0-9A-Za-z*,/-]+){4}$`)

// Of reads a schedule. It is an error to declare none or both of Every and Cron,
// parts of minutes, what is no cron, what is never due, and a cron of a day of
// the month and of a day of the week: crontab(5) calls on both, and AWS has no
// expression for it. An hour between calls and more is for a cron.
func Of(s trigger.Schedule) (Timetable, error) {
	t, err := of(s)
	if err != nil {
		return Timetable{}, fmt.Errorf("schedule %s: %w", s.Name, err)
	}
	return t, nil
}

func of(s trigger.Schedule) (Timetable, error) {
	switch {
	case s.Every != 0 && s.Cron != "":
		return Timetable{}, fmt.Errorf("it has a time between calls (%s) and a cron (%s): declare one", s.Every, s.Cron)
	case s.Cron != "":
		return ofCron(s.Cron)
	case s.Every <= 0 || s.Every%time.Minute != 0:
		return Timetable{}, fmt.Errorf("it runs every %s: declare a whole number of minutes, or a cron", s.Every)
	case s.Every >= time.Hour:
		// Counted from the deployment, it would run at another minute after each that touches it, twice within an hour or not at all.
		return Timetable{}, fmt.Errorf("it runs every %s: declare when by a cron, such as 11 * * * *", s.Every)
	}
	minutes := int(s.Every / time.Minute)
	if minutes == 1 {
		return Timetable{every: s.Every, expression: "rate(1 minute)"}, nil
	}
	return Timetable{every: s.Every, expression: fmt.Sprintf("rate(%d minutes)", minutes)}, nil
}

func ofCron(spec string) (Timetable, error) {
	if !fiveFields.MatchString(spec) {
		return Timetable{}, fmt.Errorf("the cron %q is not the five fields of crontab(5), one space between them", spec)
	}
	parsed, err := cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow).Parse(spec)
	if err != nil {
		return Timetable{}, fmt.Errorf("the cron %q: %w", spec, err)
	}
	c, ok := parsed.(*cron.SpecSchedule)
	if !ok {
		return Timetable{}, fmt.Errorf("the cron %q is read as a %T", spec, parsed)
	}
	c.Location = time.UTC
	if c.Next(time.Unix(0, 0)).IsZero() {
		return Timetable{}, fmt.Errorf("the cron %q is never due", spec)
	}
	expression, err := expressionOf(c)
	if err != nil {
		return Timetable{}, fmt.Errorf("the cron %q: %w", spec, err)
	}
	return Timetable{cron: c, expression: expression}, nil
}

// Next is when the schedule is due next, after an instant and never at it. One
// with Every is due that long after it.
func (t Timetable) Next(after time.Time) time.Time {
	if t.cron == nil {
		return after.Add(t.every)
	}
	return t.cron.Next(after.UTC())
}

// Expression is the schedule for EventBridge Scheduler, whose time zone is UTC
// where none is given: rate(…), or cron(…) of six fields, the last of them the
// year. (https://docs.aws.amazon.com/scheduler/latest/UserGuide/schedule-types.html)
func (t Timetable) Expression() string { return t.expression }

// unrestricted is the bit of a field that was "*" (cron's starBit).
const unrestricted = 1 << 63

// expressionOf writes what was parsed, and not the text: AWS counts days of the
// week from 1, has "?" for the day that does not matter, and other words.
func expressionOf(c *cron.SpecSchedule) (string, error) {
	dom, dow := values(c.Dom, 1, 31, 0), values(c.Dow, 0, 6, 1)
	switch {
	case c.Dow&unrestricted != 0:
		dow = "?"
	case c.Dom&unrestricted != 0:
		dom = "?"
	default:
		return "", fmt.Errorf("it names a day of the month and a day of the week: AWS has no expression for it, declare two schedules")
	}
	return fmt.Sprintf("cron(%s %s %s %s %s *)", values(c.Minute, 0, 59, 0), values(c.Hour, 0, 23, 0), dom, values(c.Month, 1, 12, 0), dow), nil
}

// values lists the set bits of a field as numbers, each raised by shift: "*" if
// all are.
func values(field uint64, from, to, shift int) string {
	var out []string
	for i := from; i <= to; i++ {
		if field&(1<<i) != 0 {
			out = append(out, strconv.Itoa(i+shift))
		}
	}
	if len(out) == to-from+1 {
		return "*"
	}
	return strings.Join(out, ",")
}

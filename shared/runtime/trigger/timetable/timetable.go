// Package timetable converts a declared schedule: to the time of the next call for the local process, and to an
// expression of EventBridge Scheduler for AWS. It refuses schedules that the local process and AWS would interpret
// differently.
//
// The package does not call functions: package triggers of the local process and AWS
// do. It is not part of package trigger, so that functions do not link a parser.
package timetable

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/gatewright/gatewright/shared/runtime/trigger"
)

// Timetable computes the times of a schedule. Create it with Parse.
type Timetable struct {
	interval time.Duration
	cron     *cron.SpecSchedule // nil for a schedule with Interval
	// expression is the expression for AWS.
	expression string
}

// cronPattern matches five fields with the characters of crontab(5). It excludes the parser's own extensions, such as
// "@hourly", "?" and "TZ=".
var cronPattern = regexp.MustCompile(`^[0-9A-Za-z*,/-]+( [0-9A-Za-z*,/-]+){4}$`)

// Parse parses a schedule. It returns an error if the schedule has neither or both of Interval and Cron, if Interval
// has a fraction of a minute, and if Cron is invalid or never due. It also refuses a cron that restricts both the day
// of the month and the day of the week: crontab(5) calls on days that match either, and AWS has no expression for that.
// It refuses an Interval of an hour or more, which must be declared as a cron.
func Parse(s trigger.Schedule) (Timetable, error) {
	t, err := parse(s)
	if err != nil {
		return Timetable{}, fmt.Errorf("schedule %s: %w", s.Name, err)
	}
	return t, nil
}

func parse(s trigger.Schedule) (Timetable, error) {
	switch {
	case s.Interval != 0 && s.Cron != "":
		return Timetable{}, fmt.Errorf("it has a time between calls (%s) and a cron (%s): declare one", s.Interval, s.Cron)
	case s.Cron != "":
		return parseCron(s.Cron)
	case s.Interval <= 0 || s.Interval%time.Minute != 0:
		return Timetable{}, fmt.Errorf("it runs every %s: declare a whole number of minutes, or a cron", s.Interval)
	case s.Interval >= time.Hour:
		// AWS counts an interval from the deployment of the schedule. Each deployment that changes the schedule
		// would move the minute of its calls, so that it could be called twice within an hour or not at all.
		return Timetable{}, fmt.Errorf("it runs every %s: declare when by a cron, such as 11 * * * *", s.Interval)
	}
	minutes := int(s.Interval / time.Minute)
	if minutes == 1 {
		return Timetable{interval: s.Interval, expression: "rate(1 minute)"}, nil
	}
	return Timetable{interval: s.Interval, expression: fmt.Sprintf("rate(%d minutes)", minutes)}, nil
}

func parseCron(spec string) (Timetable, error) {
	if !cronPattern.MatchString(spec) {
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
	expression, err := awsExpression(c)
	if err != nil {
		return Timetable{}, fmt.Errorf("the cron %q: %w", spec, err)
	}
	return Timetable{cron: c, expression: expression}, nil
}

// Next returns the first time of the schedule that is later than the time called after. For a schedule with Interval,
// it is the sum of after and Interval.
func (t Timetable) Next(after time.Time) time.Time {
	if t.cron == nil {
		return after.Add(t.interval)
	}
	return t.cron.Next(after.UTC())
}

// Expression returns the expression for EventBridge Scheduler, whose default time zone is UTC: rate(…), or cron(…) with
// six fields, the last of them the year. (https://docs.aws.amazon.com/scheduler/latest/UserGuide/schedule-types.html)
func (t Timetable) Expression() string { return t.expression }

// starBit is the bit of a field that was "*" (starBit of package cron).
const starBit = 1 << 63

// awsExpression returns the AWS expression of a parsed cron. It differs from the text in crontab(5): AWS counts days of
// the week from 1, and requires "?" for the day that is not restricted. The expression has numbers instead of names.
func awsExpression(c *cron.SpecSchedule) (string, error) {
	dom, dow := fieldValues(c.Dom, 1, 31, 0), fieldValues(c.Dow, 0, 6, 1)
	switch {
	case c.Dow&starBit != 0:
		dow = "?"
	case c.Dom&starBit != 0:
		dom = "?"
	default:
		return "", fmt.Errorf("it names a day of the month and a day of the week: AWS has no expression for it, declare " +
			"two schedules")
	}
	return fmt.Sprintf("cron(%s %s %s %s %s *)", fieldValues(c.Minute, 0, 59, 0), fieldValues(c.Hour, 0, 23, 0), dom,
		fieldValues(c.Month, 1, 12, 0), dow), nil
}

// fieldValues returns the numbers of the bits that are set in a field, each increased by shift. It considers only the
// bits from first to last, and returns "*" if all of them are set.
func fieldValues(field uint64, first, last, shift int) string {
	var out []string
	for i := first; i <= last; i++ {
		if field&(1<<i) != 0 {
			out = append(out, strconv.Itoa(i+shift))
		}
	}
	if len(out) == last-first+1 {
		return "*"
	}
	return strings.Join(out, ",")
}

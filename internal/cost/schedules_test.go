package cost

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/functions"
	"github.com/gatewright/gatewright/shared/runtime/trigger"
)

func TestEveryScheduleIsBilled(t *testing.T) {
	another := functions.Function{Function: trigger.Function{
		Name:   "new",
		Events: []trigger.Event{{Schedule: &trigger.Schedule{Name: "daily", Cron: "0 3 * * *"}}},
	}}
	for name, c := range map[string]struct {
		fs   []functions.Function
		want string
	}{
		"another schedule":           {append(functions.Triggered(), another), "the schedule new daily has no work"},
		"a schedule that is removed": {nil, "no function declares the schedule"},
	} {
		if _, err := schedules(c.fs); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("schedules(%s) error = %v, want %q", name, err, c.want)
		}
	}
	m := readRepository(t, "")
	if got, want := float64(len(m.schedules)), m.resources["AWS::Scheduler::Schedule"]; got != want {
		t.Errorf("functions declare %g schedules, want %g, as in the templates", got, want)
	}
}

func TestCallsOfSchedulesAreCounted(t *testing.T) {
	for _, c := range []struct {
		schedule trigger.Schedule
		want     float64
	}{
		{trigger.Schedule{Interval: time.Minute}, 43_800},
		{trigger.Schedule{Interval: 5 * time.Minute}, 8_760},
		{trigger.Schedule{Cron: "11 * * * *"}, 730},
		{trigger.Schedule{Cron: "0 */2 * * *"}, 365},
	} {
		if got, err := callsPerMonth(c.schedule); err != nil || got != c.want {
			t.Errorf("callsPerMonth(%+v) = %g, %v, want %g", c.schedule, got, err, c.want)
		}
	}
}

// TestCallsOfAllSchedulesAreTraced checks the price of the traces of all schedules: 2 × 43,800 + 730 calls at $5 a million.
func TestCallsOfAllSchedulesAreTraced(t *testing.T) {
	for _, i := range idle(readRepository(t, "")) {
		if i.name == "traces of the calls of schedules" {
			if math.Abs(i.dollars-0.44165) > 1e-9 || !strings.HasPrefix(i.quantity, "88,330:") {
				t.Errorf("traces cost %g for %s, want 0.44165 for 88,330", i.dollars, i.quantity)
			}
			return
		}
	}
	t.Error("idle() has no item for traces, want one")
}

// TestRotatedKeyCostsMore checks that the first and the second rotation of a key each add $1 a month.
func TestRotatedKeyCostsMore(t *testing.T) {
	m := readRepository(t, "")
	first := billTotal(idle(m))
	lines := strings.Split(strings.TrimSpace(idleTable(m)), "\n")
	for i, want := range []float64{first, first + 1, first + 2} {
		if line := lines[len(lines)-3+i]; !strings.HasSuffix(line, "| **"+formatDollars(want)+"** |") {
			t.Errorf("the line of year %d = %q, want the sum %s at its end", i+1, line, formatDollars(want))
		}
	}
}

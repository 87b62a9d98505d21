package triggers_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/local/triggers"
	"github.com/gatewright/gatewright/shared/runtime/trigger"
)

// scheduledFunction returns a function that appends the times of its calls to calls. Each call
// takes the time that duration returns for its number, and fails.
func scheduledFunction(
	t *testing.T, s trigger.Schedule, duration func(call int) time.Duration, calls *[]time.Time, clock func() time.Time,
) triggers.Function {
	t.Helper()
	return triggers.Function{
		Function: trigger.Function{Name: "f", Timeout: 24 * time.Hour, Events: []trigger.Event{{Schedule: &s}}},
		Handler: handler(func(_ context.Context, payload []byte) ([]byte, error) {
			if want := `{"schedule":"` + s.Name + `"}`; string(payload) != want {
				t.Errorf("event = %s, want %s", payload, want)
			}
			*calls = append(*calls, clock())
			time.Sleep(duration(len(*calls)))
			return nil, errors.New("a failure does not end the schedule")
		}),
	}
}

func noDelay(int) time.Duration { return 0 }

func TestScheduleCallsImmediatelyAndWhenDue(t *testing.T) {
	// The clock of a synctest bubble begins at midnight.
	slow := func(call int) time.Duration {
		if call == 2 {
			return 150 * time.Minute
		}
		return 0
	}
	for name, c := range map[string]struct {
		schedule   trigger.Schedule
		startAfter time.Duration
		duration   func(call int) time.Duration
		runFor     time.Duration
		want       []string
	}{
		"each minute": {
			trigger.Schedule{Interval: time.Minute},
			30 * time.Second, noDelay,
			150 * time.Second,
			[]string{"00:00:30", "00:01:30", "00:02:30"},
		},
		"a cron schedule": {
			trigger.Schedule{Cron: "1 * * * *"},
			90 * time.Minute, noDelay, 2 * time.Hour,
			[]string{"01:30:00", "02:01:00", "03:01:00"},
		},
		"a cron schedule, started a minute before": {
			trigger.Schedule{Cron: "1 * * * *"},
			time.Minute, noDelay, 90 * time.Minute,
			[]string{"00:01:00", "01:01:00"},
		},
		"a slow call delays the next": {
			trigger.Schedule{Interval: 50 * time.Minute},
			0, slow, 5*time.Hour + time.Minute,
			[]string{"00:00:00", "00:50:00", "03:20:00", "04:10:00", "05:00:00"},
		},
		"a slow call, then calls on time": {
			trigger.Schedule{Cron: "1 * * * *"},
			0, slow, 5 * time.Hour,
			[]string{"00:00:00", "00:01:00", "02:31:00", "03:01:00", "04:01:00"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fx := &fixture{}
				var calls []time.Time
				c.schedule.Name = "tick"
				time.Sleep(c.startAfter)
				_, stop := fx.start(t, false, scheduledFunction(t, c.schedule, c.duration, &calls, time.Now))
				time.Sleep(c.runFor)
				stop()
				if got := clockTimes(calls); !slices.Equal(got, c.want) {
					t.Errorf("called at %v, want %v", got, c.want)
				}
			})
		})
	}
}

// TestMissedSchedulesCallOnceAfterSleep simulates a sleep of the machine, during which the wall
// clock advances, but timers do not. The calls that were missed must be made up by one call.
func TestMissedSchedulesCallOnceAfterSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := &fixture{}
		var calls []time.Time
		_, stop := fx.start(t, false, scheduledFunction(t, trigger.Schedule{Cron: "1 * * * *"}, noDelay, &calls, fx.clock))
		time.Sleep(30*time.Minute + 30*time.Second)
		fx.clockOffset.Store(int64(5 * time.Hour))
		time.Sleep(time.Hour)
		stop()
		// The schedule checks the clock every minute, counted from its last call at 00:01:00. The next check is 30 s after
		// the sleep, at 05:31:00.
		if got, want := clockTimes(calls),
			[]string{"00:00:00", "00:01:00", "05:31:00", "06:01:00"}; !slices.Equal(got, want) {
			t.Errorf("called at %v, want %v", got, want)
		}
	})
}

// TestClockSetBackDelaysNoCall checks that after the clock was set back,
// a schedule does not wait until the clock reaches the former time again.
func TestClockSetBackDelaysNoCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := &fixture{}
		fx.clockOffset.Store(int64(72 * time.Hour))
		var calls []time.Time
		_, stop := fx.start(t, false, scheduledFunction(t, trigger.Schedule{Cron: "1 * * * *"}, noDelay, &calls, fx.clock))
		time.Sleep(90 * time.Second)
		fx.clockOffset.Store(0)
		time.Sleep(2 * time.Hour)
		stop()
		if got, want := clockTimes(calls),
			[]string{"00:00:00", "00:01:00", "01:01:00", "02:01:00"}; !slices.Equal(got, want) {
			t.Errorf("called at %v, want %v", got, want)
		}
	})
}

func TestInvalidScheduleIsRefused(t *testing.T) {
	_, err := triggers.New(triggers.Options{
		Functions: []triggers.Function{
			{Function: trigger.Function{
				Name:   "f",
				Events: []trigger.Event{{Schedule: &trigger.Schedule{Name: "never", Cron: "0 0 30 2 *"}}},
			}},
		},
		Log: slog.New(slog.DiscardHandler),
	})
	if err == nil || !strings.Contains(err.Error(), "function f: schedule never") {
		t.Errorf("New(impossible schedule) = %v, want an error with \"function f: schedule never\"", err)
	}
}

func clockTimes(times []time.Time) (out []string) {
	for _, t := range times {
		out = append(out, t.UTC().Format(time.TimeOnly))
	}
	return out
}

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
	"github.com/gatewright/gatewright/shared/trigger"
)

// scheduled is a function that remembers when it was called, each call of which
// takes a time and fails.
func scheduled(t *testing.T, s trigger.Schedule, takes func(call int) time.Duration, called *[]time.Time, clock func() time.Time) triggers.Function {
	t.Helper()
	return triggers.Function{
		Function: trigger.Function{Name: "f", Timeout: 24 * time.Hour, On: []trigger.Event{{Schedule: &s}}},
		Handler: handler(func(_ context.Context, payload []byte) ([]byte, error) {
			if want := `{"schedule":"` + s.Name + `"}`; string(payload) != want {
				t.Errorf("event %s, want %s", payload, want)
			}
			*called = append(*called, clock())
			time.Sleep(takes(len(*called)))
			return nil, errors.New("a failure does not end the schedule")
		}),
	}
}

func atOnce(int) time.Duration { return 0 }

func TestScheduleCallsAtOnceAndThenWhenItIsDue(t *testing.T) {
	// A bubble begins at midnight.
	slow := func(call int) time.Duration {
		if call == 2 {
			return 150 * time.Minute
		}
		return 0
	}
	for name, c := range map[string]struct {
		schedule trigger.Schedule
		starts   time.Duration
		takes    func(call int) time.Duration
		runs     time.Duration
		want     []string
	}{
		"each minute":                   {trigger.Schedule{Every: time.Minute}, 30 * time.Second, atOnce, 150 * time.Second, []string{"00:00:30", "00:01:30", "00:02:30"}},
		"by the clock":                  {trigger.Schedule{Cron: "1 * * * *"}, 90 * time.Minute, atOnce, 2 * time.Hour, []string{"01:30:00", "02:01:00", "03:01:00"}},
		"by the clock, once at it":      {trigger.Schedule{Cron: "1 * * * *"}, time.Minute, atOnce, 90 * time.Minute, []string{"00:01:00", "01:01:00"}},
		"a slow call delays the next":   {trigger.Schedule{Every: 50 * time.Minute}, 0, slow, 5*time.Hour + time.Minute, []string{"00:00:00", "00:50:00", "03:20:00", "04:10:00", "05:00:00"}},
		"a slow call, and then on time": {trigger.Schedule{Cron: "1 * * * *"}, 0, slow, 5 * time.Hour, []string{"00:00:00", "00:01:00", "02:31:00", "03:01:00", "04:01:00"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &world{}
				var calls []time.Time
				c.schedule.Name = "tick"
				time.Sleep(c.starts)
				_, stop := w.start(t, false, scheduled(t, c.schedule, c.takes, &calls, time.Now))
				time.Sleep(c.runs)
				stop()
				if got := clockTimes(calls); !slices.Equal(got, c.want) {
					t.Errorf("called at %v, want %v", got, c.want)
				}
			})
		})
	}
}

// TestMachineThatSleptCallsOnceWhenItWakes: its wall clock goes on, and its
// timers do not.
func TestMachineThatSleptCallsOnceWhenItWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		var calls []time.Time
		_, stop := w.start(t, false, scheduled(t, trigger.Schedule{Cron: "1 * * * *"}, atOnce, &calls, w.clock))
		time.Sleep(30*time.Minute + 30*time.Second)
		w.ahead.Store(int64(5 * time.Hour))
		time.Sleep(time.Hour)
		stop()
		// It looks at the clock each minute after its last call.
		if got, want := clockTimes(calls), []string{"00:00:00", "00:01:00", "05:31:00", "06:01:00"}; !slices.Equal(got, want) {
			t.Errorf("called at %v, want %v", got, want)
		}
	})
}

// TestClockSetBackDelaysNoCall: a schedule that waited for the time it had been
// would not call for as long.
func TestClockSetBackDelaysNoCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		w.ahead.Store(int64(72 * time.Hour))
		var calls []time.Time
		_, stop := w.start(t, false, scheduled(t, trigger.Schedule{Cron: "1 * * * *"}, atOnce, &calls, w.clock))
		time.Sleep(90 * time.Second)
		w.ahead.Store(0)
		time.Sleep(2 * time.Hour)
		stop()
		if got, want := clockTimes(calls), []string{"00:00:00", "00:01:00", "01:01:00", "02:01:00"}; !slices.Equal(got, want) {
			t.Errorf("called at %v, want %v", got, want)
		}
	})
}

func TestScheduleThatIsNoneIsRefused(t *testing.T) {
	_, err := triggers.New(triggers.Options{
		Functions: []triggers.Function{{Function: trigger.Function{Name: "f", On: []trigger.Event{{Schedule: &trigger.Schedule{Name: "never", Cron: "0 0 30 2 *"}}}}}},
		Log:       slog.New(slog.DiscardHandler),
	})
	if err == nil || !strings.Contains(err.Error(), "function f: schedule never") {
		t.Errorf("error %v", err)
	}
}

func clockTimes(at []time.Time) (out []string) {
	for _, t := range at {
		out = append(out, t.UTC().Format(time.TimeOnly))
	}
	return out
}

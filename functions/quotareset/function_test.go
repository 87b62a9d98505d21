package quotareset_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/functions/quotareset"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
	"github.com/gatewright/gatewright/shared/resource/metering"
	"github.com/gatewright/gatewright/shared/runtime/trigger/timetable"
)

// fakeCloser is a PeriodCloser that records the times of its calls.
type fakeCloser struct {
	times []time.Time
	err   error
}

func (c *fakeCloser) Begin(_ context.Context, now time.Time) (int, error) {
	c.times = append(c.times, now)
	return 1, c.err
}

func TestScheduleClosesDuePeriods(t *testing.T) {
	closer := &fakeCloser{}
	var log strings.Builder
	handler := quotareset.Handler(closer, func() time.Time { return storetest.Epoch },
		slog.New(slog.NewTextHandler(&log, nil)))
	if err := handler(t.Context(), []byte(`{"schedule":"hourly"}`)); err != nil || len(closer.times) != 1 ||
		!closer.times[0].Equal(storetest.Epoch) {
		t.Errorf("handler() = %v, with calls at %v, want one at %v", err, closer.times, storetest.Epoch)
	}
	if !strings.Contains(log.String(), "operations=1") {
		t.Errorf("log = %s, want operations=1", &log)
	}
	closer.err = errors.New("no store")
	if err := handler(t.Context(), nil); !errors.Is(err, closer.err) {
		t.Errorf("handler() with a failing closer: error = %v, want %v", err, closer.err)
	}
}

// TestScheduleRunsSoonAfterPeriodsAreDue checks that the schedule calls the function shortly after the periods that
// have ended at midnight are due.
func TestScheduleRunsSoonAfterPeriodsAreDue(t *testing.T) {
	schedule, err := timetable.Parse(*quotareset.Function.Events[0].Schedule)
	if err != nil {
		t.Fatal(err)
	}
	midnight := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	due := midnight.Add(metering.SettleTime)
	if next := schedule.Next(due); next.Sub(due) > 5*time.Minute {
		t.Errorf("Next(%s) = %s, want at most 5 minutes later", due, next)
	}
	if interval := schedule.Next(schedule.Next(due)).Sub(schedule.Next(due)); interval > time.Hour {
		t.Errorf("interval of the schedule = %s, want at most 1h", interval)
	}
}

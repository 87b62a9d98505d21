package quotareset_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/functions/quotareset"
	"github.com/gatewright/gatewright/shared/metering"
	"github.com/gatewright/gatewright/shared/store/storetest"
	"github.com/gatewright/gatewright/shared/trigger/timetable"
)

// job remembers when it was called.
type job struct {
	at  []time.Time
	err error
}

func (j *job) Begin(_ context.Context, now time.Time) (int, error) {
	j.at = append(j.at, now)
	return 1, j.err
}

func TestScheduleBeginsWhatIsDueNow(t *testing.T) {
	j := &job{}
	var log strings.Builder
	handler := quotareset.Handler(j, func() time.Time { return storetest.Epoch }, slog.New(slog.NewTextHandler(&log, nil)))
	if err := handler(t.Context(), []byte(`{"schedule":"hourly"}`)); err != nil || len(j.at) != 1 || !j.at[0].Equal(storetest.Epoch) {
		t.Errorf("it was called at %v, %v", j.at, err)
	}
	if !strings.Contains(log.String(), "operations=1") {
		t.Errorf("the log is %s", &log)
	}
	j.err = errors.New("no store")
	if err := handler(t.Context(), nil); !errors.Is(err, j.err) {
		t.Errorf("a failure answers %v", err)
	}
}

// TestPeriodsThatEndAreClosedSoonAfter: they are due once they have settled, and wait for
// the schedule then.
func TestPeriodsThatEndAreClosedSoonAfter(t *testing.T) {
	table, err := timetable.Of(*quotareset.Function.On[0].Schedule)
	if err != nil {
		t.Fatal(err)
	}
	midnight := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	due := midnight.Add(metering.Settle)
	if next := table.Next(due); next.Sub(due) > 5*time.Minute {
		t.Errorf("what is due at %s waits until %s", due, next)
	}
	if gap := table.Next(table.Next(due)).Sub(table.Next(due)); gap > time.Hour {
		t.Errorf("it comes every %s", gap)
	}
}

package boundaries_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gatewright/gatewright/shared/boundaries"
	"github.com/gatewright/gatewright/shared/meter"
	"github.com/gatewright/gatewright/shared/metering"
	"github.com/gatewright/gatewright/shared/operation"
	"github.com/gatewright/gatewright/shared/store"
)

func day(year int, month time.Month, day int) time.Time {
	return time.Date(year, month, day, 15, 4, 5, 0, time.UTC)
}

// TestMissedRunsWriteEachPeriodOnce: the installation is at 14 March 2026 when the job
// comes for the first time.
func TestMissedRunsWriteEachPeriodOnce(t *testing.T) {
	w := newWorld(t)
	monthly := w.subscribed(day(2025, 10, 31), meter.Monthly, 0)
	yearly := w.subscribed(day(2024, 2, 29), meter.Yearly, 0)
	long := w.subscribed(day(2023, 1, 1), meter.Monthly, 0) // more than a Close writes down
	fresh := w.subscribed(day(2026, 3, 1), meter.Monthly, 0)
	trial := w.subscribed(day(2026, 3, 10), meter.Monthly, 3)
	if n := w.run(w.parts); n == 0 || len(w.due()) > 0 {
		t.Fatalf("%d operations, %d are still due", n, len(w.due()))
	}
	if got, want := w.rows(monthly), []string{"2025-10-31", "2025-11-30", "2025-12-31", "2026-01-31"}; !slices.Equal(got, want) {
		t.Errorf("monthly: %v, want %v", got, want)
	}
	if got, want := w.rows(yearly), []string{"2024-02-29", "2025-02-28"}; !slices.Equal(got, want) {
		t.Errorf("yearly: %v, want %v", got, want)
	}
	if got := w.rows(long); len(got) != 38 || got[0] != "2023-01-01" || got[37] != "2026-02-01" {
		t.Errorf("for years: %v", got)
	}
	if got := append(w.rows(fresh), w.rows(trial)...); len(got) > 0 {
		t.Errorf("periods that have not ended are written down: %v", got)
	}
	if got := w.status(trial); got != metering.Paused {
		t.Errorf("a trial that is over is %s", got)
	}
	if !strings.Contains(w.log.String(), "closed=") {
		t.Errorf("the log tells no numbers: %s", &w.log)
	}
}

// TestRepeatedRunChangesNothing: of the same minute it begins nothing, and of a later
// one it finds nothing.
func TestRepeatedRunChangesNothing(t *testing.T) {
	w := newWorld(t)
	for i := range 40 {
		w.subscribed(day(2025, 10, 1+i%28), meter.Monthly, 0)
	}
	service := boundaries.Open(w.parts)
	first, err := service.Begin(t.Context(), w.now)
	w.must(err)
	second, err := service.Begin(t.Context(), w.now.Add(time.Second))
	w.must(err)
	if first == 0 || second != 0 {
		t.Errorf("%d operations are begun, and then %d", first, second)
	}
	w.sweep(w.parts)
	after := w.table()
	w.now = w.now.Add(time.Minute)
	if n := w.run(w.parts); n != 0 {
		t.Errorf("%d operations are begun for nothing", n)
	}
	if diff := cmp.Diff(after, w.table()); diff != "" {
		t.Error(diff)
	}
}

// undisturbed gives what the table has after a run, and how many commits that took.
func undisturbed(t *testing.T, fill func(*world)) (want map[string]any, commits int) {
	t.Helper()
	w := newWorld(t)
	fill(w)
	counted := &dying{Backend: w.items, after: 1 << 30}
	w.run(w.over(counted))
	return w.table(), 1<<30 - int(counted.left())
}

// fill makes subscriptions of which a few are due, and one has many periods to come.
func fill(w *world) {
	w.subscribed(day(2023, 1, 1), meter.Monthly, 0)
	for i := range 12 {
		w.subscribed(day(2025, 11, 1+i), meter.Monthly, 0)
		w.subscribed(day(2026, 3, 1+i), meter.Monthly, 1)
		w.subscribed(day(2026, 3, 1+i), meter.Monthly, 0)
	}
}

// TestRunThatDiesAnywhereIsFinishedByTheNext: it is cut before each of its commits.
func TestRunThatDiesAnywhereIsFinishedByTheNext(t *testing.T) {
	want, commits := undisturbed(t, fill)
	for at := 0; at < commits; at += 3 {
		w := newWorld(t)
		fill(w)
		p := w.over(&dying{Backend: w.items, after: at})
		_, _ = boundaries.Open(p).Begin(t.Context(), w.now)
		_ = w.engine(p).Sweep(t.Context())
		for range 3 { // leases of the dead end, and pauses
			w.now = w.now.Add(time.Hour)
			w.run(w.parts)
		}
		w.now = w.now.Add(-3 * time.Hour)
		if diff := cmp.Diff(want, w.table()); diff != "" {
			t.Fatalf("it died before commit %d of %d: %s", at+1, commits, diff)
		}
	}
}

// dying is the table of a process that is gone after so many commits.
type dying struct {
	store.Backend
	after int
	made  atomic.Int64
}

var errDead = errors.New("the process is gone")

func (d *dying) left() int64 { return int64(d.after) - d.made.Load() }

// Transact implements store.Backend.
func (d *dying) Transact(ctx context.Context, token string, writes []store.Write) error {
	if d.made.Add(1) > int64(d.after) {
		return errDead
	}
	return d.Backend.Transact(ctx, token, writes)
}

// TestRunsAtTheSameTimeCloseOnce: of different minutes, so that each has operations of
// its own.
func TestRunsAtTheSameTimeCloseOnce(t *testing.T) {
	want, _ := undisturbed(t, fill)
	w := newWorld(t)
	fill(w)
	service := boundaries.Open(w.parts)
	for i := range 3 {
		_, err := service.Begin(t.Context(), w.now.Add(time.Duration(i)*time.Minute))
		w.must(err)
	}
	w.now = w.now.Add(2 * time.Minute)
	parts := w.parts
	parts.Random = rand.Reader // which three may read at once
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() { w.sweep(parts) })
	}
	all.Wait()
	for _, r := range w.operations() {
		t.Errorf("operation %s has not ended: %s", r.ID, r.LastFailure())
	}
	w.now = w.now.Add(-2 * time.Minute)
	if diff := cmp.Diff(want, w.table()); diff != "" {
		t.Error(diff)
	}
}

// operations are those that have not ended.
func (w *world) operations() []operation.Record {
	w.Helper()
	found, err := w.engine(w.parts).List(w.Context())
	w.must(err)
	return found
}

// TestBrokenSubscriptionBlocksNoOther: it has an operation of its own, once, which a
// person finds by its name and which succeeds when the data is mended.
func TestBrokenSubscriptionBlocksNoOther(t *testing.T) {
	w := newWorld(t)
	broken := w.subscribed(day(2025, 10, 1), meter.Monthly, 0) // due before all others
	var others []string
	for i := range 30 {
		others = append(others, w.subscribed(day(2025, 11, 1+i%28), meter.Monthly, 0).ID)
	}
	key := w.keyOf(broken)
	set := func(open any) {
		w.must(w.items.Transact(t.Context(), fmt.Sprint(open), []store.Write{store.Update(key, store.Set(store.At("open"), open), store.Add(store.At("version"), 1))}))
	}
	set("yesterday")
	for range 3 {
		w.run(w.parts)
		w.now = w.now.Add(time.Hour)
	}
	if due := w.due(); len(due) != 1 || due[0] != key {
		t.Errorf("%v of %d is still due", due, len(others))
	}
	left := w.operations()
	if len(left) != 1 || left[0].Kind != boundaries.Stubborn || left[0].Subject != broken.ID || left[0].InVain() == 0 {
		t.Fatalf("there is left: %+v", left)
	}
	if !strings.Contains(w.log.String(), "subscription="+broken.ID) {
		t.Errorf("the log does not name %s: %s", broken.ID, &w.log)
	}
	set(time.Date(2025, 10, 1, 0, 0, 0, 0, time.UTC))
	if _, err := w.engine(w.parts).Resume(t.Context(), left[0].ID); err != nil {
		t.Fatal(err)
	}
	w.sweep(w.parts)
	if got := w.rows(broken); len(w.operations()) > 0 || len(w.due()) > 0 || len(got) != 5 {
		t.Errorf("mended, it has %v, due are %v", got, w.due())
	}
}

// failing is a service that closes nothing.
type failing struct{}

func (failing) Close(context.Context, store.Key, time.Time) ([]store.Write, bool, error) {
	return nil, false, errors.New("no")
}

// TestFailureOfAllIsNotTheSubscriptions: as many operations as there are subscriptions
// would tell nobody anything.
func TestFailureOfAllIsNotTheSubscriptions(t *testing.T) {
	w := newWorld(t)
	for i := range 500 {
		w.subscribed(day(2025, 11, 1+i%28), meter.Monthly, 0)
	}
	service := boundaries.New(w.parts.Table, failing{}, w.parts.Log)
	begun, err := service.Begin(t.Context(), w.now)
	w.must(err)
	e, err := operation.New(w.parts.Table, service.Definitions(), operation.Options{
		Now: w.parts.Now, Random: w.parts.Random, Log: w.parts.Log, Jitter: func(time.Duration) time.Duration { return 10 * time.Minute },
	})
	w.must(err)
	w.must(e.Sweep(t.Context()))
	if left := w.operations(); len(left) != begun {
		t.Errorf("%d operations are left of %d", len(left), begun)
	}
	w.now = w.now.Add(time.Hour)
	w.sweep(w.parts) // the release is mended
	if due, left := w.due(), w.operations(); len(due) > 0 || len(left) > 0 {
		t.Errorf("%d are still due, %d operations left", len(due), len(left))
	}
}

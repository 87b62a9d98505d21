package billingperiods_test

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

	"github.com/gatewright/gatewright/shared/core/operation"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/format/meter"
	"github.com/gatewright/gatewright/shared/resource/billingperiods"
	"github.com/gatewright/gatewright/shared/resource/metering"
)

// day returns a time in the afternoon of a day.
func day(year int, month time.Month, day int) time.Time {
	return time.Date(year, month, day, 15, 4, 5, 0, time.UTC)
}

// TestMissedRunsWriteEachPeriodOnce runs the job for the first time on March 14, 2026, after many periods have ended.
// Each period must be recorded once.
func TestMissedRunsWriteEachPeriodOnce(t *testing.T) {
	fx := newFixture(t)
	monthly := fx.mustSubscribe(day(2025, 10, 31), meter.Monthly, 0)
	yearly := fx.mustSubscribe(day(2024, 2, 29), meter.Yearly, 0)
	multiYear := fx.mustSubscribe(day(2023, 1, 1), meter.Monthly, 0) // more periods than one Close records
	recent := fx.mustSubscribe(day(2026, 3, 1), meter.Monthly, 0)
	trial := fx.mustSubscribe(day(2026, 3, 10), meter.Monthly, 3)
	if n := fx.run(fx.parts); n == 0 || len(fx.due()) > 0 {
		t.Fatalf("first run begins %d operations, and %d subscriptions are still due, want some and 0", n, len(fx.due()))
	}
	if got, want := fx.recordedPeriods(monthly),
		[]string{"2025-10-31", "2025-11-30", "2025-12-31", "2026-01-31"}; !slices.Equal(got, want) {
		t.Errorf("recorded periods of the monthly subscription = %v, want %v", got, want)
	}
	if got, want := fx.recordedPeriods(yearly), []string{"2024-02-29", "2025-02-28"}; !slices.Equal(got, want) {
		t.Errorf("recorded periods of the yearly subscription = %v, want %v", got, want)
	}
	if got := fx.recordedPeriods(multiYear); len(got) != 38 || got[0] != "2023-01-01" || got[37] != "2026-02-01" {
		t.Errorf("periods of the subscription since 2023 = %v, want 38 from 2023-01-01 to 2026-02-01", got)
	}
	if got := append(fx.recordedPeriods(recent), fx.recordedPeriods(trial)...); len(got) > 0 {
		t.Errorf("recorded periods that have not ended = %v, want none", got)
	}
	if got := fx.status(trial); got != metering.Paused {
		t.Errorf("status after the trial = %s, want %s", got, metering.Paused)
	}
	if !strings.Contains(fx.log.String(), "closed=") {
		t.Errorf("log = %s, want closed= with a number", &fx.log)
	}
}

// TestRepeatedRunChangesNothing checks that a run in the same minute begins no operation, and a later run finds no due subscription.
func TestRepeatedRunChangesNothing(t *testing.T) {
	fx := newFixture(t)
	for i := range 40 {
		fx.mustSubscribe(day(2025, 10, 1+i%28), meter.Monthly, 0)
	}
	service := billingperiods.Open(fx.parts)
	first, err := service.Begin(t.Context(), fx.now)
	fx.noError(err)
	second, err := service.Begin(t.Context(), fx.now.Add(time.Second))
	fx.noError(err)
	if first == 0 || second != 0 {
		t.Errorf("Begin() = %d operations, then %d, want some and 0", first, second)
	}
	fx.sweep(fx.parts)
	after := fx.table()
	fx.now = fx.now.Add(time.Minute)
	if n := fx.run(fx.parts); n != 0 {
		t.Errorf("run without due subscriptions begins %d operations, want 0", n)
	}
	if diff := cmp.Diff(after, fx.table()); diff != "" {
		t.Errorf("a run without due subscriptions changes the table, want no change (-before +after):\n%s", diff)
	}
}

// expectedTable returns the contents of the table after a run, and the number of commits.
func expectedTable(t *testing.T, fill func(*fixture)) (want map[string]any, commits int) {
	t.Helper()
	fx := newFixture(t)
	fill(fx)
	backend := &dyingBackend{Backend: fx.items, maxCommits: 1 << 30}
	fx.run(fx.partsOver(backend))
	return fx.table(), int(backend.commits.Load())
}

// fillTable creates subscriptions. Some of them are due, and one has many periods to record.
func fillTable(fx *fixture) {
	fx.mustSubscribe(day(2023, 1, 1), meter.Monthly, 0)
	for i := range 12 {
		fx.mustSubscribe(day(2025, 11, 1+i), meter.Monthly, 0)
		fx.mustSubscribe(day(2026, 3, 1+i), meter.Monthly, 1)
		fx.mustSubscribe(day(2026, 3, 1+i), meter.Monthly, 0)
	}
}

// TestCrashedRunIsFinishedByLaterRuns stops a run before its first commit, before its fourth, and so on, and checks
// that later runs complete the table.
func TestCrashedRunIsFinishedByLaterRuns(t *testing.T) {
	want, commits := expectedTable(t, fillTable)
	for maxCommits := 0; maxCommits < commits; maxCommits += 3 {
		fx := newFixture(t)
		fillTable(fx)
		p := fx.partsOver(&dyingBackend{Backend: fx.items, maxCommits: maxCommits})
		_, _ = billingperiods.Open(p).Begin(t.Context(), fx.now)
		_ = fx.engine(p).Sweep(t.Context())
		for range 3 { // until the leases of the dead process and the pauses between retries have ended
			fx.now = fx.now.Add(time.Hour)
			fx.run(fx.parts)
		}
		fx.now = fx.now.Add(-3 * time.Hour)
		if diff := cmp.Diff(want, fx.table()); diff != "" {
			t.Fatalf("table after a crash before commit %d of %d differs (-want +got): %s", maxCommits+1, commits, diff)
		}
	}
}

// dyingBackend is the table of a process that dies after maxCommits commits.
type dyingBackend struct {
	store.Backend
	maxCommits int
	commits    atomic.Int64
}

var errProcessDied = errors.New("the process has died")

// Transact implements store.Backend.
func (d *dyingBackend) Transact(ctx context.Context, token string, writes []store.Write) error {
	if d.commits.Add(1) > int64(d.maxCommits) {
		return errProcessDied
	}
	return d.Backend.Transact(ctx, token, writes)
}

// TestConcurrentRunsCloseOnce checks that three concurrent runs have the same result as a single run. They begin in
// different minutes, so that each run has its own operations.
func TestConcurrentRunsCloseOnce(t *testing.T) {
	want, _ := expectedTable(t, fillTable)
	fx := newFixture(t)
	fillTable(fx)
	service := billingperiods.Open(fx.parts)
	for i := range 3 {
		_, err := service.Begin(t.Context(), fx.now.Add(time.Duration(i)*time.Minute))
		fx.noError(err)
	}
	fx.now = fx.now.Add(2 * time.Minute)
	parts := fx.parts
	parts.Random = rand.Reader // which is safe for concurrent use
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() { fx.sweep(parts) })
	}
	all.Wait()
	for _, r := range fx.unfinishedOperations() {
		t.Errorf("operation %s has not ended, want success: %s", r.ID, r.LastFailure())
	}
	fx.now = fx.now.Add(-2 * time.Minute)
	if diff := cmp.Diff(want, fx.table()); diff != "" {
		t.Errorf("table after concurrent runs differs (-want +got):\n%s", diff)
	}
}

// unfinishedOperations returns the operations that have not ended.
func (fx *fixture) unfinishedOperations() []operation.Record {
	fx.Helper()
	found, err := fx.engine(fx.parts).List(fx.Context())
	fx.noError(err)
	return found
}

// TestBrokenSubscriptionDoesNotBlockOthers checks that a broken subscription gets one separate
// operation, which a person can find by its name and which succeeds after the data is repaired.
func TestBrokenSubscriptionDoesNotBlockOthers(t *testing.T) {
	fx := newFixture(t)
	broken := fx.mustSubscribe(day(2025, 10, 1), meter.Monthly, 0) // it is due before all others
	for i := range 30 {
		fx.mustSubscribe(day(2025, 11, 1+i%28), meter.Monthly, 0)
	}
	key := fx.keyOf(broken)
	setOpenPeriodStart := func(open any) {
		fx.noError(fx.items.Transact(t.Context(), fmt.Sprint(open),
			[]store.Write{store.Update(key, store.Set(store.At("open"), open), store.Add(store.At("version"), 1))}))
	}
	setOpenPeriodStart("yesterday")
	for range 3 {
		fx.run(fx.parts)
		fx.now = fx.now.Add(time.Hour)
	}
	if due := fx.due(); len(due) != 1 || due[0] != key {
		t.Errorf("due() = %v, want only %v", due, key)
	}
	remaining := fx.unfinishedOperations()
	if len(remaining) != 1 || remaining[0].Kind != billingperiods.CloseOne || remaining[0].Subject != broken.ID ||
		remaining[0].FailedAttempts() == 0 {
		t.Fatalf("remaining operations = %+v, want one failed %s of %s", remaining, billingperiods.CloseOne, broken.ID)
	}
	if !strings.Contains(fx.log.String(), "subscription="+broken.ID) {
		t.Errorf("log = %s, want subscription=%s", &fx.log, broken.ID)
	}
	setOpenPeriodStart(time.Date(2025, 10, 1, 0, 0, 0, 0, time.UTC))
	if _, err := fx.engine(fx.parts).Resume(t.Context(), remaining[0].ID); err != nil {
		t.Fatalf("Resume(%s) error = %v, want none", remaining[0].ID, err)
	}
	fx.sweep(fx.parts)
	if got := fx.recordedPeriods(broken); len(fx.unfinishedOperations()) > 0 || len(fx.due()) > 0 || len(got) != 5 {
		t.Errorf("repaired subscription: %d operations, due %v, periods %v, want none, none and 5 periods",
			len(fx.unfinishedOperations()), fx.due(), got)
	}
}

// failingSubscriptions is a service that cannot close any subscription.
type failingSubscriptions struct{}

func (failingSubscriptions) Close(context.Context, store.Key, time.Time) ([]store.Write, bool, error) {
	return nil, false, errors.New("simulated failure")
}

// TestTotalFailureStartsNoSeparateOperations checks that no separate operations start if all subscriptions fail. An
// operation for each subscription would hide the common cause. After the repair, all subscriptions must be closed.
func TestTotalFailureStartsNoSeparateOperations(t *testing.T) {
	fx := newFixture(t)
	for i := range 1200 { // enough that each of the 16 shards gets more than maxFailures subscriptions
		fx.mustSubscribe(day(2025, 11, 1+i%28), meter.Monthly, 0)
	}
	service := billingperiods.New(fx.parts.Table, failingSubscriptions{}, fx.parts.Log)
	started, err := service.Begin(t.Context(), fx.now)
	fx.noError(err)
	e, err := operation.New(fx.parts.Table, service.Definitions(), operation.Options{
		Now: fx.parts.Now, Random: fx.parts.Random, Log: fx.parts.Log, Jitter: func(time.Duration) time.Duration {
			return 10 * time.Minute
		},
	})
	fx.noError(err)
	fx.noError(e.Sweep(t.Context()))
	if remaining := fx.unfinishedOperations(); len(remaining) != started {
		t.Errorf("%d operations remain, want %d", len(remaining), started)
	}
	fx.now = fx.now.Add(time.Hour)
	fx.sweep(fx.parts) // with the service of fx.engine, which can close subscriptions
	if due, remaining := fx.due(), fx.unfinishedOperations(); len(due) > 0 || len(remaining) > 0 {
		t.Errorf("after the repair: %d subscriptions due, %d operations remaining, want 0 and 0", len(due), len(remaining))
	}
}

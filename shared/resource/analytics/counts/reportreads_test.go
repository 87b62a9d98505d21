package counts

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
	"github.com/gatewright/gatewright/shared/resource/analytics"
	"github.com/gatewright/gatewright/shared/testing/simulations"
)

// TestReportWithManyGatewaysReadsFewItems checks that a report reads at most 100 items, after 200 gateways have written
// at the same times in an hour without a rollup.
func TestReportWithManyGatewaysReadsFewItems(t *testing.T) {
	t.Parallel()
	fx := newFixture(t)
	fx.time = fx.time.Truncate(day).Add(2*time.Hour + 57*time.Minute) // a time at which windows begin with many short rows
	end := fx.time
	one := fx.collector()
	calls := int64(0)
	for at := end.Add(-92 * day); at.Before(end.Add(-time.Hour)); {
		fx.time = at
		one.Call(newCall("acme", 200, at))
		calls++
		fx.drain(one)
		fx.rollup()
		switch remaining := end.Sub(at); {
		case remaining > 31*day:
			at = at.Add(day)
		case remaining > 25*time.Hour:
			at = at.Add(time.Hour)
		default:
			at = at.Add(finest.duration)
		}
	}
	const gateways, rounds = 200, 3
	all := make([]*Collector, gateways)
	for i := range all {
		all[i] = fx.collector()
	}
	for round := range rounds {
		fx.time = end.Add(-time.Hour).Add(time.Duration(round) * 30 * time.Minute)
		var group errgroup.Group
		for _, c := range all {
			c.Call(newCall("acme", 200, fx.time))
			c.Operation(newOperation("List", time.Millisecond, fx.time))
			calls++
			group.Go(func() error {
				for {
					if err := c.Drain(t.Context()); !errors.Is(err, errConflict) {
						return err
					}
				}
			})
		}
		if err := group.Wait(); err != nil {
			t.Fatalf("Drain() in round %d: error = %v, want none", round, err)
		}
	}
	for _, window := range []Window{LastHour, Last24Hours, Last7Days, Last30Days, LastThreeMonths} {
		backend := &countingBackend{Backend: fx.items}
		r := NewReader(store.New(backend, store.Options{Random: fx.random, Now: fx.now}), fx.now)
		got, err := r.Statuses(t.Context(), shop.Name, window, allCallers)
		if err != nil {
			t.Fatalf("Statuses(%s) error = %v, want none", window, err)
		}
		if backend.items.Load() > 100 || backend.items.Load() < bucketCount {
			t.Errorf("%s reads %d items, want %d to 100", window, backend.items.Load(), bucketCount)
		}
		t.Logf("%s reads %d items", window, backend.items.Load())
		if n := got.Totals[0].Calls; window == LastThreeMonths && n != calls {
			t.Errorf("%s counts %d calls, want %d", window, n, calls)
		}
	}
	backend := &countingBackend{Backend: fx.items}
	r := NewReader(store.New(backend, store.Options{Random: fx.random, Now: fx.now}), fx.now)
	if got, err := r.Recent(t.Context(), shop.Name, allCallers, maxRecent); err != nil || len(got) < gateways*rounds ||
		backend.items.Load() > 100 {
		t.Errorf("Recent() = %d calls from %d items, %v, want at least %d calls from at most 100 items",
			len(got), backend.items.Load(), err, gateways*rounds)
	}
}

// TestReportReadsFewItemsAtAllTimes computes how many items a report reads, and checks that there are at most 100, at
// all times of a week.
func TestReportReadsFewItemsAtAllTimes(t *testing.T) {
	t.Parallel()
	for _, w := range []Window{LastHour, Last24Hours, Last7Days, Last30Days, LastThreeMonths} {
		s, err := w.span()
		if err != nil {
			t.Fatalf("span() of %s: error = %v, want none", w, err)
		}
		maxItems := 0
		for after := time.Duration(0); after < 7*day; after += time.Minute {
			now := storetest.Epoch.Add(after)
			const versionReads = 2
			items := bucketCount + versionReads
			_, runs := s.cover(now)
			for _, r := range runs {
				items += int((min(r.to, now.Unix())-r.from)/int64(r.resolution.duration/time.Second)) + 1
			}
			maxItems = max(maxItems, items)
		}
		t.Logf("%s: %d items", w, maxItems)
		if maxItems > 100 {
			t.Errorf("%s takes %d items, want 100 at most", w, maxItems)
		}
	}
}

// TestMergedRowsStayBelowMaxSize merges many more callers and operations than a row can keep, at all times of a day,
// while no rollup runs. It checks the sizes of rows and transactions, and that no call or operation is lost.
func TestMergedRowsStayBelowMaxSize(t *testing.T) {
	simulations.SkipUnderRace(t)
	t.Parallel()
	const maxBytes, rounds, callsEach, deployments = 4 << 20, 16, 300, maxBatchRows + 1
	fx := newFixture(t)
	recorder := &sizeRecorder{Backend: fx.items}
	table := store.New(recorder, store.Options{Random: fx.random, Now: fx.now})
	c := fx.collectorOver(table)
	c.buckets = 1
	for range rounds {
		fx.time = fx.time.Add(70 * time.Minute)
		for i := range callsEach {
			c.Call(newCall(incompressible(fx.random, 200), 200, fx.time))
			c.Operation(newOperation(incompressible(fx.random, 100), time.Duration(i)*time.Millisecond, fx.time))
		}
		for d := range deployments {
			for range callsEach / 10 {
				c.Call(analytics.Call{
					Deployment: analytics.Deployment{Name: fmt.Sprint("d-", d)},
					Consumer:   incompressible(fx.random, 200), Status: 200, At: fx.time,
				})
			}
		}
		fx.drain(c)
	}
	pending, err := fx.reader().pending(t.Context(), shop.Name)
	if err != nil || len(pending) != 1 {
		t.Fatalf("pending() = %d rows, %v, want 1 row and no error", len(pending), err)
	}
	if n := len(pending[0].intervals); n > maxIntervals {
		t.Errorf("a row has %d intervals, want at most %d", n, maxIntervals)
	}
	for _, item := range fx.items.Items() {
		if size := store.Size(item); size > maxRowBytes+1024 {
			t.Errorf("item %v has %d bytes, want at most %d", store.KeyOf(item), size, maxRowBytes+1024)
		}
	}
	newest := fx.recent(allCallers, maxRecent)
	if len(newest) == 0 || newest[0].At.Before(fx.time.Truncate(time.Millisecond)) {
		t.Errorf("Recent() = %v, want the call of %s first", newest[:min(len(newest), 1)], fx.time)
	}
	if _, err := NewRollup(table, fx.now).Run(t.Context()); err != nil {
		t.Fatalf("Run() of a rollup: error = %v, want none", err)
	}
	if recorder.bytes > maxBytes || recorder.bytes < maxBytes/4 {
		t.Errorf("largest transaction = %d bytes, want %d to %d", recorder.bytes, maxBytes/4, maxBytes)
	}
	calls := int64(0)
	for _, count := range fx.statuses(LastThreeMonths, allCallers).Totals {
		calls += count.Calls
	}
	if got := fx.operations(LastThreeMonths).Totals.Operations; calls != rounds*callsEach || got != rounds*callsEach {
		t.Errorf("%d calls and %d operations counted, want %d of each", calls, got, rounds*callsEach)
	}
}

// TestMergedRowsKeepTheirIntervals merges the rows of an hour without a rollup, and checks that the counts keep their intervals.
func TestMergedRowsKeepTheirIntervals(t *testing.T) {
	t.Parallel()
	fx := newFixture(t)
	fx.time = fx.time.Truncate(time.Hour).Add(57 * time.Minute)
	c := fx.collector()
	c.buckets = 1
	for range 13 {
		c.Call(newCall("acme", 200, fx.time))
		fx.drain(c)
		fx.time = fx.time.Add(finest.duration)
	}
	fx.time = fx.time.Add(-finest.duration)
	want := formatCounts(fx.statuses(LastHour, allCallers).Details)
	if n := strings.Count(want, "acme 1 "); n != 13 {
		t.Errorf("report before the rollup = %s, want 13 intervals with 1 call", want)
	}
	fx.rollup()
	if got := formatCounts(fx.statuses(LastHour, allCallers).Details); got != want {
		t.Errorf("report after the rollup = %s, want %s", got, want)
	}
}

// TestUnreadableRowDoesNotBlockOthers tests a row that this release cannot read, for
// example one of a later release. The row stays unchanged, and other rows are written. If all
// rows of a deployment are unreadable, its new calls are lost, and the loss is logged.
func TestUnreadableRowDoesNotBlockOthers(t *testing.T) {
	t.Parallel()
	fx := newFixture(t)
	var log strings.Builder
	c := New(Options{Table: fx.table, Now: fx.now, Random: fx.random, Log: slog.New(slog.NewTextHandler(&log, nil))})
	broken := func(deployment string, bucket int) store.Write {
		unreadable := row{Data: []byte{99}, TTL: fx.time.Add(day).Unix()}
		return store.Put(bucketKey(deployment, bucket), pendingRow{
			row: unreadable, Version: "later", DuePK: duePartition(),
			DueSK: formatTime(0),
		})
	}
	for bucket := range bucketCount {
		if err := fx.table.Commit(t.Context(), broken("a", bucket)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"a", shop.Name} {
		c.Call(analytics.Call{Deployment: analytics.Deployment{Name: name}, Status: 200, At: fx.time})
	}
	fx.drain(c)
	if got := formatCounts(fx.statuses(LastHour, allCallers).Totals); got != " 1 [{200 1}]\n" {
		t.Errorf("statuses next to an unreadable row = %q, want one call", got)
	}
	if !strings.Contains(log.String(), "deployment=a requests=1") {
		t.Errorf("log = %s, want deployment=a requests=1", &log)
	}
	// The collector writes the row to another bucket that is readable or empty.
	if err := fx.table.Commit(t.Context(), store.Delete(bucketKey("a", 0)),
		broken(shop.Name, (c.bucket(&batch{round: c.round + 1}, shop.Name)))); err != nil {
		t.Fatal(err)
	}
	c.Call(newCall("acme", 200, fx.time))
	fx.drain(c)
	if _, err := fx.reader().pending(t.Context(), shop.Name); err == nil {
		t.Error("pending() of an unreadable row: no error, want one because the row must not be overwritten")
	}
	if strings.Contains(log.String(), "deployment="+shop.Name+" requests") {
		t.Errorf("log = %s, want no lost requests of %s", &log, shop.Name)
	}
}

// contendedRollup makes a gateway write to a row just before a rollup removes it.
type contendedRollup struct {
	store.Backend
	beforeRemoval func(key store.Key)
	// A transaction fails if it has more than maxRemovals deletions, or if it deletes contendedKey.
	maxRemovals  int
	contendedKey store.Key
}

func (r *contendedRollup) Transact(ctx context.Context, token string, writes []store.Write) error {
	var removed []store.Key
	for _, w := range writes {
		if w.Kind == store.DeleteKind {
			removed = append(removed, w.Key)
		}
	}
	if len(removed) > r.maxRemovals || slices.Contains(removed, r.contendedKey) {
		r.beforeRemoval(removed[len(removed)-1])
	}
	return r.Backend.Transact(ctx, token, writes)
}

// TestRollupSucceedsUnderLoad changes a row whenever a transaction of the rollup has more than a few rows, or has one
// certain row. All other rows must be rolled up.
func TestRollupSucceedsUnderLoad(t *testing.T) {
	t.Parallel()
	fx := newFixture(t)
	c := fx.collector()
	for range bucketCount {
		c.Call(newCall("acme", 200, fx.time))
		fx.drain(c)
	}
	changes := 0
	backend := &contendedRollup{
		Backend: fx.items, maxRemovals: 3, contendedKey: bucketKey(shop.Name, 7),
		beforeRemoval: func(key store.Key) {
			changes++
			if err := fx.table.Commit(t.Context(),
				store.Update(key, store.Set(store.At("version"), fmt.Sprint("meanwhile", changes)))); err != nil {
				t.Errorf("changing the row %v: error = %v, want none", key, err)
			}
		},
	}
	n, err := NewRollup(store.New(backend, store.Options{Random: fx.random, Now: fx.now}), fx.now).Run(t.Context())
	if n != bucketCount-1 || err != nil {
		t.Errorf("Run() = %d rows, %v, want %d rows and no error", n, err, bucketCount-1)
	}
	if got := formatCounts(fx.statuses(LastHour, allCallers).Totals); got != fmt.Sprintf("acme %d [{200 %d}]\n",
		bucketCount, bucketCount) {
		t.Errorf("statuses after the rollup = %q, want acme with %d calls", got, bucketCount)
	}
}

// TestUnreadableRowsDoNotStarveOthers checks that a rollup processes a readable row, although unreadable rows have waited longer.
func TestUnreadableRowsDoNotStarveOthers(t *testing.T) {
	t.Parallel()
	fx := newFixture(t)
	const broken = maxRollupDeployments/bucketCount + 1
	for d := range broken {
		var writes []store.Write
		for bucket := range bucketCount {
			unreadable := pendingRow{row: row{Data: []byte{99}}, DuePK: duePartition(), DueSK: formatTime(0)}
			writes = append(writes, store.Put(bucketKey(fmt.Sprint("d-", d), bucket), unreadable))
		}
		if err := fx.table.Commit(t.Context(), writes...); err != nil {
			t.Fatal(err)
		}
	}
	c := fx.collector()
	c.Call(newCall("acme", 200, fx.time))
	fx.drain(c)
	if n, err := NewRollup(fx.table, fx.now).Run(t.Context()); n != 1 || err == nil {
		t.Errorf("Run() next to unreadable rows = %d rows, %v, want 1 row and an error", n, err)
	}
}

// contendedBackend makes another gateway write to the same row between a gateway's read and write, several times.
type contendedBackend struct {
	store.Backend
	afterRead func()
	remaining int // number of further reads after which afterRead is called
}

func (c *contendedBackend) Read(ctx context.Context, keys []store.Key) ([]store.Item, error) {
	items, err := c.Backend.Read(ctx, keys)
	if c.remaining--; c.remaining >= 0 {
		c.afterRead()
	}
	return items, err
}

// TestConflictingGatewaysRetry checks that a gateway whose rows were changed by others retries in the same call, and
// succeeds. If the rows change before every attempt, it keeps its counts.
func TestConflictingGatewaysRetry(t *testing.T) {
	t.Parallel()
	fx := newFixture(t)
	other := fx.collector()
	other.buckets = 1
	backend := &contendedBackend{Backend: fx.items, remaining: maxAttempts - 1, afterRead: func() {
		other.Call(newCall("globex", 200, fx.time))
		fx.drain(other)
	}}
	c := fx.collectorOver(store.New(backend, store.Options{Random: fx.random, Now: fx.now}))
	c.buckets = 1
	c.Call(newCall("acme", 200, fx.time))
	fx.drain(c)
	backend.remaining = maxAttempts
	c.Call(newCall("acme", 200, fx.time))
	if err := c.Drain(t.Context()); !errors.Is(err, errConflict) {
		t.Errorf("Drain() with a conflict at each attempt: error = %v, want %v", err, errConflict)
	}
	const globex = 2*maxAttempts - 1
	if got := formatCounts(fx.statuses(LastHour, allCallers).Totals); got != fmt.Sprintf(
		"globex %d [{200 %d}]\nacme 1 [{200 1}]\n", globex, globex) {
		t.Errorf("statuses = %q, want globex with %d calls and acme with 1", got, globex)
	}
	fx.drain(c)
	if got := formatCounts(fx.statuses(LastHour, allCallers).Totals); got != fmt.Sprintf(
		"globex %d [{200 %d}]\nacme 2 [{200 2}]\n", globex, globex) {
		t.Errorf("statuses after the next Drain() = %q, want globex with %d calls and acme with 2", got, globex)
	}
}

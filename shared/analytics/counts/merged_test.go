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

	"github.com/gatewright/gatewright/shared/analytics"
	"github.com/gatewright/gatewright/shared/operation/simulations"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

// TestReportsAreFewItems, with 200 gateways that write at the same time, and a rollup that has not come for an hour.
func TestReportsAreFewItems(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.time = w.time.Truncate(day).Add(2*time.Hour + 57*time.Minute) // windows begin with many short rows
	end := w.time
	one := w.collector()
	calls := int64(0)
	for at := end.Add(-92 * day); at.Before(end.Add(-time.Hour)); {
		w.time = at
		one.Call(calledBy("acme", 200, at))
		calls++
		w.drain(one)
		w.rollup()
		switch left := end.Sub(at); {
		case left > 31*day:
			at = at.Add(day)
		case left > 25*time.Hour:
			at = at.Add(time.Hour)
		default:
			at = at.Add(finest.duration)
		}
	}
	const gateways, rounds = 200, 3
	all := make([]*Collector, gateways)
	for i := range all {
		all[i] = w.collector()
	}
	for round := range rounds {
		w.time = end.Add(-time.Hour).Add(time.Duration(round) * 30 * time.Minute)
		var group errgroup.Group
		for _, c := range all {
			c.Call(calledBy("acme", 200, w.time))
			c.Operation(asked("List", time.Millisecond, w.time))
			calls++
			group.Go(func() error {
				for {
					if err := c.Drain(t.Context()); !errors.Is(err, errTaken) {
						return err
					}
				}
			})
		}
		if err := group.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	for _, window := range []Window{LastHour, Last24Hours, Last7Days, Last30Days, LastThreeMonths} {
		seen := &counting{Backend: w.items}
		r := NewReader(store.New(seen, store.Options{Random: w.random, Now: w.now}), w.now)
		got, err := r.Statuses(t.Context(), shop.Name, window, everybody)
		if err != nil {
			t.Fatal(err)
		}
		if seen.items.Load() > 100 || seen.items.Load() < placeCount {
			t.Errorf("%s reads %d items, want 100 at most", window, seen.items.Load())
		}
		t.Logf("%s reads %d items", window, seen.items.Load())
		if n := got.Totals[0].Calls; window == LastThreeMonths && n != calls {
			t.Errorf("%d calls are counted, of %d", n, calls)
		}
	}
	seen := &counting{Backend: w.items}
	r := NewReader(store.New(seen, store.Options{Random: w.random, Now: w.now}), w.now)
	if got, err := r.Recent(t.Context(), shop.Name, everybody, maxRecent); err != nil || len(got) < gateways*rounds || seen.items.Load() > 100 {
		t.Errorf("%d recent calls are %d items, %v", len(got), seen.items.Load(), err)
	}
}

// TestReportsAreFewItemsAtAllTimes of a week, by what they are read from.
func TestReportsAreFewItemsAtAllTimes(t *testing.T) {
	t.Parallel()
	for _, w := range []Window{LastHour, Last24Hours, Last7Days, Last30Days, LastThreeMonths} {
		s, err := w.span()
		if err != nil {
			t.Fatal(err)
		}
		most := 0
		for after := time.Duration(0); after < 7*day; after += time.Minute {
			now := storetest.Epoch.Add(after)
			const numbers = 2
			items := placeCount + numbers
			_, runs := s.cover(now)
			for _, r := range runs {
				items += int((min(r.to, now.Unix())-r.from)/int64(r.length.duration/time.Second)) + 1
			}
			most = max(most, items)
		}
		t.Logf("%s: %d items", w, most)
		if most > 100 {
			t.Errorf("%s takes %d items, want 100 at most", w, most)
		}
	}
}

// TestMergedRowsStayBelowTheirBound, and transactions below a table's, whatever has come together while nothing was rolled up: callers and
// operations without end, at all times of a day.
func TestMergedRowsStayBelowTheirBound(t *testing.T) {
	simulations.Sequential(t)
	t.Parallel()
	const mostBytes, rounds, each, deployments = 4 << 20, 16, 300, batchRows + 1
	w := newWorld(t)
	seen := &largest{Backend: w.items}
	table := store.New(seen, store.Options{Random: w.random, Now: w.now})
	c := w.collectorOver(table)
	c.places = 1
	for range rounds {
		w.time = w.time.Add(70 * time.Minute)
		for i := range each {
			c.Call(calledBy(noise(w.random, 200), 200, w.time))
			c.Operation(asked(noise(w.random, 100), time.Duration(i)*time.Millisecond, w.time))
		}
		for d := range deployments {
			for range each / 10 {
				c.Call(analytics.Call{Deployment: analytics.Deployment{Name: fmt.Sprint("d-", d)}, Consumer: noise(w.random, 200), Status: 200, At: w.time})
			}
		}
		w.drain(c)
	}
	waiting, err := w.reader().fresh(t.Context(), shop.Name)
	if err != nil || len(waiting) != 1 {
		t.Fatalf("%d rows wait, %v", len(waiting), err)
	}
	if n := len(waiting[0].slots); n > maxIntervals {
		t.Errorf("a row is about %d intervals", n)
	}
	for _, item := range w.items.Items() {
		if size := store.Size(item); size > maxRowBytes+1024 {
			t.Errorf("%v has %d bytes", store.KeyOf(item), size)
		}
	}
	newest := w.recent(everybody, maxRecent)
	if len(newest) == 0 || newest[0].At.Before(w.time.Truncate(time.Millisecond)) {
		t.Errorf("of %d calls one by one the newest are not kept", len(newest))
	}
	if _, err := NewRollup(table, w.now).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if seen.bytes > mostBytes || seen.bytes < mostBytes/4 {
		t.Errorf("a transaction has %d bytes", seen.bytes)
	}
	calls := int64(0)
	for _, by := range w.statuses(LastThreeMonths, everybody).Totals {
		calls += by.Calls
	}
	if got := w.operations(LastThreeMonths).Totals.Operations; calls != rounds*each || got != rounds*each {
		t.Errorf("%d calls and %d operations are counted, of %d", calls, got, rounds*each)
	}
}

// TestMergedRowsKnowTheirTimes, of an hour without a rollup.
func TestMergedRowsKnowTheirTimes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.time = w.time.Truncate(time.Hour).Add(57 * time.Minute)
	c := w.collector()
	c.places = 1
	for range 13 {
		c.Call(calledBy("acme", 200, w.time))
		w.drain(c)
		w.time = w.time.Add(finest.duration)
	}
	w.time = w.time.Add(-finest.duration)
	want := text(w.statuses(LastHour, everybody).Details)
	if n := strings.Count(want, "acme 1 "); n != 13 {
		t.Errorf("there are %s", want)
	}
	w.rollup()
	if got := text(w.statuses(LastHour, everybody).Details); got != want {
		t.Errorf("when they are rolled up, there are %s, and were %s", got, want)
	}
}

// TestRowNobodyReadsHoldsNoOther: a later release has written it, say. It is left as it is, and others go on.
func TestRowNobodyReadsHoldsNoOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var log strings.Builder
	c := New(Options{Table: w.table, Now: w.now, Random: w.random, Log: slog.New(slog.NewTextHandler(&log, nil))})
	broken := func(deployment string, place int) store.Write {
		unread := row{Data: []byte{99}, TTL: w.time.Add(day).Unix()}
		return store.Put(placeKey(deployment, place), freshRow{row: unread, Version: "later", DuePK: duePartition(), DueSK: spell(0)})
	}
	for place := range placeCount {
		if err := w.table.Commit(t.Context(), broken("a", place)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"a", shop.Name} {
		c.Call(analytics.Call{Deployment: analytics.Deployment{Name: name}, Status: 200, At: w.time})
	}
	w.drain(c)
	if got := text(w.statuses(LastHour, everybody).Totals); got != " 1 [{200 1}]\n" {
		t.Errorf("there is %q", got)
	}
	if !strings.Contains(log.String(), "deployment=a requests=1") {
		t.Errorf("the log is %s", &log)
	}
	// Where another place is to be read, or there is none yet, it is taken.
	if err := w.table.Commit(t.Context(), store.Delete(placeKey("a", 0)), broken(shop.Name, (c.place(&batch{round: c.round + 1}, shop.Name)))); err != nil {
		t.Fatal(err)
	}
	c.Call(calledBy("acme", 200, w.time))
	w.drain(c)
	if _, err := w.reader().fresh(t.Context(), shop.Name); err == nil {
		t.Error("what cannot be read was written over")
	}
	if strings.Contains(log.String(), "deployment="+shop.Name+" requests") {
		t.Errorf("the log is %s", &log)
	}
}

// busy has a gateway write to what a rollup removes, just before it does.
type busy struct {
	store.Backend
	write func(place store.Key)
	most  int // removals at a time that it leaves alone
	same  store.Key
}

func (b *busy) Transact(ctx context.Context, token string, writes []store.Write) error {
	var removed []store.Key
	for _, w := range writes {
		if w.Kind == store.DeleteKind {
			removed = append(removed, w.Key)
		}
	}
	if len(removed) > b.most || slices.Contains(removed, b.same) {
		b.write(removed[len(removed)-1])
	}
	return b.Backend.Transact(ctx, token, writes)
}

// TestRollupGoesOnUnderLoad: whenever it takes more than a few rows, one of them has changed; and one changes always.
func TestRollupGoesOnUnderLoad(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.collector()
	for range placeCount {
		c.Call(calledBy("acme", 200, w.time))
		w.drain(c)
	}
	changes := 0
	over := &busy{Backend: w.items, most: 3, same: placeKey(shop.Name, 7), write: func(place store.Key) {
		changes++
		if err := w.table.Commit(t.Context(), store.Update(place, store.Set(store.At("version"), fmt.Sprint("meanwhile", changes)))); err != nil {
			t.Error(err)
		}
	}}
	n, err := NewRollup(store.New(over, store.Options{Random: w.random, Now: w.now}), w.now).Run(t.Context())
	if n != placeCount-1 || err != nil {
		t.Errorf("%d rows are added up, of %d of which one is always changed: %v", n, placeCount, err)
	}
	if got := text(w.statuses(LastHour, everybody).Totals); got != fmt.Sprintf("acme %d [{200 %d}]\n", placeCount, placeCount) {
		t.Errorf("there is %q", got)
	}
}

// TestRowsThatStayStarveNoOther, although they wait longest.
func TestRowsThatStayStarveNoOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const broken = rollupAtOnce/placeCount + 1
	for d := range broken {
		var writes []store.Write
		for place := range placeCount {
			unread := freshRow{row: row{Data: []byte{99}}, DuePK: duePartition(), DueSK: spell(0)}
			writes = append(writes, store.Put(placeKey(fmt.Sprint("d-", d), place), unread))
		}
		if err := w.table.Commit(t.Context(), writes...); err != nil {
			t.Fatal(err)
		}
	}
	c := w.collector()
	c.Call(calledBy("acme", 200, w.time))
	w.drain(c)
	if n, err := NewRollup(w.table, w.now).Run(t.Context()); n != 1 || err == nil {
		t.Errorf("%d rows are added up, and the error is %v", n, err)
	}
}

// crowded has another gateway write to what one writes, between its read and its write, some times.
type crowded struct {
	store.Backend
	write func()
	times int
}

func (c *crowded) Read(ctx context.Context, keys []store.Key) ([]store.Item, error) {
	items, err := c.Backend.Read(ctx, keys)
	if c.times--; c.times >= 0 {
		c.write()
	}
	return items, err
}

// TestGatewaysMeetAndGoOn: one that meets others has written with the same call all the same. Where it always meets one, it keeps what it has.
func TestGatewaysMeetAndGoOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	other := w.collector()
	other.places = 1
	over := &crowded{Backend: w.items, times: placeTries - 1, write: func() {
		other.Call(calledBy("globex", 200, w.time))
		w.drain(other)
	}}
	c := w.collectorOver(store.New(over, store.Options{Random: w.random, Now: w.now}))
	c.places = 1
	c.Call(calledBy("acme", 200, w.time))
	w.drain(c)
	over.times = placeTries
	c.Call(calledBy("acme", 200, w.time))
	if err := c.Drain(t.Context()); !errors.Is(err, errTaken) {
		t.Errorf("a write that always meets another one answers %v", err)
	}
	const globex = 2*placeTries - 1
	if got := text(w.statuses(LastHour, everybody).Totals); got != fmt.Sprintf("globex %d [{200 %d}]\nacme 1 [{200 1}]\n", globex, globex) {
		t.Errorf("there is %q", got)
	}
	w.drain(c)
	if got := text(w.statuses(LastHour, everybody).Totals); got != fmt.Sprintf("globex %d [{200 %d}]\nacme 2 [{200 2}]\n", globex, globex) {
		t.Errorf("at the next time, there is %q", got)
	}
}

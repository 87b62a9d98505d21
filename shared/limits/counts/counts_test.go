package counts_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/allowance"
	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/limits"
	"github.com/gatewright/gatewright/shared/limits/counts"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/memory"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

const things store.Space = "test-things"

// world has things of one account over a table, and processes that make and remove them.
type world struct {
	now     time.Time
	table   *store.Table
	counts  []*counts.Counts
	counted int
}

func newWorld(t *testing.T, most int64) *world {
	w := &world{now: storetest.Epoch}
	now := func() time.Time { return w.now }
	w.table = store.New(memory.New(), store.Options{Random: storetest.Random(t), Now: now, Pause: storetest.AtOnce})
	for range 2 {
		w.counts = append(w.counts, counts.Open(installation.Parts{
			Config: config.Config{Limits: limits.Values{"projects": most, "deployments": most}}, Table: w.table, Now: now,
		}))
	}
	return w
}

func (w *world) there(ctx context.Context) (int64, error) {
	w.counted++
	n, err := w.table.Count(ctx, store.Query{PK: things.Partition("acme"), Unchecked: "the turn stands for it"})
	return int64(n), err
}

// make makes a thing, by one of the processes; meanwhile happens between the decision and its commit.
func (w *world) make(ctx context.Context, process int, name string, l limits.Limit, meanwhile func()) error {
	return w.table.Again(ctx, func(ctx context.Context) error {
		tally, err := w.counts[process].Load(ctx, "acme", l)
		if err != nil {
			return err
		}
		room, err := tally.Take(ctx, 1, w.there)
		if err != nil {
			return err
		}
		if meanwhile != nil {
			do := meanwhile
			meanwhile = nil
			do()
		}
		return w.table.Commit(ctx, store.Create(store.In(things.Partition("acme"), name), struct{}{}), room)
	})
}

func (w *world) remove(t *testing.T, name string) {
	t.Helper()
	if err := w.table.Commit(t.Context(), store.Delete(store.In(things.Partition("acme"), name))); err != nil {
		t.Fatal(err)
	}
}

func (w *world) want(t *testing.T, err error, kind fault.Kind) {
	t.Helper()
	if kind == 0 && err != nil || kind != 0 && !fault.Is(err, kind) {
		t.Fatalf("got %v, want %v", err, kind)
	}
}

// TestLimitIsExactInBothDirections: as many as the limit says, not one more, and one more once one is gone, for two
// processes in turn, of which neither tells anybody what it removes.
func TestLimitIsExactInBothDirections(t *testing.T) {
	const most = 7
	w := newWorld(t, most)
	for i := range most {
		w.want(t, w.make(t.Context(), i%2, fmt.Sprint(i), limits.Projects, nil), 0)
	}
	for process := range w.counts {
		w.want(t, w.make(t.Context(), process, "more", limits.Projects, nil), fault.Forbidden)
	}
	for i := range 3 {
		w.remove(t, fmt.Sprint(i))
	}
	for i := range 3 {
		w.want(t, w.make(t.Context(), i%2, fmt.Sprint("again", i), limits.Projects, nil), 0)
	}
	w.want(t, w.make(t.Context(), 0, "more", limits.Projects, nil), fault.Forbidden)
}

// TestNeverOneMoreWhateverHappensBetween: another process makes the last one, or removes one, between decision and
// commit, both where the bound tells and where it is counted anew.
func TestNeverOneMoreWhateverHappensBetween(t *testing.T) {
	for _, before := range []int{0, 1, 2} {
		t.Run(fmt.Sprint(before), func(t *testing.T) {
			w := newWorld(t, 3)
			for i := range before {
				w.want(t, w.make(t.Context(), 0, fmt.Sprint(i), limits.Projects, nil), 0)
			}
			err := w.make(t.Context(), 0, "mine", limits.Projects, func() {
				for i := before; i < 3; i++ {
					w.want(t, w.make(t.Context(), 1, fmt.Sprint(i), limits.Projects, nil), 0)
				}
			})
			w.want(t, err, fault.Forbidden)
			if n, err := w.there(t.Context()); n != 3 || err != nil {
				t.Errorf("there are %d, %v", n, err)
			}
		})
	}
}

// TestWhatAnEarlierReleaseMadeCounts: it raised no bound, before the first count and beside this release.
func TestWhatAnEarlierReleaseMadeCounts(t *testing.T) {
	w := newWorld(t, 4)
	earlier := func(name string) {
		if err := w.table.Commit(t.Context(), store.Create(store.In(things.Partition("acme"), name), struct{}{})); err != nil {
			t.Fatal(err)
		}
	}
	earlier("a")
	earlier("b")
	w.want(t, w.make(t.Context(), 0, "c", limits.Projects, nil), 0)
	earlier("d") // beside this release: known within a day
	w.now = w.now.Add(25 * time.Hour)
	w.want(t, w.make(t.Context(), 0, "e", limits.Projects, nil), fault.Forbidden)
	w.remove(t, "a")
	w.want(t, w.make(t.Context(), 1, "e", limits.Projects, nil), 0)
}

// TestCountsAreFew: the things are counted where nothing is known, and at the limit.
func TestCountsAreFew(t *testing.T) {
	w := newWorld(t, 100)
	for i := range 100 {
		w.want(t, w.make(t.Context(), i%2, fmt.Sprint(i), limits.Projects, nil), 0)
	}
	if w.counted != 1 {
		t.Errorf("100 things were counted %d times, want once", w.counted)
	}
}

// TestAccountThatIsRefusedAgainAndAgainIsCountedSeldom, over all processes; as soon as something is gone the next count finds
// it, and another account is counted for itself.
func TestAccountThatIsRefusedAgainAndAgainIsCountedSeldom(t *testing.T) {
	w := newWorld(t, 3)
	now := func() time.Time { return w.now }
	w.now = w.now.Truncate(time.Second)
	for i := range w.counts {
		w.counts[i] = counts.Open(installation.Parts{
			Config: config.Config{Limits: limits.Values{"projects": 3}}, Table: w.table, Now: now, Rates: allowance.NewRates(w.table, now),
		})
	}
	for i := range 3 {
		w.want(t, w.make(t.Context(), i%2, fmt.Sprint(i), limits.Projects, nil), 0)
	}
	for second := range 3 {
		w.counted = 0
		var full, throttled int
		for i := range 100 {
			err := w.make(t.Context(), i%2, "more", limits.Projects, nil)
			f, ok := errors.AsType[*fault.Fault](err)
			switch {
			case ok && f.Kind == fault.Forbidden:
				full++
			case ok && f.Kind == fault.Throttled && f.RetryAfter > 0 && f.RetryAfter <= time.Second:
				throttled++
			default:
				t.Fatalf("answered %v", err)
			}
		}
		if w.counted != full || full == 0 || full > 10 || throttled != 100-full {
			t.Errorf("in second %d of 100 creations at the limit %d were refused by %d counts, and %d told to wait", second, full, w.counted, throttled)
		}
		other, err := w.counts[0].Load(t.Context(), "globex", limits.Projects)
		w.want(t, err, 0)
		room, err := other.Take(t.Context(), 3, func(context.Context) (int64, error) { return 0, nil })
		w.want(t, err, 0)
		if second == 0 {
			w.want(t, w.table.Commit(t.Context(), room), 0)
		}
		_, err = other.Take(t.Context(), 1, func(context.Context) (int64, error) { return 3, nil })
		w.want(t, err, fault.Forbidden) // by a count of its own
		w.now = w.now.Add(time.Second)
	}
	w.remove(t, "0")
	w.want(t, w.make(t.Context(), 0, "more", limits.Projects, nil), 0)
}

// TestOwnLimitHoldsAtOnceAndTakesNothingAway: lower and higher than the installation's, and gone again.
func TestOwnLimitHoldsAtOnceAndTakesNothingAway(t *testing.T) {
	w := newWorld(t, 2)
	set := func(value int64) { w.want(t, w.counts[1].Set(t.Context(), "acme", limits.Projects, value), 0) }
	made := 0
	one := func(kind fault.Kind, meanwhile func()) {
		t.Helper()
		w.want(t, w.make(t.Context(), 0, fmt.Sprint(made), limits.Projects, meanwhile), kind)
		if kind == 0 {
			made++
		}
	}
	set(3)
	for range 3 {
		one(0, nil)
	}
	one(fault.Forbidden, nil)
	set(5)
	one(0, nil)
	one(fault.Forbidden, func() { set(1) }) // lowered between the decision and its commit
	if n, err := w.there(t.Context()); n != 4 || err != nil {
		t.Errorf("of 4 there are %d, %v", n, err)
	}
	set(0)
	one(fault.Forbidden, nil)
	w.want(t, w.counts[0].Set(t.Context(), "acme", limits.Projects, limits.Projects.Most+1), fault.Invalid)
	w.want(t, w.counts[0].Set(t.Context(), "acme", limits.Projects, -1), fault.Invalid)
	all, err := w.counts[0].List(t.Context(), "acme")
	if err != nil || len(all) != len(limits.Own()) {
		t.Fatalf("%+v, %v", all, err)
	}
	for _, s := range all {
		if s.Own || s.Name == "projects" && (s.Value != 2 || s.Bound < 4) {
			t.Errorf("%+v", s)
		}
	}
}

// TestDayEndsAtMidnightUTC, also for a process whose clock is behind: it does not begin the last day again.
func TestDayEndsAtMidnightUTC(t *testing.T) {
	w := newWorld(t, 2)
	w.now = time.Date(2026, 11, 20, 23, 59, 50, 0, time.UTC)
	n := 0
	one := func(kind fault.Kind) error {
		t.Helper()
		n++
		err := w.make(t.Context(), n%2, fmt.Sprint(n), limits.Deployments, nil)
		w.want(t, err, kind)
		return err
	}
	one(0)
	one(0)
	if f, ok := errors.AsType[*fault.Fault](one(fault.Throttled)); !ok || f.RetryAfter != 10*time.Second {
		t.Errorf("%+v", f)
	}
	w.now = w.now.Add(10 * time.Second)
	one(0)
	w.now = w.now.Add(-time.Second)
	one(0)
	one(fault.Throttled)
}

// TestClockThatIsYearsAheadEndsNoAccountsDeployments: it had used up its day, which is years ahead; by a right clock today is
// another, and who has used it up is told when tomorrow begins by the clock that counts.
func TestClockThatIsYearsAheadEndsNoAccountsDeployments(t *testing.T) {
	w := newWorld(t, 2)
	now := time.Date(2026, 11, 20, 23, 59, 50, 0, time.UTC)
	one := func(kind fault.Kind) error {
		t.Helper()
		w.counted++
		err := w.make(t.Context(), 0, fmt.Sprint(w.counted), limits.Deployments, nil)
		w.want(t, err, kind)
		return err
	}
	for _, at := range []time.Time{now.AddDate(10, 0, 0), now} {
		w.now = at
		one(0)
		one(0)
		one(fault.Throttled)
	}
	w.now = now.Add(11 * time.Second)
	one(0)
	one(0)
	w.now = now // a clock that is 11 s behind
	if f, ok := errors.AsType[*fault.Fault](one(fault.Throttled)); !ok || f.RetryAfter != 24*time.Hour+10*time.Second {
		t.Errorf("%+v", f)
	}
}

// TestValueIsLearnedWithinHalfAMinute, and read no oftener.
func TestValueIsLearnedWithinHalfAMinute(t *testing.T) {
	w := newWorld(t, 2)
	value := func() int64 {
		v, err := w.counts[0].Value(t.Context(), "acme", limits.Projects)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	if v := value(); v != 2 {
		t.Errorf("at first %d", v)
	}
	w.want(t, w.counts[1].Set(t.Context(), "acme", limits.Projects, 9), 0)
	if v := value(); v != 2 {
		t.Errorf("at once %d", v)
	}
	w.now = w.now.Add(30 * time.Second)
	if v := value(); v != 9 {
		t.Errorf("after half a minute %d", v)
	}
}

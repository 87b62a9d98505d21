package counts_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/limits"
	"github.com/gatewright/gatewright/shared/core/limits/counts"
	"github.com/gatewright/gatewright/shared/core/store"
)

// oracle implements the description of a limit in docs/limits.md, without
// package counts. It knows which things exist and how many are allowed.
type oracle struct {
	*fixture
	limit limits.Limit
	// installation and own are the limit's values of the installation and of the account. own is 0 if the account has
	// none. For a Daily limit, today is the number of things created on the day that begins at day, including deleted
	// things.
	installation, own int64
	existing          map[string]bool // the names of the things that exist
	day               time.Time
	today             int
	// changed means that the time or the limit has changed during the current call. minCount
	// and maxCount are the smallest and the largest number of things during that call.
	changed            bool
	minCount, maxCount int
	// olderReleaseAt is when a release without limits last created a thing.
	olderReleaseAt time.Time
	// created is the number of calls of Create and CreateByOlderRelease. It makes the names unique. nested means that the
	// current call runs in the middle of a call of the other process.
	created int
	nested  bool
}

var errKilled = errors.New("the process was killed")

// value returns the value of the limit that applies to the account.
func (o *oracle) value() int64 {
	if o.own > 0 {
		return o.own
	}
	return o.installation
}

// count returns the number of things that count towards the limit. For a Daily limit, it begins a new day if necessary.
func (o *oracle) count() int {
	if o.limit.Kind != limits.Daily {
		return len(o.existing)
	}
	if day := o.now.Truncate(24 * time.Hour); !day.Equal(o.day) {
		o.day, o.today = day, 0
	}
	return o.today
}

// observe updates minCount and maxCount.
func (o *oracle) observe() {
	n := o.count()
	o.minCount, o.maxCount = min(o.minCount, n), max(o.maxCount, n)
}

// Create creates one or three things in one process. Meanwhile another process may
// make a random event happen, or the process may be killed before or after its commit.
func (o *oracle) Create(t *rapid.T) {
	o.created++
	n, base := rapid.SampledFrom([]int{1, 1, 1, 3}).Draw(t, "number of things"), fmt.Sprint("thing-", o.created)
	process := 1
	var kill, afterCommit bool
	var concurrent func()
	if !o.nested {
		process = 0
		o.changed, o.minCount, o.maxCount = false, o.count(), o.count()
		switch rapid.IntRange(0, 4).Draw(t, "trouble") {
		case 0:
			kill, afterCommit = true, rapid.Bool().Draw(t, "killed after the commit")
		case 1:
			concurrent = func() { o.nested = true; o.RandomEvent(t); o.nested = false }
		}
	}
	c := o.counts[process]
	var reservedAt time.Time
	err := o.table.RunInTx(t.Context(), func(ctx context.Context) error {
		reservedAt = o.now
		counter, err := c.Load(ctx, "acme", o.limit)
		if err != nil {
			return err
		}
		reservation, err := counter.Reserve(ctx, int64(n), o.fixture.countThings)
		if err != nil {
			return err
		}
		if run := concurrent; run != nil {
			concurrent = nil
			run()
		}
		if kill && !afterCommit {
			return errKilled
		}
		writes := []store.Write{reservation}
		for i := range n {
			writes = append(writes, store.Create(store.KeyIn(thingPrefix.Partition("acme"), fmt.Sprint(base, "-", i)),
				struct{}{}))
		}
		if err := o.table.Commit(ctx, writes...); err != nil {
			return err
		}
		if kill {
			return errKilled
		}
		return nil
	})
	refused := fault.Is(err, fault.Forbidden) || fault.Is(err, fault.Throttled)
	switch {
	case refused && o.maxCount+n <= int(o.value()) && !o.changed && o.olderReleaseEnded():
		t.Fatalf("creating %d things = %v, want success, because at most %d things count and the limit is %d",
			n, err, o.maxCount, o.value())
	case refused, kill && !afterCommit:
		return
	case err != nil && !kill:
		t.Fatalf("creating %d things = %v, want success", n, err)
	}
	for i := range n {
		o.existing[fmt.Sprint(base, "-", i)] = true
	}
	// If a new day has begun since Reserve, the things count for the earlier day and not for today.
	if o.count(); o.day.Equal(reservedAt.Truncate(24 * time.Hour)) {
		o.today += n
	}
	o.observe()
	if o.count() > int(o.value()) && !o.changed && o.olderReleaseEnded() {
		t.Fatalf("creating %d things succeeds, and then %d things count, want it refused at the limit %d",
			n, o.count(), o.value())
	}
}

// olderReleaseEnded reports whether a release without limits has created no things for at least a day.
func (o *oracle) olderReleaseEnded() bool { return o.now.Sub(o.olderReleaseAt) >= 24*time.Hour }

// Remove deletes a thing and does not notify package counts.
func (o *oracle) Remove(t *rapid.T) {
	names := slices.Sorted(maps.Keys(o.existing))
	if len(names) == 0 {
		return
	}
	name := rapid.SampledFrom(names).Draw(t, "name")
	if err := o.table.Commit(t.Context(), store.Delete(store.KeyIn(thingPrefix.Partition("acme"), name))); err != nil {
		t.Fatal(err)
	}
	delete(o.existing, name)
	o.observe()
}

// CreateByOlderRelease creates a thing as a release without limits does.
func (o *oracle) CreateByOlderRelease(t *rapid.T) {
	o.created++
	name := fmt.Sprint("older-", o.created)
	if err := o.table.Commit(t.Context(), store.Create(store.KeyIn(thingPrefix.Partition("acme"), name),
		struct{}{})); err != nil {
		t.Fatal(err)
	}
	o.existing[name], o.olderReleaseAt = true, o.now
	o.observe()
}

// SetOwnLimit sets the account's own value, or removes it.
func (o *oracle) SetOwnLimit(t *rapid.T) {
	o.own = rapid.SampledFrom([]int64{0, 1, 2, 4, 9}).Draw(t, "own")
	if err := o.counts[rapid.IntRange(0, 1).Draw(t, "process")].Set(t.Context(), "acme", o.limit, o.own); err != nil {
		t.Fatal(err)
	}
	o.changed = true
}

func (o *oracle) AdvanceTime(t *rapid.T) {
	o.now = o.now.Add(rapid.SampledFrom([]time.Duration{time.Second, 7 * time.Hour, 25 * time.Hour}).Draw(t, "by"))
	o.changed = true
	o.observe()
}

// RandomEvent makes one random event happen.
func (o *oracle) RandomEvent(t *rapid.T) {
	switch n := rapid.IntRange(0, 19).Draw(t, "event"); {
	case n < 10:
		o.Create(t)
	case n < 15:
		o.Remove(t)
	case n < 16 && o.limit.Kind == limits.Total:
		o.CreateByOlderRelease(t)
	case n < 18:
		o.SetOwnLimit(t)
	default:
		o.AdvanceTime(t)
	}
}

// check compares the things and the state of the limit with the oracle.
func (o *oracle) check(t *rapid.T) {
	n, err := o.fixture.countThings(t.Context())
	if err != nil || int(n) != len(o.existing) {
		t.Fatalf("countThings() = %d, %v, want the things %v", n, err, o.existing)
	}
	all, err := o.counts[0].List(t.Context(), "acme")
	if err != nil {
		t.Fatal(err)
	}
	s := all[slices.IndexFunc(all, func(s counts.Status) bool { return s.Name == o.limit.Name })]
	switch {
	case s.Value != o.value():
		t.Fatalf("List(): value of the limit = %d, want %d", s.Value, o.value())
	case o.limit.Kind == limits.Daily && s.Bound != int64(o.count()):
		t.Fatalf("List(): bound of today = %d, want %d", s.Bound, o.count())
	case o.limit.Kind == limits.Total && s.Bound >= 0 && s.Bound < int64(o.count()) && o.olderReleaseEnded():
		t.Fatalf("List(): bound = %d, want at least the count %d", s.Bound, o.count())
	}
}

// TestLimitMatchesOracle lets two processes create and delete things. One process may work in the middle of the other's
// work, and a process may be killed before or after its commit. Meanwhile a release without limits also creates things,
// the limit changes and time passes. A create must not exceed the limit, and must not be refused below it. The
// exceptions are a create during which the limit or the time changes, and the day after the older release has created a
// thing. Several things must be created together or not at all. A repeated request must count only the things that it
// creates.
func TestLimitMatchesOracle(t *testing.T) {
	for _, l := range []limits.Limit{limits.Projects, limits.Deployments} {
		t.Run(l.Name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(rt *rapid.T) {
				o := &oracle{fixture: newFixture(t, 5), limit: l, installation: 5, existing: map[string]bool{}}
				for range 60 {
					o.RandomEvent(rt)
					o.check(rt)
				}
			})
		})
	}
}

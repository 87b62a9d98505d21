package counts_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/allowance"
	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/limits"
	"github.com/gatewright/gatewright/shared/core/limits/counts"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/memory"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
)

const thingPrefix store.KeyPrefix = "test-things"

// fixture has the things of one account in a table, and processes that create them.
type fixture struct {
	now        time.Time
	table      *store.Table
	counts     []*counts.Counts // one for each process
	countCalls int              // the number of calls of countThings
}

func newFixture(t *testing.T, limit int64) *fixture {
	fx := &fixture{now: storetest.Epoch}
	now := func() time.Time { return fx.now }
	fx.table = store.New(memory.New(), store.Options{Random: storetest.Random(t), Now: now, Backoff: storetest.NoBackoff})
	for range 2 {
		fx.counts = append(fx.counts, counts.Open(installation.Parts{
			Config: config.Config{Limits: limits.Values{"projects": limit, "deployments": limit}}, Table: fx.table, Now: now,
		}))
	}
	return fx
}

// countThings returns the number of things of the account, and counts its calls.
func (fx *fixture) countThings(ctx context.Context) (int64, error) {
	fx.countCalls++
	n, err := fx.table.Count(ctx, store.Query{
		PK: thingPrefix.Partition("acme"), Unchecked: "the condition on the revision covers it",
	})
	return int64(n), err
}

// create creates a thing in one of the processes. concurrent is called between Reserve and the commit.
func (fx *fixture) create(ctx context.Context, process int, name string, l limits.Limit, concurrent func()) error {
	return fx.table.RunInTx(ctx, func(ctx context.Context) error {
		counter, err := fx.counts[process].Load(ctx, "acme", l)
		if err != nil {
			return err
		}
		reservation, err := counter.Reserve(ctx, 1, fx.countThings)
		if err != nil {
			return err
		}
		if concurrent != nil {
			run := concurrent
			concurrent = nil
			run()
		}
		return fx.table.Commit(ctx, store.Create(store.KeyIn(thingPrefix.Partition("acme"), name), struct{}{}), reservation)
	})
}

// remove deletes a thing without notice to package counts.
func (fx *fixture) remove(t *testing.T, name string) {
	t.Helper()
	if err := fx.table.Commit(t.Context(), store.Delete(store.KeyIn(thingPrefix.Partition("acme"), name))); err != nil {
		t.Fatal(err)
	}
}

// checkFault checks that an error is a fault of this kind. The kind 0 means that there must be no error.
func (fx *fixture) checkFault(t *testing.T, err error, kind fault.Kind) {
	t.Helper()
	if kind == 0 && err != nil || kind != 0 && !fault.Is(err, kind) {
		t.Fatalf("error of the call in this line = %v, want a fault of kind %v (0 means no error)", err, kind)
	}
}

// retryAfter returns the RetryAfter of a fault, or 0 if err is no fault.
func retryAfter(err error) time.Duration {
	if f, ok := errors.AsType[*fault.Fault](err); ok {
		return f.RetryAfter
	}
	return 0
}

// TestLimitIsExactInBothDirections checks that an account can have as many things
// as its limit and not more, and that it can create a thing again for each deleted
// thing. Two processes alternate. Deletions are not reported to package counts.
func TestLimitIsExactInBothDirections(t *testing.T) {
	const limit = 7
	fx := newFixture(t, limit)
	for i := range limit {
		fx.checkFault(t, fx.create(t.Context(), i%2, fmt.Sprint(i), limits.Projects, nil), 0)
	}
	for process := range fx.counts {
		fx.checkFault(t, fx.create(t.Context(), process, "more", limits.Projects, nil), fault.Forbidden)
	}
	for i := range 3 {
		fx.remove(t, fmt.Sprint(i))
	}
	for i := range 3 {
		fx.checkFault(t, fx.create(t.Context(), i%2, fmt.Sprint("again", i), limits.Projects, nil), 0)
	}
	fx.checkFault(t, fx.create(t.Context(), 0, "more", limits.Projects, nil), fault.Forbidden)
}

// TestLimitHoldsDuringConcurrentCreate lets another process create all things that are still allowed, between
// Reserve and the commit. It checks that the create is then refused. Without existing things, Reserve counts the
// things; otherwise it uses a known bound.
func TestLimitHoldsDuringConcurrentCreate(t *testing.T) {
	for _, before := range []int{0, 1, 2} {
		t.Run(fmt.Sprint(before, " existing things"), func(t *testing.T) {
			fx := newFixture(t, 3)
			for i := range before {
				fx.checkFault(t, fx.create(t.Context(), 0, fmt.Sprint(i), limits.Projects, nil), 0)
			}
			err := fx.create(t.Context(), 0, "mine", limits.Projects, func() {
				for i := before; i < 3; i++ {
					fx.checkFault(t, fx.create(t.Context(), 1, fmt.Sprint(i), limits.Projects, nil), 0)
				}
			})
			fx.checkFault(t, err, fault.Forbidden)
			if n, err := fx.countThings(t.Context()); n != 3 || err != nil {
				t.Errorf("countThings() after a refused create = %d, %v, want 3", n, err)
			}
		})
	}
}

// TestThingsOfOlderReleaseCount checks that things count even if a release without limits created them. Such a release
// does not raise the bound. The test creates such things before the first count, and while this release already runs.
func TestThingsOfOlderReleaseCount(t *testing.T) {
	fx := newFixture(t, 4)
	createByOlderRelease := func(name string) {
		if err := fx.table.Commit(t.Context(), store.Create(store.KeyIn(thingPrefix.Partition("acme"), name),
			struct{}{})); err != nil {
			t.Fatal(err)
		}
	}
	createByOlderRelease("a")
	createByOlderRelease("b")
	fx.checkFault(t, fx.create(t.Context(), 0, "c", limits.Projects, nil), 0)
	createByOlderRelease("d") // while this release runs: counted within a day
	fx.now = fx.now.Add(25 * time.Hour)
	fx.checkFault(t, fx.create(t.Context(), 0, "e", limits.Projects, nil), fault.Forbidden)
	fx.remove(t, "a")
	fx.checkFault(t, fx.create(t.Context(), 1, "e", limits.Projects, nil), 0)
}

// TestThingsAreCountedOnce checks that the things are counted when the bound is unknown, and not again below the limit.
func TestThingsAreCountedOnce(t *testing.T) {
	fx := newFixture(t, 100)
	for i := range 100 {
		fx.checkFault(t, fx.create(t.Context(), i%2, fmt.Sprint(i), limits.Projects, nil), 0)
	}
	if fx.countCalls != 1 {
		t.Errorf("100 things were counted %d times, want once", fx.countCalls)
	}
}

// TestCountsOfRefusedAccountAreRateLimited checks that an account at its limit is counted at a limited rate over all
// processes. After a deletion, the next count finds the new capacity. Another account has its own rate of counts.
func TestCountsOfRefusedAccountAreRateLimited(t *testing.T) {
	fx := newFixture(t, 3)
	now := func() time.Time { return fx.now }
	fx.now = fx.now.Truncate(time.Second)
	for i := range fx.counts {
		fx.counts[i] = counts.Open(installation.Parts{
			Config: config.Config{Limits: limits.Values{"projects": 3}}, Table: fx.table, Now: now,
			Rates: allowance.NewRates(fx.table, now),
		})
	}
	for i := range 3 {
		fx.checkFault(t, fx.create(t.Context(), i%2, fmt.Sprint(i), limits.Projects, nil), 0)
	}
	for second := range 3 {
		fx.countCalls = 0
		var forbidden, throttled int
		for i := range 100 {
			err := fx.create(t.Context(), i%2, "more", limits.Projects, nil)
			f, ok := errors.AsType[*fault.Fault](err)
			switch {
			case ok && f.Kind == fault.Forbidden:
				forbidden++
			case ok && f.Kind == fault.Throttled && f.RetryAfter > 0 && f.RetryAfter <= time.Second:
				throttled++
			default:
				t.Fatalf("create() at the limit = %v, RetryAfter %s, want forbidden, or throttled for at most a second",
					err, retryAfter(err))
			}
		}
		if forbidden == 0 || forbidden > 10 {
			t.Errorf("second %d: create() is forbidden %d times, throttled %d times, want 1 to 10 times forbidden",
				second, forbidden, throttled)
		}
		if fx.countCalls != forbidden {
			t.Errorf("second %d: the things were counted %d times, want once for each of the %d forbidden creates",
				second, fx.countCalls, forbidden)
		}
		other, err := fx.counts[0].Load(t.Context(), "globex", limits.Projects)
		fx.checkFault(t, err, 0)
		reservation, err := other.Reserve(t.Context(), 3, func(context.Context) (int64, error) { return 0, nil })
		fx.checkFault(t, err, 0)
		if second == 0 {
			fx.checkFault(t, fx.table.Commit(t.Context(), reservation), 0)
		}
		_, err = other.Reserve(t.Context(), 1, func(context.Context) (int64, error) { return 3, nil })
		fx.checkFault(t, err, fault.Forbidden) // counted at the rate of the other account
		fx.now = fx.now.Add(time.Second)
	}
	fx.remove(t, "0")
	fx.checkFault(t, fx.create(t.Context(), 0, "more", limits.Projects, nil), 0)
}

// TestOwnLimitAppliesImmediately sets the account's own value above and below the installation's value, and then
// removes it. It checks that the next create uses the changed value, and so does a create that has already reserved.
func TestOwnLimitAppliesImmediately(t *testing.T) {
	fx := newFixture(t, 2)
	set := func(value int64) { fx.checkFault(t, fx.counts[1].Set(t.Context(), "acme", limits.Projects, value), 0) }
	created := 0
	create := func(kind fault.Kind, concurrent func()) {
		t.Helper()
		fx.checkFault(t, fx.create(t.Context(), 0, fmt.Sprint(created), limits.Projects, concurrent), kind)
		if kind == 0 {
			created++
		}
	}
	set(3)
	for range 3 {
		create(0, nil)
	}
	create(fault.Forbidden, nil)
	set(5)
	create(0, nil)
	create(fault.Forbidden, func() { set(1) }) // lowered between Reserve and the commit
	if n, err := fx.countThings(t.Context()); n != 4 || err != nil {
		t.Errorf("countThings() = %d, %v, want 4", n, err)
	}
	set(0)
	create(fault.Forbidden, nil)
	fx.checkFault(t, fx.counts[0].Set(t.Context(), "acme", limits.Projects, limits.Projects.Max+1), fault.Invalid)
	fx.checkFault(t, fx.counts[0].Set(t.Context(), "acme", limits.Projects, -1), fault.Invalid)
	all, err := fx.counts[0].List(t.Context(), "acme")
	if err != nil || len(all) != len(limits.PerAccount()) {
		t.Fatalf("List() = %+v, %v, want %d limits", all, err, len(limits.PerAccount()))
	}
	for _, s := range all {
		if s.Own || s.Name == "projects" && (s.Value != 2 || s.Bound < 4) {
			t.Errorf("List() item = %+v, want no own limit, and for projects the value 2 and a bound of at least 4", s)
		}
	}
}

// TestDayEndsAtMidnightUTC checks that a daily limit starts again at midnight
// UTC. A process with a slow clock must not start the previous day again.
func TestDayEndsAtMidnightUTC(t *testing.T) {
	fx := newFixture(t, 2)
	fx.now = time.Date(2026, 11, 20, 23, 59, 50, 0, time.UTC)
	n := 0
	create := func(kind fault.Kind) error {
		t.Helper()
		n++
		err := fx.create(t.Context(), n%2, fmt.Sprint(n), limits.Deployments, nil)
		fx.checkFault(t, err, kind)
		return err
	}
	create(0)
	create(0)
	if after := retryAfter(create(fault.Throttled)); after != 10*time.Second {
		t.Errorf("create() 10 s before midnight: RetryAfter = %s, want 10s", after)
	}
	fx.now = fx.now.Add(10 * time.Second)
	create(0)
	fx.now = fx.now.Add(-time.Second)
	create(0)
	create(fault.Throttled)
}

// TestDailyLimitSurvivesWrongClock first uses up the limit of a day ten years ahead, as a process
// with a wrong clock would. With a correct clock, the limit of today must be unused. The
// Retry-After of a refusal must end when the counted day ends by the clock of the refusing process.
func TestDailyLimitSurvivesWrongClock(t *testing.T) {
	fx := newFixture(t, 2)
	now := time.Date(2026, 11, 20, 23, 59, 50, 0, time.UTC)
	n := 0
	create := func(kind fault.Kind) error {
		t.Helper()
		n++
		err := fx.create(t.Context(), 0, fmt.Sprint(n), limits.Deployments, nil)
		fx.checkFault(t, err, kind)
		return err
	}
	for _, at := range []time.Time{now.AddDate(10, 0, 0), now} {
		fx.now = at
		create(0)
		create(0)
		create(fault.Throttled)
	}
	fx.now = now.Add(11 * time.Second)
	create(0)
	create(0)
	fx.now = now // a clock that is 11 s slow
	if after := retryAfter(create(fault.Throttled)); after != 24*time.Hour+10*time.Second {
		t.Errorf("create() with a slow clock: RetryAfter = %s, want 24h0m10s", after)
	}
}

// TestValueIsCachedForHalfAMinute checks that Value still returns the cached limit immediately after a change, and the
// changed limit 30 s later.
func TestValueIsCachedForHalfAMinute(t *testing.T) {
	fx := newFixture(t, 2)
	value := func() int64 {
		v, err := fx.counts[0].Value(t.Context(), "acme", limits.Projects)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	if v := value(); v != 2 {
		t.Errorf("Value() before the change = %d, want 2", v)
	}
	fx.checkFault(t, fx.counts[1].Set(t.Context(), "acme", limits.Projects, 9), 0)
	if v := value(); v != 2 {
		t.Errorf("Value() immediately after the change = %d, want the cached 2", v)
	}
	fx.now = fx.now.Add(30 * time.Second)
	if v := value(); v != 9 {
		t.Errorf("Value() 30 s after the change = %d, want 9", v)
	}
}

package metering_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/memory"
	"github.com/gatewright/gatewright/shared/resource/metering"
)

// countingBackend is a backend that counts its calls of Read and Query. Read fails while failing is positive.
type countingBackend struct {
	*memory.Backend
	reads, failing atomic.Int64
	// delay is the duration of a query, in a synctest bubble.
	delay time.Duration
}

var errUnavailable = errors.New("the table is down")

func (b *countingBackend) Read(ctx context.Context, keys []store.Key) ([]store.Item, error) {
	b.reads.Add(1)
	if b.failing.Load() > 0 {
		return nil, errUnavailable
	}
	return b.Backend.Read(ctx, keys)
}

func (b *countingBackend) Query(ctx context.Context, q store.Query) ([]store.Item, string, error) {
	b.reads.Add(1)
	if b.delay > 0 {
		select {
		case <-time.After(b.delay):
		case <-ctx.Done():
			return nil, "", context.Cause(ctx)
		}
	}
	return b.Backend.Query(ctx, q)
}

// gateway returns the Directory of a gateway, and a backend that counts its reads.
func (fx *fixture) gateway() (*metering.Directory, *countingBackend) {
	c := &countingBackend{Backend: fx.items}
	fx.useBackend(c)
	return metering.NewDirectory(fx.parts), c
}

// stateText returns a customer's state as text, or "none" if CustomerState returns NotFound.
func stateText(t *testing.T, d *metering.Directory, at metering.BucketLocator, customer string) string {
	t.Helper()
	s, err := d.CustomerState(t.Context(), at.AccountID, at.Bucket, customer)
	if fault.Is(err, fault.NotFound) {
		return "none"
	}
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(s.Subscription, " ", s.Status, " ", s.Quotas, " ", s.Period)
}

func TestCustomerStateIsCached(t *testing.T) {
	fx := newFixture(t)
	at := fx.createBucket(acme)
	s := fx.subscribe(at, newSubscription(fx.createPlan(at, "pro", 10), fx.createPlan(at, "extra", 5)))
	d, backend := fx.gateway()
	want := s.ID + " active map[requests:15] " + january
	check := func(customer, want string, cost int64) {
		t.Helper()
		before := backend.reads.Load()
		if got := stateText(t, d, at, customer); got != want {
			t.Errorf("CustomerState(%s) = %s, want %s", customer, got, want)
		}
		if n := backend.reads.Load() - before; n != cost {
			t.Errorf("CustomerState(%s) takes %d reads, want %d", customer, n, cost)
		}
	}
	check("ada", want, 3)
	check("ada", want, 0)
	check("bob", "none", 1)
	check("bob", "none", 0)
	fx.now.Store(new(fx.clock().Add(metering.Staleness - 1)))
	check("ada", want, 0)
	fx.now.Store(new(fx.clock().Add(1)))
	check("ada", want, 3)
	fx.now.Store(new(fx.clock().Add(-time.Hour))) // the clock was set back
	check("ada", want, 3)
}

// TestConcurrentRequestsShareOneRead checks that concurrent requests for a customer wait for the same reads, and that
// these reads continue when the context of their first caller ends.
func TestConcurrentRequestsShareOneRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newFixture(t)
		at := fx.createBucket(acme)
		fx.subscribe(at, newSubscription(fx.createPlan(at, "pro", 10)))
		d, backend := fx.gateway()
		backend.delay = time.Second
		var wg sync.WaitGroup
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			if _, err := d.CustomerState(ctx, at.AccountID, at.Bucket, "ada"); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("CustomerState() of a canceled request: error = %v, want %v", err, context.DeadlineExceeded)
			}
		})
		synctest.Wait()
		for range 100 {
			wg.Go(func() {
				if _, err := d.CustomerState(t.Context(), at.AccountID, at.Bucket, "ada"); err != nil {
					t.Errorf("CustomerState() of a waiting request: error = %v, want none", err)
				}
			})
		}
		wg.Wait()
		if n := backend.reads.Load(); n > 3 {
			t.Errorf("reads of all requests = %d, want at most 3", n)
		}
	})
}

// TestUnresponsiveTableTimesOut checks that CustomerState returns an error if the table does not respond.
func TestUnresponsiveTableTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newFixture(t)
		at := fx.createBucket(acme)
		d, backend := fx.gateway()
		backend.delay = time.Hour
		if _, err := d.CustomerState(t.Context(), at.AccountID, at.Bucket, "ada"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("CustomerState() without a response of the table: error = %v, want %v", err, context.DeadlineExceeded)
		}
	})
}

// TestConcurrentRequestsAreIsolated checks that concurrent requests for other customers do not share a result. Among
// them are another account, and IDs that are equal only when account, bucket and key are joined.
func TestConcurrentRequestsAreIsolated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newFixture(t)
		at := fx.createBucket(acme)
		fx.subscribe(at, newSubscription(fx.createPlan(at, "pro", 10)))
		d, backend := fx.gateway()
		backend.delay = time.Second
		var wg sync.WaitGroup
		wg.Go(func() {
			if got := stateText(t, d, at, "ada"); got == "none" {
				t.Error("state of ada = none, want a subscription")
			}
		})
		synctest.Wait()
		b := at.Bucket
		for _, other := range [][3]string{
			{"a-2", b, "ada"},
			{"", b, "ada"},
			{"a-", "1" + b, "ada"},
			{"a-1" + b[:1], b[1:], "ada"},
			{"a-1", b + "a", "da"},
			{"a-1", b[:len(b)-1], b[len(b)-1:] + "ada"},
			{"a-1", "", b + "ada"},
			{"a-1", b, "ad"},
			{"a-1", b, "Ada"},
			{"a-1", b, ""},
		} {
			wg.Go(func() {
				if s, err := d.CustomerState(t.Context(), other[0], other[1], other[2]); !fault.Is(err, fault.NotFound) {
					t.Errorf("CustomerState(%q) = %v, %v, want %v", other, s, err, fault.NotFound)
				}
			})
		}
		wg.Wait()
	})
}

// TestCustomerCacheIsBounded checks that the cache does not exceed MaxCustomers, however many customers are requested.
func TestCustomerCacheIsBounded(t *testing.T) {
	fx := newFixture(t)
	at := fx.createBucket(acme)
	d, _ := fx.gateway()
	for i := range metering.MaxCustomers + 10 {
		stateText(t, d, at, fmt.Sprint(i))
	}
	if n := d.CachedCustomers(); n != metering.MaxCustomers {
		t.Errorf("%d customers cached, want %d", n, metering.MaxCustomers)
	}
}

func TestChangeIsVisibleWithinStaleness(t *testing.T) {
	fx := newFixture(t)
	at := fx.createBucket(acme)
	pro := fx.createPlan(at, "pro", 10)
	d, _ := fx.gateway()
	checkAfterStaleness := func(want string) {
		t.Helper()
		fx.now.Store(new(fx.clock().Add(metering.Staleness)))
		if got := stateText(t, d, at, "ada"); got != want {
			t.Errorf("CustomerState() = %s, want %s", got, want)
		}
	}
	checkAfterStaleness("none")
	s := fx.subscribe(at, newSubscription(pro))
	checkAfterStaleness(s.ID + " active map[requests:10] " + january)
	fx.update(at, s.ID, metering.SubscriptionPatch{Status: metering.PastDue, Prorate: new(0.5)})
	checkAfterStaleness(s.ID + " past-due map[requests:5] " + january)
	_, err := fx.UpdatePlan(fx.requestContext(), at, pro.ID,
		metering.PlanPatch{Meters: map[string]metering.MeterPatch{"requests": {Max: new(int64(30))}}})
	fx.noError(err)
	checkAfterStaleness(s.ID + " past-due map[requests:15] " + january)
	fx.noError(fx.DeleteBucket(fx.requestContext(), at))
	checkAfterStaleness("none")
}

// TestBoundaryTakesEffectImmediately checks that the end of a period or trial takes effect at once, although the
// customer is cached.
func TestBoundaryTakesEffectImmediately(t *testing.T) {
	fx := newFixture(t)
	at := fx.createBucket(acme)
	n := newSubscription(fx.createPlan(at, "pro", 10))
	n.Status, n.TrialEnd = metering.Trialing, new(instant("2026-02-28T00:00:01Z"))
	s := fx.subscribe(at, n)
	d, backend := fx.gateway()
	for _, moment := range []struct{ now, want string }{
		{"2026-02-27T23:59:59Z", "trialing map[requests:10] " + january},
		{"2026-02-28T00:00:00Z", "trialing map[requests:10] " + february},
		{"2026-02-28T00:00:00.999Z", "trialing map[requests:10] " + february},
		{"2026-02-28T00:00:01Z", "canceled map[requests:10] " + february},
		{"2026-02-27T23:59:59.5Z", "trialing map[requests:10] " + january}, // the clock was set back
	} {
		fx.setClock(moment.now)
		if got := stateText(t, d, at, "ada"); got != s.ID+" "+moment.want {
			t.Errorf("at %s: CustomerState() = %s, want %s", moment.now, got, moment.want)
		}
	}
	if n := backend.reads.Load(); n != 3 {
		t.Errorf("five calls of CustomerState() make %d reads, want 3", n)
	}
}

func TestBucketOfAnotherAccountHasNoCustomer(t *testing.T) {
	fx := newFixture(t)
	at := fx.createBucket(acme)
	fx.subscribe(at, newSubscription(fx.createPlan(at, "pro", 10)))
	d, _ := fx.gateway()
	for name, ref := range map[string]metering.BucketLocator{
		"another account": {Owner: otherAccount, Bucket: at.Bucket},
		"unknown bucket":  {Owner: acme, Bucket: "mtr_0"},
		"invalid bucket":  {Owner: acme, Bucket: string(make([]byte, 4000))},
	} {
		if got := stateText(t, d, ref, "ada"); got != "none" {
			t.Errorf("state of ada in %s = %s, want none", name, got)
		}
	}
	if got := stateText(t, d, at, string(make([]byte, 4000))); got != "none" {
		t.Errorf("state of a long name = %s, want none", got)
	}
}

// TestEndedTrialYieldsToOlderSubscription checks that an older active subscription determines the customer's state
// immediately after the end of a trial.
func TestEndedTrialYieldsToOlderSubscription(t *testing.T) {
	fx := newFixture(t)
	at := fx.createBucket(acme)
	n := newSubscription(fx.createPlan(at, "pro", 10))
	older := fx.subscribe(at, n)
	n.ExternalID, n.Status, n.TrialEnd = "trial", metering.Trialing, new(instant("2026-02-03T00:00:01Z"))
	trial := fx.subscribe(at, n)
	n.ExternalID, n.Status, n.TrialEnd = "ended", metering.Canceled, new(instant("2026-02-03T00:00:00Z"))
	fx.subscribe(at, n)
	d, _ := fx.gateway()
	for _, moment := range []struct{ now, id, status string }{
		{"2026-02-03T00:00:00Z", trial.ID, "trialing"},
		{"2026-02-03T00:00:00.999Z", trial.ID, "trialing"},
		{"2026-02-03T00:00:01Z", older.ID, "active"},
		{"2026-02-03T00:00:04Z", older.ID, "active"},
	} {
		fx.setClock(moment.now)
		if got, want := stateText(t, d, at, "ada"), moment.id+" "+moment.status+" map[requests:10] "+january; got != want {
			t.Errorf("at %s: CustomerState() = %s, want %s", moment.now, got, want)
		}
	}
	// An ended trial also yields to a newer paused subscription, which may become active again.
	fx.setClock("2026-02-01T00:00:00Z")
	n.Anchor = new(instant("2026-01-31T00:00:00Z"))
	n.CustomerKey, n.ExternalID, n.Status, n.TrialEnd = "bob", "bobs trial", metering.Trialing,
		new(instant("2026-02-03T00:00:00Z"))
	fx.subscribe(at, n)
	n.ExternalID, n.Status = "bobs", metering.Paused
	paused := fx.subscribe(at, n)
	fx.setClock("2026-02-03T00:00:00Z")
	if got, want := stateText(t, d, at, "bob"), paused.ID+" paused map[requests:10] "+january; got != want {
		t.Errorf("CustomerState() = %s, want %s", got, want)
	}
}

func TestTableErrorIsNotCached(t *testing.T) {
	fx := newFixture(t)
	at := fx.createBucket(acme)
	s := fx.subscribe(at, newSubscription(fx.createPlan(at, "pro", 10)))
	d, backend := fx.gateway()
	backend.failing.Store(1)
	if _, err := d.CustomerState(t.Context(), at.AccountID, at.Bucket, "ada"); !errors.Is(err, errUnavailable) {
		t.Errorf("CustomerState() with a failing table: error = %v, want %v", err, errUnavailable)
	}
	backend.failing.Store(0)
	if got := stateText(t, d, at, "ada"); got != s.ID+" active map[requests:10] "+january {
		t.Errorf("state after the failure = %s, want active subscription %s", got, s.ID)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := d.CustomerState(ctx, at.AccountID, at.Bucket, "bob"); !errors.Is(err, context.Canceled) &&
		!fault.Is(err, fault.NotFound) {
		t.Errorf("CustomerState(canceled context) error = %v, want %v or %v", err, context.Canceled, fault.NotFound)
	}
}

// TestBestSubscriptionIsChosen checks that the newest subscription with the best status, among the MaxConsidered
// newest, determines the customer's state.
func TestBestSubscriptionIsChosen(t *testing.T) {
	endedStatuses := slices.Repeat([]metering.Status{metering.Canceled}, metering.MaxConsidered)
	tests := []struct {
		name string
		// statuses are the statuses of a customer's subscriptions, the oldest first.
		statuses []metering.Status
		want     int // the index of the chosen subscription
	}{
		{"two active subscriptions", []metering.Status{metering.Active, metering.Active}, 1},
		{"a trial after an active subscription", []metering.Status{metering.Active, metering.Trialing}, 1},
		{"an incomplete subscription after an active one", []metering.Status{metering.Active, metering.Incomplete}, 1},
		{"an active subscription before a canceled one", []metering.Status{metering.Active, metering.Canceled}, 0},
		{"an active subscription before a past-due one", []metering.Status{metering.Active, metering.PastDue}, 0},
		{"a paused subscription before an expired one", []metering.Status{metering.Paused, metering.IncompleteExpired}, 0},
		{
			"an unpaid subscription after a paused one",
			[]metering.Status{metering.Paused, metering.Unpaid, metering.Canceled},
			1,
		},
		{"two ended subscriptions", []metering.Status{metering.Canceled, metering.IncompleteExpired}, 1},
		{"an inactive subscription before a canceled one", []metering.Status{metering.Inactive, metering.Canceled}, 0},
		{
			"an active subscription as the oldest considered",
			slices.Concat([]metering.Status{metering.Active}, endedStatuses[1:]), 0,
		},
		{
			"an active subscription older than those considered",
			slices.Concat([]metering.Status{metering.Active}, endedStatuses), metering.MaxConsidered,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fx := newFixture(t)
			at := fx.createBucket(acme)
			pro := fx.createPlan(at, "pro", 10)
			var created []metering.Subscription
			for i, status := range tt.statuses {
				n := newSubscription(pro)
				n.ExternalID, n.Status = fmt.Sprint(i), status
				created = append(created, fx.subscribe(at, n))
			}
			s, err := metering.NewDirectory(fx.parts).CustomerState(t.Context(), "a-1", at.Bucket, "ada")
			if err != nil || s.Subscription != created[tt.want].ID || s.Status != tt.statuses[tt.want] {
				t.Errorf("CustomerState() = subscription %s, status %s, %v, want %s",
					s.Subscription, s.Status, err, created[tt.want].ID)
			}
		})
	}
}

package metering_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/metering"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/memory"
)

// counting counts what a table is asked to read, and fails while it is told to.
type counting struct {
	*memory.Backend
	reads, failing atomic.Int64
	// delay is how long a query takes, in a synctest bubble.
	delay time.Duration
}

var errDown = errors.New("the table is down")

func (c *counting) Read(ctx context.Context, keys []store.Key) ([]store.Item, error) {
	c.reads.Add(1)
	if c.failing.Load() > 0 {
		return nil, errDown
	}
	return c.Backend.Read(ctx, keys)
}

func (c *counting) Query(ctx context.Context, q store.Query) ([]store.Item, string, error) {
	c.reads.Add(1)
	time.Sleep(c.delay)
	return c.Backend.Query(ctx, q)
}

// gateway is a directory over a table whose reads are counted.
func (w *world) gateway() (*metering.Directory, *counting) {
	c := &counting{Backend: w.items}
	w.over(c)
	return metering.NewDirectory(w.parts), c
}

func standing(t *testing.T, d *metering.Directory, at metering.BucketAt, customer string) string {
	t.Helper()
	s, err := d.Standing(t.Context(), at.AccountID, at.Bucket, customer)
	if fault.Is(err, fault.NotFound) {
		return "none"
	}
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(s.Subscription, " ", s.Status, " ", s.Quotas, " ", s.Period)
}

func TestStandingCostsThreeReadsColdAndNoneWarm(t *testing.T) {
	w := newWorld(t)
	at := w.bucket(acme)
	s := w.subscribe(at, of(w.plan(at, "pro", 10), w.plan(at, "extra", 5)))
	d, reads := w.gateway()
	want := s.ID + " active map[requests:15] " + january
	ask := func(customer, want string, most int64) {
		t.Helper()
		before := reads.reads.Load()
		if got := standing(t, d, at, customer); got != want {
			t.Errorf("it stands %s, want %s", got, want)
		}
		if n := reads.reads.Load() - before; n > most {
			t.Errorf("it costs %d reads, want %d", n, most)
		}
	}
	ask("ada", want, 3)
	ask("ada", want, 0)
	ask("bob", "none", 1)
	ask("bob", "none", 0)
	w.now.Store(new(w.at().Add(metering.Staleness - 1)))
	ask("ada", want, 0)
	w.now.Store(new(w.at().Add(1)))
	ask("ada", want, 3)
	w.now.Store(new(w.at().Add(-time.Hour))) // the clock is set back
	ask("ada", want, 3)
}

func TestManyWhoAskAtOnceAreOneLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		at := w.bucket(acme)
		w.subscribe(at, of(w.plan(at, "pro", 10)))
		d, reads := w.gateway()
		reads.delay = time.Second
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() { standing(t, d, at, "ada") })
		}
		all.Wait()
		if n := reads.reads.Load(); n > 3 {
			t.Errorf("they cost %d reads", n)
		}
	})
}

// TestCustomersAreForgotten before they fill the memory, whoever asks for how many names.
func TestCustomersAreForgotten(t *testing.T) {
	w := newWorld(t)
	at := w.bucket(acme)
	d, _ := w.gateway()
	for i := range metering.MaxCustomers + 10 {
		standing(t, d, at, fmt.Sprint(i))
	}
	if n := d.Remembered(); n != metering.MaxCustomers {
		t.Errorf("%d are remembered", n)
	}
}

func TestChangeIsSeenWithinStaleness(t *testing.T) {
	w := newWorld(t)
	at := w.bucket(acme)
	pro := w.plan(at, "pro", 10)
	d, _ := w.gateway()
	later := func(want string) {
		t.Helper()
		w.now.Store(new(w.at().Add(metering.Staleness)))
		if got := standing(t, d, at, "ada"); got != want {
			t.Errorf("it stands %s, want %s", got, want)
		}
	}
	later("none")
	s := w.subscribe(at, of(pro))
	later(s.ID + " active map[requests:10] " + january)
	w.update(at, s.ID, metering.SubscriptionPatch{Status: metering.PastDue, Prorate: new(0.5)})
	later(s.ID + " past-due map[requests:5] " + january)
	_, err := w.UpdatePlan(w.request(), at, pro.ID, metering.PlanPatch{Meters: map[string]metering.MeterPatch{"requests": {Max: new(int64(30))}}})
	w.must(err)
	later(s.ID + " past-due map[requests:15] " + january)
	w.must(w.DeleteBucket(w.request(), at))
	later("none")
}

// TestBoundaryIsSeenAtOnce, also by who has just looked.
func TestBoundaryIsSeenAtOnce(t *testing.T) {
	w := newWorld(t)
	at := w.bucket(acme)
	n := of(w.plan(at, "pro", 10))
	n.Status, n.TrialEnd = metering.Trialing, new(instant("2026-02-28T00:00:01Z"))
	s := w.subscribe(at, n)
	d, reads := w.gateway()
	for _, moment := range []struct{ now, want string }{
		{"2026-02-27T23:59:59Z", "trialing map[requests:10] " + january},
		{"2026-02-28T00:00:00Z", "trialing map[requests:10] " + february},
		{"2026-02-28T00:00:00.999Z", "trialing map[requests:10] " + february},
		{"2026-02-28T00:00:01Z", "canceled map[requests:10] " + february},
	} {
		w.set(moment.now)
		if got := standing(t, d, at, "ada"); got != s.ID+" "+moment.want {
			t.Errorf("at %s it stands %s, want %s", moment.now, got, moment.want)
		}
	}
	if n := reads.reads.Load(); n != 3 {
		t.Errorf("it costs %d reads", n)
	}
}

func TestStandingOfAnotherAccountsBucketIsNone(t *testing.T) {
	w := newWorld(t)
	at := w.bucket(acme)
	w.subscribe(at, of(w.plan(at, "pro", 10)))
	d, _ := w.gateway()
	for name, asked := range map[string]metering.BucketAt{
		"its account": {Owner: evil, Bucket: at.Bucket}, "its bucket": {Owner: acme, Bucket: "mtr_0"}, "a key that is none": {Owner: acme, Bucket: string(make([]byte, 4000))},
	} {
		if got := standing(t, d, asked, "ada"); got != "none" {
			t.Errorf("of another by %s it stands %s", name, got)
		}
	}
	if got := standing(t, d, at, string(make([]byte, 4000))); got != "none" {
		t.Errorf("a long name stands %s", got)
	}
}

func TestTableThatDoesNotAnswerIsNoAnswer(t *testing.T) {
	w := newWorld(t)
	at := w.bucket(acme)
	s := w.subscribe(at, of(w.plan(at, "pro", 10)))
	d, reads := w.gateway()
	reads.failing.Store(1)
	if _, err := d.Standing(t.Context(), at.AccountID, at.Bucket, "ada"); !errors.Is(err, errDown) {
		t.Errorf("it is answered %v", err)
	}
	reads.failing.Store(0)
	if got := standing(t, d, at, "ada"); got != s.ID+" active map[requests:10] "+january {
		t.Errorf("afterwards it stands %s", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := d.Standing(ctx, at.AccountID, at.Bucket, "bob"); !errors.Is(err, context.Canceled) && !fault.Is(err, fault.NotFound) {
		t.Errorf("who has gone is answered %v", err)
	}
}

// TestSubscriptionThatCounts is the newest of those that are in the best order.
func TestSubscriptionThatCounts(t *testing.T) {
	tests := []struct {
		name string
		// statuses are those of a customer's subscriptions, the oldest first.
		statuses []metering.Status
		want     int
	}{
		{"the newest of two in order", []metering.Status{metering.Active, metering.Active}, 1},
		{"a trial after one in order", []metering.Status{metering.Active, metering.Trialing}, 1},
		{"one to be paid after one in order", []metering.Status{metering.Active, metering.Incomplete}, 1},
		{"one in order before one that has ended", []metering.Status{metering.Active, metering.Canceled}, 0},
		{"one in order before one that is not paid", []metering.Status{metering.Active, metering.PastDue}, 0},
		{"one that is paused before one that has ended", []metering.Status{metering.Paused, metering.IncompleteExpired}, 0},
		{"one that is unpaid after one that is paused", []metering.Status{metering.Paused, metering.Unpaid, metering.Canceled}, 1},
		{"the newest of those that have ended", []metering.Status{metering.Canceled, metering.IncompleteExpired}, 1},
		{"an inactive one", []metering.Status{metering.Inactive, metering.Canceled}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			at := w.bucket(acme)
			pro := w.plan(at, "pro", 10)
			var made []metering.Subscription
			for i, status := range tt.statuses {
				n := of(pro)
				n.ExternalID, n.Status = fmt.Sprint(i), status
				made = append(made, w.subscribe(at, n))
			}
			s, err := metering.NewDirectory(w.parts).Standing(t.Context(), "a-1", at.Bucket, "ada")
			if err != nil || s.Subscription != made[tt.want].ID || s.Status != tt.statuses[tt.want] {
				t.Errorf("%s counts, which is %s, %v, want %s", s.Subscription, s.Status, err, made[tt.want].ID)
			}
		})
	}
}

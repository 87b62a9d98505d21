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
	if c.delay > 0 {
		select {
		case <-time.After(c.delay):
		case <-ctx.Done():
			return nil, "", context.Cause(ctx)
		}
	}
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
	ask := func(customer, want string, cost int64) {
		t.Helper()
		before := reads.reads.Load()
		if got := standing(t, d, at, customer); got != want {
			t.Errorf("it stands %s, want %s", got, want)
		}
		if n := reads.reads.Load() - before; n != cost {
			t.Errorf("it costs %d reads, want %d", n, cost)
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

// TestManyWhoAskAtOnceAreOneLook, which does not end with the one who asked first.
func TestManyWhoAskAtOnceAreOneLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		at := w.bucket(acme)
		w.subscribe(at, of(w.plan(at, "pro", 10)))
		d, reads := w.gateway()
		reads.delay = time.Second
		var all sync.WaitGroup
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			if _, err := d.Standing(ctx, at.AccountID, at.Bucket, "ada"); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("who has gone is answered %v", err)
			}
		})
		synctest.Wait()
		for range 100 {
			all.Go(func() {
				if _, err := d.Standing(t.Context(), at.AccountID, at.Bucket, "ada"); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if n := reads.reads.Load(); n > 3 {
			t.Errorf("they cost %d reads", n)
		}
	})
}

// TestTableThatIsSilentIsNoAnswer, for somebody who would wait for ever.
func TestTableThatIsSilentIsNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		at := w.bucket(acme)
		d, reads := w.gateway()
		reads.delay = time.Hour
		if _, err := d.Standing(t.Context(), at.AccountID, at.Bucket, "ada"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("it is answered %v", err)
		}
	})
}

// TestWhoAsksAtOnceGetsNothingOfAnothers: neither another account, nor who spells what is asked for in
// other parts.
func TestWhoAsksAtOnceGetsNothingOfAnothers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		at := w.bucket(acme)
		w.subscribe(at, of(w.plan(at, "pro", 10)))
		d, reads := w.gateway()
		reads.delay = time.Second
		var all sync.WaitGroup
		all.Go(func() {
			if got := standing(t, d, at, "ada"); got == "none" {
				t.Error("it has no standing")
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
			all.Go(func() {
				if s, err := d.Standing(t.Context(), other[0], other[1], other[2]); !fault.Is(err, fault.NotFound) {
					t.Errorf("%q is answered %v, %v", other, s, err)
				}
			})
		}
		all.Wait()
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
		{"2026-02-27T23:59:59.5Z", "trialing map[requests:10] " + january}, // the clock is set back
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

// TestTrialThatIsOverGivesWay at once to a subscription that is older and in order.
func TestTrialThatIsOverGivesWay(t *testing.T) {
	w := newWorld(t)
	at := w.bucket(acme)
	n := of(w.plan(at, "pro", 10))
	older := w.subscribe(at, n)
	n.ExternalID, n.Status, n.TrialEnd = "trial", metering.Trialing, new(instant("2026-02-03T00:00:01Z"))
	trial := w.subscribe(at, n)
	n.ExternalID, n.Status, n.TrialEnd = "ended", metering.Canceled, new(instant("2026-02-03T00:00:00Z"))
	w.subscribe(at, n)
	d, _ := w.gateway()
	for _, moment := range []struct{ now, id, status string }{
		{"2026-02-03T00:00:00Z", trial.ID, "trialing"},
		{"2026-02-03T00:00:00.999Z", trial.ID, "trialing"},
		{"2026-02-03T00:00:01Z", older.ID, "active"},
		{"2026-02-03T00:00:04Z", older.ID, "active"},
	} {
		w.set(moment.now)
		if got, want := standing(t, d, at, "ada"), moment.id+" "+moment.status+" map[requests:10] "+january; got != want {
			t.Errorf("at %s it stands %s, want %s", moment.now, got, want)
		}
	}
	// It takes nothing from one that is newer and may be in order again either.
	w.set("2026-02-01T00:00:00Z")
	n.Anchor = new(instant("2026-01-31T00:00:00Z"))
	n.CustomerKey, n.ExternalID, n.Status, n.TrialEnd = "bob", "bobs trial", metering.Trialing, new(instant("2026-02-03T00:00:00Z"))
	w.subscribe(at, n)
	n.ExternalID, n.Status = "bobs", metering.Paused
	paused := w.subscribe(at, n)
	w.set("2026-02-03T00:00:00Z")
	if got, want := standing(t, d, at, "bob"), paused.ID+" paused map[requests:10] "+january; got != want {
		t.Errorf("it stands %s, want %s", got, want)
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
	ended := slices.Repeat([]metering.Status{metering.Canceled}, metering.Considered)
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
		{"the oldest of as many as are looked at", slices.Concat([]metering.Status{metering.Active}, ended[1:]), 0},
		{"none that is older than those", slices.Concat([]metering.Status{metering.Active}, ended), metering.Considered},
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

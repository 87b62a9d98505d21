package allowance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
)

// TestConcurrentReclaimsReturnOnce runs a second Reclaim after the first Reclaim has
// marked the journal as dead, and before the first Reclaim returns the units. The units must be returned once.
func TestConcurrentReclaimsReturnOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, a := newBackend(), month(10_000)
		crashed, other := table.quotas(1), table.quotas(2)
		spendSome(t, crashed, a, 50)
		activated, reserve := crashed.holdings(a)
		spendSome(t, other, a, 200) // otherwise the record would be too small for a second return
		before := used(t, other, a)
		if err := other.Drain(t.Context()); err != nil || reserve == 0 {
			t.Fatalf("Drain() = %v, and the crashed instance has a reserve of %d, want nil and more than 0", err, reserve)
		}
		before = min(before, used(t, other, a))
		time.Sleep(deadAfter + dueStep + time.Second)
		reclaim := func() error { return Reclaim(t.Context(), other.table, time.Now()) }
		second := func(token string, writes []store.Write) error {
			if err := reclaim(); err != nil {
				t.Errorf("second Reclaim() = %v, want nil", err)
			}
			return table.Backend.Transact(t.Context(), token, writes)
		}
		table.replaceNext = func(token string, writes []store.Write) error { // the write that marks the journal
			table.replaceNext = second
			return table.Backend.Transact(t.Context(), token, writes)
		}
		if err := reclaim(); err != nil {
			t.Fatalf("first Reclaim() = %v, want nil", err)
		}
		if got := used(t, other, a); got != before-reserve || got != 250+activated {
			t.Errorf("Used() after two reclaims = %d, want %d (before, minus the reserve) and %d (admitted and activated)",
				got, before-reserve, 250+activated)
		}
	})
}

// TestReclaimSkipsInstanceThatWrites checks that Reclaim does not take the reserve of an
// instance that writes, even if the sweep has read the instance's journal a moment before.
func TestReclaimSkipsInstanceThatWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, a := newBackend(), month(10_000)
		q, other := table.quotas(1), table.quotas(2)
		spendSome(t, q, a, 50)
		time.Sleep(deadAfter + dueStep + time.Second)
		table.replaceNext = func(token string, writes []store.Write) error { // the write that would mark the journal
			activated, _ := q.holdings(a)
			spendSome(t, q, a, int(activated)+1)
			return table.Backend.Transact(t.Context(), token, writes)
		}
		if err := Reclaim(t.Context(), other.table, time.Now()); err != nil {
			t.Fatalf("Reclaim() during a write of the instance = %v, want nil", err)
		}
		activated, reserve := q.holdings(a)
		if reserve == 0 {
			t.Fatal("reserve after Reclaim() = 0, want the reserve of a live instance unchanged")
		}
		spendSome(t, q, a, int(activated+reserve))
		activated, reserve = q.holdings(a)
		if err := q.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got, spent := used(t, q, a), q.pool.find(a.period(), a.Limit).spent(); got != spent {
			t.Errorf("Used() after Drain() = %d, want the %d spent units; before it, %d were activated and %d reserved",
				got, spent, activated, reserve)
		}
	})
}

// TestReclaimOfManyQuotas reclaims the units of an instance that held units of
// more quotas than one journal can record. The record of one quota is missing.
func TestReclaimOfManyQuotas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newBackend()
		crashed := table.quotas(1)
		var all []Allowance
		for k := range 2*maxEntries + 9 {
			a := month(10_000)
			a.Name = fmt.Sprint("subscription ", k)
			all = append(all, a)
		}
		const perQuota = 30
		for range perQuota {
			for _, a := range all {
				mustTake(t, crashed.pool, a, 1)
				synctest.Wait()
			}
			time.Sleep(100 * time.Millisecond)
		}
		held := 0
		for _, a := range all {
			if _, reserve := crashed.holdings(a); reserve > 0 {
				held++
			}
		}
		if n := len(crashed.pool.units.(*journals).all); held < 2*maxEntries || n < 3 {
			t.Fatalf("quotas with a reserve = %d in %d journals, want at least %d in 3", held, n, 2*maxEntries)
		}
		if err := crashed.table.Commit(t.Context(), store.Delete(all[3].period().key())); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		// One call of the table fails. The next Reclaim returns the units of the journal that could not be handled.
		calls := 0
		table.before = func(context.Context) error {
			if calls++; calls == 6 {
				return errSimulated
			}
			return nil
		}
		if err := Reclaim(t.Context(), crashed.table, time.Now()); !errors.Is(err, errSimulated) {
			t.Errorf("Reclaim() with a failing table = %v, want %v", err, errSimulated)
		}
		if err := Reclaim(t.Context(), crashed.table, time.Now()); err != nil {
			t.Errorf("Reclaim() after the failure = %v, want nil", err)
		}
		for k, a := range all {
			activated, reserve := crashed.holdings(a)
			want := perQuota + activated
			if k == 3 {
				want = 0
			}
			if got := used(t, crashed, a); got != want {
				t.Errorf("quota %d: Used() = %d, want %d; units activated %d, reserved %d", k, got, want, activated, reserve)
			}
		}
		keys, err := crashed.table.Keys(t.Context(), store.Query{Index: store.DueIndex, PK: duePartition()})
		if err != nil || len(keys) != 0 {
			t.Errorf("due journals after Reclaim() = %d, %v, want 0 and no error", len(keys), err)
		}
	})
}

// TestUnusableUnitsStayInRecord checks that units stay in the record if they are too few for a request, so that any
// instance can admit smaller requests.
func TestUnusableUnitsStayInRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, a := newBackend(), month(10)
		q, other := table.quotas(1), table.quotas(2)
		mustTake(t, q.pool, a, 8)
		if d := mustTake(t, q.pool, a, 3); d.Admitted {
			t.Fatalf("Take(3) with 2 units left = %+v, want refused", d)
		}
		reads := table.reads.Load()
		if d := mustTake(t, q.pool, a, 3); d.Admitted || table.reads.Load() != reads {
			t.Errorf("second Take(3) with 2 units left = %+v after %d reads, want refused without a read",
				d, table.reads.Load()-reads)
		}
		if d := mustTake(t, other.pool, a, 1); !d.Admitted {
			t.Errorf("Take(1) on another instance = %+v, want admitted", d)
		}
		if d := mustTake(t, q.pool, a, 1); !d.Admitted {
			t.Errorf("Take(1) on the same instance = %+v, want admitted", d)
		}
	})
}

// TestQuotasOnEachBackend uses quotas over the table in memory and over DynamoDB's emulator.
func TestQuotasOnEachBackend(t *testing.T) {
	forEachBackend(t, func(t *testing.T, l ledger) {
		var elapsed atomic.Int64 // the time that has passed on the clock, which sweeps read concurrently
		clock := func() time.Time { return storetest.Epoch.Add(time.Duration(elapsed.Load())) }
		advance := func(d time.Duration) { elapsed.Add(int64(d)) }
		open := func(nth byte) *Quotas {
			return NewQuotas(Options{
				Table: l.table, Now: clock, Random: rand.NewChaCha8([32]byte{nth}),
				Log: slog.New(slog.DiscardHandler),
			})
		}
		crashed, q := open(1), open(2)
		a := Allowance{Name: "a", Limit: 10_000, From: storetest.Epoch, To: storetest.Epoch.AddDate(0, 1, 0)}
		for range 20 {
			mustTake(t, crashed.pool, a, 1)
			advance(10 * time.Millisecond)
		}
		for range 100 { // until a lease that no caller waits for has added a reserve
			if _, reserve := crashed.holdings(a); reserve > 0 {
				break
			}
			mustTake(t, crashed.pool, a, 1)
			advance(10 * time.Millisecond)
		}
		s := crashed.pool.find(a.period(), a.Limit)
		for filling := true; filling; {
			time.Sleep(time.Millisecond)
			s.mu.Lock()
			filling = s.filling
			s.mu.Unlock()
		}
		activated, reserve := crashed.holdings(a)
		spent := s.spent()
		if got := used(t, q, a); reserve == 0 || got != spent+activated+reserve {
			t.Fatalf("Used() = %d, want the sum of %d spent, %d activated and %d reserved units, with a reserve", got, spent,
				activated, reserve)
		}
		advance(2 * time.Minute)
		for range 2 {
			if err := Reclaim(t.Context(), l.table, clock()); err != nil {
				t.Fatal(err)
			}
		}
		if got := used(t, q, a); got != spent+activated {
			t.Errorf("Used() after Reclaim() = %d, want %d", got, spent+activated)
		}
		for n := range maxReceiptRepeats + 2 {
			if d, repeated, err := q.TakeOnce(t.Context(), a, 2, "key"); err != nil || !d.Admitted ||
				repeated != (n%(maxReceiptRepeats+1) != 0) {
				t.Errorf("TakeOnce() %d = %+v, %t, %v, want admitted, repeated %t",
					n, d, repeated, err, n%(maxReceiptRepeats+1) != 0)
			}
		}
		mustTake(t, q.pool, a, 5)
		q.Refund(t.Context(), a, 1)
		if err := q.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := used(t, q, a); got != spent+activated+4+4 {
			t.Errorf("Used() at the end = %d, want %d: %d after Reclaim(), 4 by TakeOnce(), and 4 by Take(5) and Refund(1)",
				got, spent+activated+8, spent+activated)
		}
	})
}

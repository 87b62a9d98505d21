package allowance

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/core/store"
)

func TestReturnedUnitsAreAvailableWithinFiveSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newBackend()
		first, second := table.open(1), table.open(2)
		a := minute(100)
		for range 40 {
			mustTake(t, first, a, 1)
			synctest.Wait()
		}
		var admitted int64 = 40
		for mustTake(t, second, a, 1).Admitted {
			admitted++
			synctest.Wait()
		}
		if admitted == 100 {
			t.Fatal("both instances admit all 100 units before Drain(), want the first to hold some units")
		}
		if err := first.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		for mustTake(t, second, a, 1).Admitted {
			admitted++
			synctest.Wait()
		}
		if admitted != 100 {
			t.Errorf("Take() admitted %d requests, with those after Drain() of the first instance, want 100", admitted)
		}
	})
}

func TestIdleInstanceReturnsUnits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newBackend()
		pl := table.open(1)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go pl.Run(ctx, time.Second)
		a := minute(1000)
		for range 30 {
			mustTake(t, pl, a, 1)
			synctest.Wait()
		}
		held := pl.find(a.period(), a.Limit).tokens.Load()
		if held == 0 {
			t.Fatal("the instance holds 0 units, want some")
		}
		time.Sleep(2*horizon(a.period()) + 2*time.Second)
		if got, err := pl.ledger.granted(ctx, a.period()); err != nil || got != 30 {
			t.Errorf("granted() after an idle time = %d, %v, want the 30 admitted units", got, err)
		}
	})
}

// TestSweepRunsDuringOtherRequests checks that an instance that does not call Run returns unused units during requests
// for other allowances.
func TestSweepRunsDuringOtherRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pl := newBackend().open(1)
		a := minute(1000)
		for range 30 {
			mustTake(t, pl, a, 1)
			synctest.Wait()
		}
		for k := range 40 {
			other := minute(10)
			other.Name = fmt.Sprint("user-", k)
			mustTake(t, pl, other, 1)
			time.Sleep(time.Second)
		}
		if got, err := pl.ledger.granted(t.Context(), a.period()); err != nil || got != 30 {
			t.Errorf("granted() after an idle time = %d, %v, want the 30 admitted units", got, err)
		}
	})
}

func TestSlotsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newBackend()
		pl := table.open(1, func(o *Options) { o.MaxSlots = 256 })
		busy := minute(1000)
		for range 50 {
			mustTake(t, pl, busy, 1)
			synctest.Wait()
		}
		before := pl.find(busy.period(), busy.Limit)
		for i := range 5000 {
			a := minute(10)
			a.Name = fmt.Sprint("10.0.", i/256, ".", i%256)
			mustTake(t, pl, a, 1)
			synctest.Wait()
		}
		n := 0
		for i := range pl.shards {
			n += len(pl.shards[i].slots)
		}
		if n > 256 {
			t.Errorf("slots after 5000 new names = %d, want at most 256", n)
		}
		if pl.find(busy.period(), busy.Limit) != before {
			t.Error("the slot in use was evicted by many new names, want it kept")
		}
	})
}

func TestEvictedUnitsAreReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newBackend()
		pl := table.open(1, func(o *Options) { o.MaxSlots = 1 })
		var names []string
		for i := range 300 {
			a := minute(1000)
			a.Name = fmt.Sprint("user-", i)
			names = append(names, a.Name)
			for range 10 {
				mustTake(t, pl, a, 1)
				synctest.Wait()
			}
		}
		if err := pl.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			a := minute(1000)
			a.Name = name
			if got, err := pl.ledger.granted(t.Context(), a.period()); err != nil || got != 10 {
				t.Fatalf("granted(%s) after the return = %d, %v, want the 10 admitted", name, got, err)
			}
		}
	})
}

func TestEndedPeriodsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pl := newBackend().open(1)
		for range 10 {
			mustTake(t, pl, minute(10), 1)
			time.Sleep(time.Minute)
			_ = pl.sweep(t.Context())
		}
		n := 0
		for i := range pl.shards {
			n += len(pl.shards[i].slots)
		}
		if n > 2 {
			t.Errorf("slots after 10 periods = %d, want at most 2, of the current and the previous period", n)
		}
	})
}

func TestFailedReturnIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newBackend()
		pl := table.open(1)
		var names []string
		for i := range 30 { // more than fit into one transaction
			a := minute(1000)
			a.Name = fmt.Sprint("user-", i)
			names = append(names, a.Name)
			for range 10 {
				mustTake(t, pl, a, 1)
				synctest.Wait()
			}
		}
		errTable := errors.New("no route to the table")
		// A late repeat of an earlier call applies a part of the first batch. After that all calls fail.
		table.replaceNext = func(token string, writes []store.Write) error {
			table.before = func(context.Context) error { return errTable }
			return errors.Join(errTable, table.Backend.Transact(t.Context(), token+" late", writes[:2]))
		}
		if err := pl.Drain(t.Context()); !errors.Is(err, errTable) {
			t.Fatalf("Drain() with a failing table = %v, want %v", err, errTable)
		}
		table.before = nil
		if err := pl.sweep(t.Context()); err != nil {
			t.Fatalf("sweep() after the failure = %v, want nil", err)
		}
		for _, name := range names {
			a := minute(1000)
			a.Name = name
			if got, err := pl.ledger.granted(t.Context(), a.period()); err != nil || got != 10 {
				t.Fatalf("granted(%s) after the return = %d, %v, want the 10 admitted", name, got, err)
			}
		}
	})
}

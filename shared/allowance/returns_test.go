package allowance

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/store"
)

func TestReturnedUnitsAreAdmittedElsewhereWithinFiveSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newBackend()
		greedy, poor := table.open(1), table.open(2)
		a := minute(100)
		for range 40 {
			mustTake(t, greedy, a, 1)
			synctest.Wait()
		}
		var admitted int64 = 40
		for mustTake(t, poor, a, 1).Admitted {
			admitted++
			synctest.Wait()
		}
		if admitted == 100 {
			t.Fatal("the first instance holds nothing, so this test shows nothing")
		}
		if err := greedy.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		for mustTake(t, poor, a, 1).Admitted {
			admitted++
			synctest.Wait()
		}
		if admitted != 100 {
			t.Errorf("%d of 100 were admitted", admitted)
		}
	})
}

func TestIdleInstanceGivesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newBackend()
		b := table.open(1)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go b.Run(ctx, time.Second)
		a := minute(1000)
		for range 30 {
			mustTake(t, b, a, 1)
			synctest.Wait()
		}
		held := b.find(a.period(), a.Limit).tokens.Load()
		if held == 0 {
			t.Fatal("nothing is held, so this test shows nothing")
		}
		time.Sleep(2*horizon(a.period()) + 2*time.Second)
		if got, err := b.ledger.granted(ctx, a.period()); err != nil || got != 30 {
			t.Errorf("%d units are granted after the lull, %v; want the 30 that were admitted", got, err)
		}
	})
}

func TestInstanceWithoutABackgroundGivesBackWhileItIsAskedForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBackend().open(1)
		a := minute(1000)
		for range 30 {
			mustTake(t, b, a, 1)
			synctest.Wait()
		}
		for k := range 40 {
			other := minute(10)
			other.Name = fmt.Sprint("user-", k)
			mustTake(t, b, other, 1)
			time.Sleep(time.Second)
		}
		if got, err := b.ledger.granted(t.Context(), a.period()); err != nil || got != 30 {
			t.Errorf("%d units are granted after the lull, %v; want the 30 that were admitted", got, err)
		}
	})
}

func TestManyNamesNeedBoundedMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newBackend()
		b := table.open(1, func(o *Options) { o.MaxSlots = 256 })
		busy := minute(1000)
		for range 50 {
			mustTake(t, b, busy, 1)
			synctest.Wait()
		}
		before := b.find(busy.period(), busy.Limit)
		for i := range 5000 {
			a := minute(10)
			a.Name = fmt.Sprint("10.0.", i/256, ".", i%256)
			mustTake(t, b, a, 1)
			synctest.Wait()
		}
		n := 0
		for i := range b.shards {
			n += len(b.shards[i].slots)
		}
		if n > 256 {
			t.Errorf("%d allowances are held, at most 256 should be", n)
		}
		if b.find(busy.period(), busy.Limit) != before {
			t.Error("a flood of names pushed out the one in use")
		}
	})
}

func TestEvictedUnitsAreGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newBackend()
		b := table.open(1, func(o *Options) { o.MaxSlots = 1 })
		var names []string
		for i := range 300 {
			a := minute(1000)
			a.Name = fmt.Sprint("user-", i)
			names = append(names, a.Name)
			for range 10 {
				mustTake(t, b, a, 1)
				synctest.Wait()
			}
		}
		if err := b.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			a := minute(1000)
			a.Name = name
			if got, _ := b.ledger.granted(t.Context(), a.period()); got != 10 {
				t.Fatalf("%d units of %s are granted after the return, 10 were admitted", got, name)
			}
		}
	})
}

func TestOverPeriodsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBackend().open(1)
		for range 10 {
			mustTake(t, b, minute(10), 1)
			time.Sleep(time.Minute)
			_ = b.sweep(t.Context())
		}
		n := 0
		for i := range b.shards {
			n += len(b.shards[i].slots)
		}
		if n > 2 {
			t.Errorf("%d periods are held, at most the current and the last should be", n)
		}
	})
}

func TestReturnThatFailedIsMadeLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newBackend()
		b := table.open(1)
		var names []string
		for i := range 30 { // more than one transaction holds
			a := minute(1000)
			a.Name = fmt.Sprint("user-", i)
			names = append(names, a.Name)
			for range 10 {
				mustTake(t, b, a, 1)
				synctest.Wait()
			}
		}
		broken := errors.New("no route to the table")
		// The first batch is applied in part by somebody's late repeat, and then
		// nothing goes through.
		table.instead = func(token string, writes []store.Write) error {
			table.before = func(context.Context) error { return broken }
			return errors.Join(broken, table.Backend.Transact(t.Context(), token+" late", writes[:2]))
		}
		if err := b.Drain(t.Context()); !errors.Is(err, broken) {
			t.Fatalf("a return to a broken table answers %v", err)
		}
		table.before = nil
		if err := b.sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			a := minute(1000)
			a.Name = name
			if got, _ := b.ledger.granted(t.Context(), a.period()); got != 10 {
				t.Fatalf("%d units of %s are granted after the return, 10 were admitted", got, name)
			}
		}
	})
}

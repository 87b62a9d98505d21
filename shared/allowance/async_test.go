package allowance

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestAsyncNeverWaitsAndCountsAfterwards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newBackend()
		open := make(chan struct{})
		table.before = func(context.Context) error { <-open; return nil }
		b := table.open(1)
		a := minute(50)
		admitted := 0
		for range 80 { // the table has not answered once
			d, err := b.TakeAsync(t.Context(), a, 1)
			if err != nil {
				t.Fatal(err)
			}
			if d.Admitted {
				admitted++
			}
		}
		if admitted != 50 {
			t.Errorf("%d were admitted while the table was silent, the limit is 50", admitted)
		}
		close(open)
		synctest.Wait()
		if got, _ := b.ledger.granted(t.Context(), a.period()); got != 50 {
			t.Errorf("%d are counted, want 50", got)
		}
	})
}

func TestAsyncExcessIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newBackend()
		open := make(chan struct{})
		table.before = func(context.Context) error { <-open; return nil }
		a := minute(10)
		for i := range byte(3) { // none has heard of the others
			b := table.open(i)
			for range 10 {
				if d, err := b.TakeAsync(t.Context(), a, 1); err != nil || !d.Admitted {
					t.Fatal(d, err)
				}
			}
		}
		close(open)
		synctest.Wait()
		late := table.open(3)
		if got, _ := late.ledger.granted(t.Context(), a.period()); got != 30 {
			t.Errorf("%d are counted, 30 were admitted", got)
		}
		if d, _ := late.TakeAsync(t.Context(), a, 1); !d.Admitted {
			t.Error("an instance that knows nothing waits or refuses")
		}
		synctest.Wait()
		if d, _ := late.TakeAsync(t.Context(), a, 1); d.Admitted {
			t.Error("an instance that knows better admits")
		}
	})
}

func TestAsyncDebtOutlivesAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newBackend()
		table.before = func(context.Context) error { return errors.New("no route to the table") }
		b := table.open(1)
		a := minute(10)
		for range 4 {
			if d, err := b.TakeAsync(t.Context(), a, 1); err != nil || !d.Admitted {
				t.Fatal(d, err)
			}
			synctest.Wait()
		}
		table.before = nil
		time.Sleep(time.Second)
		_ = b.sweep(t.Context())
		synctest.Wait()
		if got, _ := b.ledger.granted(t.Context(), a.period()); got < 4 {
			t.Errorf("%d are counted, 4 were admitted", got)
		}
	})
}

package allowance

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestTakeAsyncDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newBackend()
		unblock := make(chan struct{})
		table.before = func(context.Context) error { <-unblock; return nil }
		pl := table.open(1)
		a := minute(50)
		admitted := 0
		for range 80 { // the table has not responded yet
			d, err := pl.TakeAsync(t.Context(), a, 1)
			if err != nil {
				t.Fatal(err)
			}
			if d.Admitted {
				admitted++
			}
		}
		if admitted != 50 {
			t.Errorf("TakeAsync() while the table does not respond admitted %d requests, want 50, the limit", admitted)
		}
		close(unblock)
		synctest.Wait()
		if got, _ := pl.ledger.granted(t.Context(), a.period()); got != 50 {
			t.Errorf("granted() = %d, want 50, the number of admitted units", got)
		}
	})
}

func TestTakeAsyncCountsExcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newBackend()
		unblock := make(chan struct{})
		table.before = func(context.Context) error { <-unblock; return nil }
		a := minute(10)
		for i := range byte(3) { // no instance knows the units of the others
			pl := table.open(i)
			for range 10 {
				if d, err := pl.TakeAsync(t.Context(), a, 1); err != nil || !d.Admitted {
					t.Fatalf("TakeAsync() = %+v, %v, want admitted and no error", d, err)
				}
			}
		}
		close(unblock)
		synctest.Wait()
		newcomer := table.open(3)
		if got, _ := newcomer.ledger.granted(t.Context(), a.period()); got != 30 {
			t.Errorf("granted() = %d, want 30, the number of admitted units", got)
		}
		if d, _ := newcomer.TakeAsync(t.Context(), a, 1); !d.Admitted {
			t.Error("first TakeAsync() on a new instance: Admitted = false, want true")
		}
		synctest.Wait()
		if d, _ := newcomer.TakeAsync(t.Context(), a, 1); d.Admitted {
			t.Error("TakeAsync() after the instance has read the record: Admitted = true, want false")
		}
	})
}

func TestTakeAsyncRetriesAfterFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newBackend()
		table.before = func(context.Context) error { return errors.New("no route to the table") }
		pl := table.open(1)
		a := minute(10)
		for range 4 {
			if d, err := pl.TakeAsync(t.Context(), a, 1); err != nil || !d.Admitted {
				t.Fatalf("TakeAsync() = %+v, %v, want admitted and no error", d, err)
			}
			synctest.Wait()
		}
		table.before = nil
		time.Sleep(time.Second)
		_ = pl.sweep(t.Context())
		synctest.Wait()
		if got, _ := pl.ledger.granted(t.Context(), a.period()); got < 4 {
			t.Errorf("granted() = %d, want at least 4, the number of admitted units", got)
		}
	})
}

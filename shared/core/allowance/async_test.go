package allowance

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestTakeAsyncDoesNotWait checks that TakeAsync does not wait for a table that does not respond. It admits requests up
// to the limit, and their units are counted later.
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
		if got, err := pl.ledger.granted(t.Context(), a.period()); err != nil || got != 50 {
			t.Errorf("granted() = %d, %v, want 50, the number of admitted units", got, err)
		}
	})
}

// TestTakeAsyncCountsExcess checks that the record also counts the units that several instances together admit beyond
// the limit. A new instance then refuses requests as soon as it has read the record.
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
		if got, err := newcomer.ledger.granted(t.Context(), a.period()); err != nil || got != 30 {
			t.Errorf("granted() = %d, %v, want 30, the number of admitted units", got, err)
		}
		if d, err := newcomer.TakeAsync(t.Context(), a, 1); err != nil || !d.Admitted {
			t.Errorf("first TakeAsync() on a new instance = %+v, %v, want admitted", d, err)
		}
		synctest.Wait()
		if d, err := newcomer.TakeAsync(t.Context(), a, 1); err != nil || d.Admitted {
			t.Errorf("TakeAsync() after the instance has read the record = %+v, %v, want refused and no error", d, err)
		}
	})
}

// TestTakeAsyncRetriesAfterFailure checks that units that were admitted while the table failed are counted when the
// table works again.
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
		if got, err := pl.ledger.granted(t.Context(), a.period()); err != nil || got < 4 {
			t.Errorf("granted() = %d, %v, want at least 4, the number of admitted units", got, err)
		}
	})
}

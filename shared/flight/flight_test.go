package flight_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/flight"
)

type name struct{}

// TestOneReadIsForAllWhoAsk, and does not end with the first of them.
func TestOneReadIsForAllWhoAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g flight.Group[*int]
		reads, seven := 0, 7
		read := func(ctx context.Context) (*int, error) {
			reads++
			if ctx.Value(name{}) != "first" {
				t.Error("the read has not the values of who asked first")
			}
			select {
			case <-time.After(time.Second):
				return &seven, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		left := errors.New("left")
		first, leave := context.WithCancelCause(context.WithValue(t.Context(), name{}, "first"))
		var all sync.WaitGroup
		all.Go(func() {
			if got, err := g.Do(first, "key", time.Minute, read); got != nil || !errors.Is(err, left) {
				t.Errorf("who has left gets %v, %v", got, err)
			}
		})
		synctest.Wait()
		for range 3 {
			all.Go(func() {
				if got, err := g.Do(t.Context(), "key", time.Minute, read); got != &seven || err != nil {
					t.Errorf("who stays gets %v, %v", got, err)
				}
			})
		}
		synctest.Wait()
		leave(left)
		all.Wait()
		if reads != 1 {
			t.Errorf("%d reads for four who ask at once", reads)
		}
		if _, err := g.Do(first, "key", time.Minute, func(context.Context) (*int, error) { reads++; return nil, nil }); !errors.Is(err, left) && err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if reads != 2 {
			t.Error("what was read is remembered")
		}
	})
}

// TestReadIsBounded, and its value comes with its error.
func TestReadIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g flight.Group[string]
		began := time.Now()
		got, err := g.Do(t.Context(), "key", time.Second, func(ctx context.Context) (string, error) {
			<-ctx.Done()
			return "what was there before", ctx.Err()
		})
		if got != "what was there before" || !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("after %v: %q, %v", time.Since(began), got, err)
		}
	})
}

func TestKeysAreReadApart(t *testing.T) {
	var g flight.Group[string]
	for _, key := range []string{"a", "b"} {
		if got, err := g.Do(t.Context(), key, time.Minute, func(context.Context) (string, error) { return key, nil }); got != key || err != nil {
			t.Errorf("%s: %q, %v", key, got, err)
		}
	}
}

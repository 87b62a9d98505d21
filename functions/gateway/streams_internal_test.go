package gateway

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/limits"
	"github.com/gatewright/gatewright/shared/limits/slots"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/memory"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

// silent is a backend that answers no write while it is told to, but may do it.
type silent struct {
	store.Backend
	does, is bool
}

func (s *silent) Transact(ctx context.Context, token string, writes []store.Write) error {
	if !s.is || s.does {
		if err := s.Backend.Transact(ctx, token, writes); err != nil || !s.is {
			return err
		}
	}
	<-ctx.Done()
	return store.ErrLost
}

// TestStreamWaitsForTheTableForATime, passes uncounted then, and gives back what it may have taken.
func TestStreamWaitsForTheTableForATime(t *testing.T) {
	for _, does := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			backend := &silent{Backend: memory.New(), does: does, is: true}
			s := functionStreams{slots.New(slots.Options{
				Table: storetest.Over(t, backend, storetest.Clock(time.Now)), Now: time.Now, Limit: limits.FunctionStreams, Most: 1,
				Name: func() string { return time.Now().String() },
			}), time.Now, slog.New(slog.DiscardHandler)}
			began := time.Now()
			end, refusal, err := s.Begin(t.Context(), "acme")
			if took := time.Since(began); err == nil || refusal != nil || end == nil || took != takeTimeout {
				t.Fatalf("told %v, %v after %s", refusal, err, took)
			}
			backend.is = false
			end()
			if _, refusal, err := s.Begin(t.Context(), "acme"); refusal != nil || err != nil {
				t.Errorf("the next is told %v, %v", refusal, err)
			}
		})
	}
}

package gateway

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/core/limits"
	"github.com/gatewright/gatewright/shared/core/limits/slots"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/memory"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
)

// silentBackend is a backend that does not respond to writes while it is silenced. If applies is set, these writes take
// effect nevertheless.
type silentBackend struct {
	store.Backend
	applies, silenced bool
}

func (s *silentBackend) Transact(ctx context.Context, token string, writes []store.Write) error {
	if !s.silenced || s.applies {
		if err := s.Backend.Transact(ctx, token, writes); err != nil || !s.silenced {
			return err
		}
	}
	<-ctx.Done()
	return store.ErrOutcomeUnknown
}

// TestStreamStartsUncountedAfterTimeout checks that a stream starts without a slot if the table does not respond within
// acquireTimeout. The end of the stream must release the slot nevertheless, because the write of the slot may have
// taken effect.
func TestStreamStartsUncountedAfterTimeout(t *testing.T) {
	for _, applies := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			backend := &silentBackend{Backend: memory.New(), applies: applies, silenced: true}
			s := functionStreams{slots.New(slots.Options{
				Table: storetest.NewWithBackend(t, backend, storetest.Clock(time.Now)), Now: time.Now,
				Limit: limits.FunctionStreams, Max: 1,
				Name: func() string { return time.Now().String() },
			}), time.Now, slog.New(slog.DiscardHandler)}
			start := time.Now()
			done, refusal, err := s.Begin(t.Context(), "acme")
			if elapsed := time.Since(start); err == nil || refusal != nil || done == nil || elapsed != acquireTimeout {
				t.Fatalf("applies %t: Begin() = done %t, %v, %v after %s, want done and an error after %s",
					applies, done != nil, refusal, err, elapsed, acquireTimeout)
			}
			backend.silenced = false
			done()
			if _, refusal, err := s.Begin(t.Context(), "acme"); refusal != nil || err != nil {
				t.Errorf("applies %t: next Begin() = %v, %v, want no refusal and no error", applies, refusal, err)
			}
		})
	}
}

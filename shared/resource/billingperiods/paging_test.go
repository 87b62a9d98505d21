package billingperiods_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/core/operation"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/resource/billingperiods"
	"github.com/gatewright/gatewright/shared/resource/metering"
)

// recordingSubscriptions counts the calls of Close for each subscription. It returns no writes.
type recordingSubscriptions struct {
	mu    sync.Mutex
	calls map[store.Key]int
	total int
}

func (s *recordingSubscriptions) Close(_ context.Context, key store.Key, _ time.Time) ([]store.Write, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[key]++
	if s.total++; s.total > 2000 {
		return nil, false, errors.New("Close was called more than 2000 times")
	}
	return nil, false, nil
}

// TestEachSubscriptionOfShardIsClosedOnce checks that Close is called exactly once for each due subscription of a
// shard, although the subscriptions stay in the index. The numbers of subscriptions are around the page size and its multiples.
func TestEachSubscriptionOfShardIsClosedOnce(t *testing.T) {
	for _, count := range []int{1, 199, 200, 201, 401, 600} {
		fx := newFixture(t)
		q := metering.DueQuery(3, fx.now)
		var writes []store.Write
		for i := range count {
			writes = append(writes, store.Put(store.KeyPrefix("test-subscription").Key(fmt.Sprint(i)), map[string]string{
				"duePk": q.PK, "dueSk": fmt.Sprintf("2025-11-%02dT00:00:00.000Z#sbsc_%d", 1+i%28, i),
			}))
		}
		for len(writes) > 0 {
			n := min(len(writes), 50)
			fx.noError(fx.parts.Table.Commit(t.Context(), writes[:n]...))
			writes = writes[n:]
		}
		subscriptions := &recordingSubscriptions{calls: map[store.Key]int{}}
		s := billingperiods.New(fx.parts.Table, subscriptions, fx.parts.Log)
		engine, err := operation.New(fx.parts.Table, s.Definitions(),
			operation.Options{Now: fx.parts.Now, Random: fx.parts.Random, Log: fx.parts.Log})
		fx.noError(err)
		if started, err := s.Begin(t.Context(), fx.now); started != 1 || err != nil {
			t.Fatalf("Begin() = %d, %v, want 1 and no error", started, err)
		}
		fx.noError(engine.Sweep(t.Context()))
		if len(subscriptions.calls) != count || subscriptions.total != count || len(fx.unfinishedOperations()) > 0 {
			t.Errorf("Sweep() closes %d subscriptions in %d calls and leaves %d operations, want %d, %[4]d and 0",
				len(subscriptions.calls), subscriptions.total, len(fx.unfinishedOperations()), count)
		}
	}
}

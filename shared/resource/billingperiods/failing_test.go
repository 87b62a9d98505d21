package billingperiods_test

import (
	"context"
	"errors"
	"testing"

	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/memory"
	"github.com/gatewright/gatewright/shared/format/meter"
	"github.com/gatewright/gatewright/shared/resource/billingperiods"
	"github.com/gatewright/gatewright/shared/resource/metering"
)

// failingShard is a table that fails for one shard.
type failingShard struct {
	*memory.Backend
	partition string // the shard's partition
}

var errUnavailable = errors.New("the table is unavailable")

func (s *failingShard) Query(ctx context.Context, q store.Query) ([]store.Item, string, error) {
	if q.PK == s.partition {
		return nil, "", errUnavailable
	}
	return s.Backend.Query(ctx, q)
}

// TestFailingShardDoesNotBlockOthers checks that Begin begins the operations of the other shards if one shard fails. It
// also checks that Begin returns the error, so that its caller retries.
func TestFailingShardDoesNotBlockOthers(t *testing.T) {
	fx := newFixture(t)
	for range 100 {
		fx.mustSubscribe(day(2025, 10, 1), meter.Monthly, 0)
	}
	dueShards := 0 // without the failing shard 0
	for shard := range metering.DueShards {
		keys, err := fx.parts.Table.Keys(t.Context(), metering.DueQuery(shard, fx.now))
		fx.noError(err)
		if shard > 0 && len(keys) > 0 {
			dueShards++
		}
	}
	started, err := billingperiods.Open(fx.partsOver(&failingShard{fx.items, metering.DueQuery(0, fx.now).PK})).Begin(
		t.Context(),
		fx.now)
	if started != dueShards || !errors.Is(err, errUnavailable) {
		t.Errorf("Begin() with a failing shard = %d, %v, want %d and %v", started, err, dueShards, errUnavailable)
	}
}

package boundaries_test

import (
	"context"
	"errors"
	"testing"

	"github.com/gatewright/gatewright/shared/boundaries"
	"github.com/gatewright/gatewright/shared/meter"
	"github.com/gatewright/gatewright/shared/metering"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/memory"
)

// deaf is a table that answers nothing of one shard.
type deaf struct {
	*memory.Backend
	to string // the shard's partition
}

var errDeaf = errors.New("the table is deaf")

func (d *deaf) Query(ctx context.Context, q store.Query) ([]store.Item, string, error) {
	if q.PK == d.to {
		return nil, "", errDeaf
	}
	return d.Backend.Query(ctx, q)
}

// TestShardThatFailsKeepsNoOtherFromItsOwn, and is told of, so that the call is made again.
func TestShardThatFailsKeepsNoOtherFromItsOwn(t *testing.T) {
	w := newWorld(t)
	for range 100 {
		w.subscribed(day(2025, 10, 1), meter.Monthly, 0)
	}
	due := 0
	for shard := range metering.DueShards {
		keys, err := w.parts.Table.Keys(t.Context(), metering.DueQuery(shard, w.now))
		w.must(err)
		if shard > 0 && len(keys) > 0 {
			due++
		}
	}
	begun, err := boundaries.Open(w.over(&deaf{w.items, metering.DueQuery(0, w.now).PK})).Begin(t.Context(), w.now)
	if begun != due || !errors.Is(err, errDeaf) {
		t.Errorf("%d of %d are begun, and it answers %v", begun, due, err)
	}
}

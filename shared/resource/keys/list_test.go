package keys_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/memory"
	"github.com/gatewright/gatewright/shared/resource/keys"
)

// failingQueries fails each query after the first remaining queries.
type failingQueries struct {
	store.Backend
	remaining atomic.Int64
}

var errQuery = errors.New("the table is not available")

// Query implements store.Backend.
func (b *failingQueries) Query(ctx context.Context, q store.Query) ([]store.Item, string, error) {
	if b.remaining.Add(-1) < 0 {
		return nil, "", errQuery
	}
	return b.Backend.Query(ctx, q)
}

// TestFailedReadOfListIsReturned checks that a list of consumers with keys returns the error of each of its queries.
func TestFailedReadOfListIsReturned(t *testing.T) {
	backend := &failingQueries{}
	backend.remaining.Store(1 << 30)
	fx := newFixtureOver(t, memory.New(), func(b store.Backend) store.Backend { backend.Backend = b; return backend })
	fx.createBucket()
	fx.createConsumer("first")
	fx.createKey("first", keys.NewKey{})
	const maxQueries = 100
	for remaining := range maxQueries {
		backend.remaining.Store(int64(remaining))
		out, _, _, err := fx.keys.ListConsumers(fx.Context(), bucketAt(bucket), keys.Filter{}, all, keys.Include{Keys: true})
		switch {
		case err == nil && len(out) == 1 && len(out[0].Keys) == 1 && remaining > 0:
			return // each query of the list was the first to fail in one of the earlier calls
		case err == nil:
			t.Fatalf("ListConsumers() with failing query %d = %+v, want an error", remaining+1, out)
		case !errors.Is(err, errQuery) || len(out) > 0:
			t.Fatalf("ListConsumers() with failing query %d = %d consumers, %v, want none and %v", remaining+1, len(out), err,
				errQuery)
		}
	}
	t.Errorf("ListConsumers() needs at least %d queries, want fewer", maxQueries)
}

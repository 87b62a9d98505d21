package billingperiods_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/format/meter"
	"github.com/gatewright/gatewright/shared/testing/simulations"
)

// countingBackend counts requests to the table.
type countingBackend struct {
	store.Backend
	reads, queries, commits atomic.Int64
}

// Read implements store.Backend.
func (b *countingBackend) Read(ctx context.Context, keys []store.Key) ([]store.Item, error) {
	b.reads.Add(1)
	return b.Backend.Read(ctx, keys)
}

// Query implements store.Backend.
func (b *countingBackend) Query(ctx context.Context, q store.Query) ([]store.Item, string, error) {
	b.queries.Add(1)
	return b.Backend.Query(ctx, q)
}

// Transact implements store.Backend.
func (b *countingBackend) Transact(ctx context.Context, token string, writes []store.Write) error {
	b.commits.Add(1)
	return b.Backend.Transact(ctx, token, writes)
}

// TestCostGrowsWithDueSubscriptions checks that a run makes as many requests to the table with a hundred thousand
// subscriptions as with ten thousand, if a thousand are due. With GATEWRIGHT_SIMULATIONS=10 it uses a million.
func TestCostGrowsWithDueSubscriptions(t *testing.T) {
	const due = 1000
	sizes := []int{10_000, max(20_000, simulations.Runs(100_000))}
	var requestCounts []string
	for _, total := range sizes {
		fx := newFixture(t)
		for i := range due {
			fx.mustSubscribe(day(2026, 2, 1+i%14), meter.Monthly, 0)
		}
		template := fx.mustSubscribe(day(2026, 3, 1), meter.Monthly, 0)
		fx.addNotDue(fx.keyOf(template), total-due-1)
		backend := &countingBackend{Backend: fx.items}
		fx.run(fx.partsOver(backend))
		if remaining := fx.due(); len(remaining) > 0 {
			t.Fatalf("%[2]d of %[1]d subscriptions are still due, want 0", total, len(remaining))
		}
		reads, queries, commits := backend.reads.Load(), backend.queries.Load(), backend.commits.Load()
		requestCounts = append(requestCounts, fmt.Sprintf("%d reads, %d queries, %d commits", reads, queries, commits))
		// For each due subscription, the run reads the subscription, its period's row, its plans and its counter. The
		// other requests are for the operations.
		if sum := reads + queries + commits; sum > due*5+200 {
			t.Errorf("closing %d of %d subscriptions takes %d requests (%s), want at most %d",
				due, total, sum, requestCounts[len(requestCounts)-1], due*5+200)
		}
	}
	if requestCounts[0] != requestCounts[1] {
		t.Errorf("closing among %d subscriptions: %s, among %d: %s, want the same",
			sizes[0], requestCounts[0], sizes[1], requestCounts[1])
	}
}

// addNotDue creates n subscriptions that are not due, as copies of the subscription with the key template. Each copy
// has a row with an entry in the due index, where a run could find it.
func (fx *fixture) addNotDue(template store.Key, n int) {
	fx.Helper()
	var row struct {
		DuePK string `dynamodbav:"duePk"`
		DueSK string `dynamodbav:"dueSk"`
	}
	fx.noError(store.Decode(fx.items.Items()[template], &row))
	dueSK := row.DueSK
	writes := make([]store.Write, 0, store.MaxWrites)
	for i := range n {
		row.DuePK, row.DueSK = fmt.Sprint("metering-due#", i%16), fmt.Sprint(dueSK, i)
		writes = append(writes, store.Put(store.Key{PK: template.PK, SK: fmt.Sprint(template.SK, i)}, row))
		if len(writes) == store.MaxWrites || i == n-1 {
			fx.noError(fx.items.Transact(fx.Context(), fmt.Sprint("not-due-", i), writes))
			writes = writes[:0]
		}
	}
}

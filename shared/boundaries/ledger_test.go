package boundaries_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/gatewright/gatewright/shared/meter"
	"github.com/gatewright/gatewright/shared/operation/simulations"
	"github.com/gatewright/gatewright/shared/store"
)

// asked counts requests to the table.
type asked struct {
	store.Backend
	reads, queries, commits atomic.Int64
}

// Read implements store.Backend.
func (a *asked) Read(ctx context.Context, keys []store.Key) ([]store.Item, error) {
	a.reads.Add(1)
	return a.Backend.Read(ctx, keys)
}

// Query implements store.Backend.
func (a *asked) Query(ctx context.Context, q store.Query) ([]store.Item, string, error) {
	a.queries.Add(1)
	return a.Backend.Query(ctx, q)
}

// Transact implements store.Backend.
func (a *asked) Transact(ctx context.Context, token string, writes []store.Write) error {
	a.commits.Add(1)
	return a.Backend.Transact(ctx, token, writes)
}

// TestCostGrowsWithWhatIsDue: a run asks the table as often among a hundred
// thousand subscriptions as among ten thousand, of which a thousand are due. With
// GATEWRIGHT_SIMULATIONS=10 it is a million, and the same.
func TestCostGrowsWithWhatIsDue(t *testing.T) {
	const due = 1000
	sizes := []int{10_000, max(20_000, simulations.Runs(100_000))}
	var ledger []string
	for _, all := range sizes {
		w := newWorld(t)
		for i := range due {
			w.subscribed(day(2026, 2, 1+i%14), meter.Monthly, 0)
		}
		template := w.subscribed(day(2026, 3, 1), meter.Monthly, 0)
		w.crowd(w.keyOf(template), all-due-1)
		a := &asked{Backend: w.items}
		w.run(w.over(a))
		if left := w.due(); len(left) > 0 {
			t.Fatalf("of %d, %d are still due", all, len(left))
		}
		reads, queries, commits := a.reads.Load(), a.queries.Load(), a.commits.Load()
		ledger = append(ledger, fmt.Sprintf("%d reads, %d queries, %d commits", reads, queries, commits))
		// The subscription, its period's row, its plans and its one counter are read; the
		// rest is of the operations.
		if sum := reads + queries + commits; sum > due*5+200 {
			t.Errorf("%d of %d cost %d requests: %s", due, all, sum, ledger[len(ledger)-1])
		}
	}
	if ledger[0] != ledger[1] {
		t.Errorf("among %d: %s; among %d: %s", sizes[0], ledger[0], sizes[1], ledger[1])
	}
}

// crowd makes subscriptions that are not due, as the one at a key: their rows with
// their places in the due index, from which alone a run could find them.
func (w *world) crowd(like store.Key, n int) {
	w.Helper()
	var row struct {
		DuePK string `dynamodbav:"duePk"`
		DueSK string `dynamodbav:"dueSk"`
	}
	w.must(store.Decode(w.items.Items()[like], &row))
	later := row.DueSK
	writes := make([]store.Write, 0, store.MaxWrites)
	for i := range n {
		row.DuePK, row.DueSK = fmt.Sprint("metering-due#", i%16), fmt.Sprint(later, i)
		writes = append(writes, store.Put(store.Key{PK: like.PK, SK: fmt.Sprint(like.SK, i)}, row))
		if len(writes) == store.MaxWrites || i == n-1 {
			w.must(w.items.Transact(w.Context(), fmt.Sprint("crowd-", i), writes))
			writes = writes[:0]
		}
	}
}

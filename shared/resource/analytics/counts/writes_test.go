package counts

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/resource/analytics"
	"github.com/gatewright/gatewright/shared/testing/simulations"
)

// sizeRecorder records the maximum size of transactions, in bytes and in writes.
type sizeRecorder struct {
	store.Backend
	mu            sync.Mutex
	bytes, writes int
}

func (r *sizeRecorder) Transact(ctx context.Context, token string, writes []store.Write) error {
	bytes := 0
	for _, w := range writes {
		bytes += store.Size(w.Item)
	}
	r.mu.Lock()
	r.bytes, r.writes = max(r.bytes, bytes), max(r.writes, len(writes))
	r.mu.Unlock()
	return r.Backend.Transact(ctx, token, writes)
}

// TestTransactionsStayBelowTableLimit checks that the largest transaction has at most 4 MB, DynamoDB's limit, while the
// counts of 60 deployments are written. Each deployment has hundreds of callers with long names.
func TestTransactionsStayBelowTableLimit(t *testing.T) {
	simulations.SkipUnderRace(t)
	t.Parallel()
	const maxBytes, deployments, callers = 4 << 20, 60, 700
	fx := newFixture(t)
	recorder := &sizeRecorder{Backend: fx.items}
	c := fx.collectorOver(store.New(recorder, store.Options{Random: fx.random, Now: fx.now}))
	for d := range deployments {
		deployment := analytics.Deployment{Name: fmt.Sprintf("d-%d", d)}
		for range callers {
			c.Call(analytics.Call{Deployment: deployment, Consumer: incompressible(fx.random, 180), Status: 200, At: fx.time})
		}
	}
	fx.drain(c)
	if recorder.bytes > maxBytes || recorder.bytes < maxBytes/4 {
		t.Errorf("largest transaction = %d bytes, want %d to %d", recorder.bytes, maxBytes/4, maxBytes)
	}
}

// TestWriteNumberOutlivesRetries checks that the table keeps the number of a write for longer than the write is retried.
func TestWriteNumberOutlivesRetries(t *testing.T) {
	t.Parallel()
	fx := newFixture(t)
	c := fx.collector()
	c.Call(newCall("acme", 200, fx.time))
	fx.drain(c)
	var last writerState
	if err := fx.table.Load(t.Context(), store.Get(writerKey(c.id), &last)); err != nil {
		t.Fatalf("Load(state of the writer) error = %v, want none", err)
	}
	if retention := time.Unix(last.TTL, 0).Sub(fx.time); last.Seq != 1 || retention < 2*retryWindow {
		t.Errorf("stored write number = %d, kept for %s, want 1 and at least %s", last.Seq, retention, 2*retryWindow)
	}
}

// TestOneRunRollsUpAllRows checks that one run adds up all rows of a deployment in several transactions. If the rollup
// of a deployment fails, the run must still add up the rows of the other deployments.
func TestOneRunRollsUpAllRows(t *testing.T) {
	t.Parallel()
	fx := newFixture(t)
	c := fx.collector()
	for _, maxRows := range []int{bucketCount, bucketCount - 1, 1} {
		for range 3 * bucketCount {
			c.Call(newCall("acme", 200, fx.time))
			fx.drain(c)
		}
		r := NewRollup(fx.table, fx.now)
		r.maxRows = maxRows
		if n, err := r.Run(t.Context()); n != bucketCount || err != nil {
			t.Errorf("Run() with at most %d rows per transaction = %d rows, %v, want %d rows and no error",
				maxRows, n, err, bucketCount)
		}
	}
	for _, name := range []string{"a", shop.Name, "z"} {
		c.Call(analytics.Call{Deployment: analytics.Deployment{Name: name}, Status: 200, At: fx.time})
	}
	fx.drain(c)
	broken := store.KeyIn(pendingPartition("a"), "0")
	if err := fx.table.Commit(t.Context(),
		store.Put(broken, pendingRow{row: row{Data: []byte{99}}, DuePK: duePartition(), DueSK: formatTime(0)})); err != nil {
		t.Fatal(err)
	}
	n, err := NewRollup(fx.table, fx.now).Run(t.Context())
	if n != 2 || err == nil {
		t.Errorf("Run() next to a broken row = %d rows, %v, want 2 rows and an error", n, err)
	}
}

// TestDetailsAreBounded counts maxCallers callers in each of 20 hours: more than a response may contain. The details
// must be limited, and their sum must contain all calls.
func TestDetailsAreBounded(t *testing.T) {
	t.Parallel()
	fx := newFixture(t)
	start := fx.time.Truncate(day)
	c := fx.collector()
	calls := int64(0)
	for hour := range 20 {
		fx.time = start.Add(time.Duration(hour) * time.Hour)
		for i := range maxCallers {
			c.Call(newCall(fmt.Sprint("c", i), 200, fx.time))
			calls++
		}
		fx.drain(c)
	}
	details := fx.statuses(Last24Hours, allCallers).Details
	if len(details) > maxDetails+20 || len(details) < maxDetails {
		t.Errorf("Statuses() has %d details, want %d to %d", len(details), maxDetails, maxDetails+20)
	}
	for _, count := range details {
		calls -= count.Calls
	}
	if calls != 0 {
		t.Errorf("%d calls missing in the details, want 0", calls)
	}
}

// interruptedBackend calls a function after the first query.
type interruptedBackend struct {
	store.Backend
	afterQuery func()
}

func (b *interruptedBackend) Query(ctx context.Context, q store.Query) ([]store.Item, string, error) {
	items, next, err := b.Backend.Query(ctx, q)
	if afterQuery := b.afterQuery; afterQuery != nil {
		b.afterQuery = nil
		afterQuery()
	}
	return items, next, err
}

// TestRecentCallsAreListedOnceDuringRollup runs a rollup while the calls are read, and checks that Recent still returns
// three calls.
func TestRecentCallsAreListedOnceDuringRollup(t *testing.T) {
	t.Parallel()
	fx := newFixture(t)
	c := fx.collector()
	for i := range 3 {
		c.Call(newCall(fmt.Sprint("c", i), 200, fx.time))
	}
	fx.drain(c)
	r := NewReader(store.New(&interruptedBackend{fx.items, func() {
		fx.rollup()
	}}, store.Options{Random: fx.random, Now: fx.now}), fx.now)
	got, err := r.Recent(t.Context(), shop.Name, allCallers, 10)
	if err != nil || len(got) != 3 {
		t.Errorf("Recent() during a rollup = %v, %v, want 3 calls and no error", got, err)
	}
}

package counts

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/analytics"
	"github.com/gatewright/gatewright/shared/operation/simulations"
	"github.com/gatewright/gatewright/shared/store"
)

// largest has the size of the largest transaction.
type largest struct {
	store.Backend
	mu            sync.Mutex
	bytes, writes int
}

func (l *largest) Transact(ctx context.Context, token string, writes []store.Write) error {
	bytes := 0
	for _, w := range writes {
		bytes += store.Size(w.Item)
	}
	l.mu.Lock()
	l.bytes, l.writes = max(l.bytes, bytes), max(l.writes, len(writes))
	l.mu.Unlock()
	return l.Backend.Transact(ctx, token, writes)
}

// TestTransactionsAreWhatATableTakes, of hundreds of deployments with as much to write as there can be.
func TestTransactionsAreWhatATableTakes(t *testing.T) {
	simulations.Sequential(t)
	t.Parallel()
	const mostBytes, deployments, callers = 4 << 20, 60, 700
	w := newWorld(t)
	seen := &largest{Backend: w.items}
	c := w.collectorOver(store.New(seen, store.Options{Random: w.random, Now: w.now}))
	for d := range deployments {
		at := analytics.Deployment{Name: fmt.Sprintf("d-%d", d)}
		for range callers {
			c.Call(analytics.Call{Deployment: at, Consumer: noise(w.random, 180), Status: 200, At: w.time})
		}
	}
	w.drain(c)
	if seen.bytes > mostBytes || seen.bytes < mostBytes/4 {
		t.Errorf("a transaction has %d bytes", seen.bytes)
	}
}

// TestNumberOfAWriteOutlivesItsRetries: what is tried again for an hour is known to be made for longer than that.
func TestNumberOfAWriteOutlivesItsRetries(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.collector()
	c.Call(calledBy("acme", 200, w.time))
	w.drain(c)
	var last writer
	if err := w.table.Load(t.Context(), store.Want(writerKey(c.id), &last)); err != nil {
		t.Fatal(err)
	}
	if kept := time.Unix(last.TTL, 0).Sub(w.time); last.Seq != 1 || kept < 2*lateWrites {
		t.Errorf("the number %d is kept for %s, of writes that are tried for %s", last.Seq, kept, lateWrites)
	}
}

// TestOneRunAddsUpAll of a deployment, in however many transactions, and of the others when one fails.
func TestOneRunAddsUpAll(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.collector()
	for _, most := range []int{placeCount, placeCount - 1, 1} {
		for range 3 * placeCount {
			c.Call(calledBy("acme", 200, w.time))
			w.drain(c)
		}
		r := NewRollup(w.table, w.now)
		r.most = most
		if n, err := r.Run(t.Context()); n != placeCount || err != nil {
			t.Errorf("%d rows are added up, of %d: %v", n, placeCount, err)
		}
	}
	for _, name := range []string{"a", shop.Name, "z"} {
		c.Call(analytics.Call{Deployment: analytics.Deployment{Name: name}, Status: 200, At: w.time})
	}
	w.drain(c)
	broken := store.In(freshPartition("a"), "0")
	if err := w.table.Commit(t.Context(), store.Put(broken, freshRow{row: row{Data: []byte{99}}, DuePK: duePartition(), DueSK: spell(0)})); err != nil {
		t.Fatal(err)
	}
	n, err := NewRollup(w.table, w.now).Run(t.Context())
	if n != 2 || err == nil {
		t.Errorf("%d rows of the others are added up, and the error is %v", n, err)
	}
}

// TestDetailsAreBounded: thousands of callers in each hour of a day are more than an answer may have.
func TestDetailsAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	start := w.time.Truncate(day)
	c := w.collector()
	calls := int64(0)
	for hour := range 20 {
		w.time = start.Add(time.Duration(hour) * time.Hour)
		for i := range maxCalls {
			c.Call(calledBy(fmt.Sprint("c", i), 200, w.time))
			calls++
		}
		w.drain(c)
	}
	details := w.statuses(Last24Hours, everybody).Details
	if len(details) > maxDetails+20 || len(details) < maxDetails {
		t.Errorf("there are %d details", len(details))
	}
	for _, by := range details {
		calls -= by.Calls
	}
	if calls != 0 {
		t.Errorf("%d calls are left out", calls)
	}
}

// meddling does something after the first query.
type meddling struct {
	store.Backend
	then func()
}

func (m *meddling) Query(ctx context.Context, q store.Query) ([]store.Item, string, error) {
	items, next, err := m.Backend.Query(ctx, q)
	if then := m.then; then != nil {
		m.then = nil
		then()
	}
	return items, next, err
}

// TestRecentCallsAreToldOnce, with a rollup in the middle of reading them.
func TestRecentCallsAreToldOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.collector()
	for i := range 3 {
		c.Call(calledBy(fmt.Sprint("c", i), 200, w.time))
	}
	w.drain(c)
	r := NewReader(store.New(&meddling{w.items, func() { w.rollup() }}, store.Options{Random: w.random, Now: w.now}), w.now)
	got, err := r.Recent(t.Context(), shop.Name, everybody, 10)
	if err != nil || len(got) != 3 {
		t.Errorf("there are %v, %v", got, err)
	}
}

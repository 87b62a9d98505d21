package counts

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/memory"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
	"github.com/gatewright/gatewright/shared/resource/analytics"
)

// TestMain makes garbage collections rarer while memory use is low: simulations create many small, short-lived fixtures.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	debug.SetMemoryLimit(512 << 20)
	os.Exit(m.Run())
}

// shop is the deployment in tests.
var shop = analytics.Deployment{AccountID: "a", Project: "shop", Environment: "production", Name: "shop-main-0123abc"}

// fixture is a table with a clock that tests control, and the code that counts in it.
type fixture struct {
	testing.TB
	items  *memory.Backend
	table  *store.Table
	time   time.Time
	random *rand.ChaCha8
}

func newFixture(t testing.TB) *fixture {
	fx := &fixture{TB: t, items: memory.New(), time: storetest.Epoch, random: rand.NewChaCha8([32]byte{1})}
	fx.table = storetest.NewWithBackend(t, fx.items, storetest.Clock(fx.now), storetest.Backoff(storetest.NoBackoff))
	return fx
}

func (fx *fixture) now() time.Time { return fx.time }

func (fx *fixture) collector() *Collector { return fx.collectorOver(fx.table) }

func (fx *fixture) collectorOver(table *store.Table) *Collector {
	return New(Options{Table: table, Now: fx.now, Random: fx.random, Log: slog.New(slog.DiscardHandler)})
}

func (fx *fixture) drain(c *Collector) {
	fx.Helper()
	if err := c.Drain(fx.Context()); err != nil {
		fx.Fatalf("Drain() error = %v, want none", err)
	}
}

func (fx *fixture) rollup() (added int) {
	fx.Helper()
	added, err := NewRollup(fx.table, fx.now).Run(fx.Context())
	if err != nil {
		fx.Fatalf("Run() of a rollup: error = %v, want none", err)
	}
	return added
}

func (fx *fixture) reader() *Reader { return NewReader(fx.table, fx.now) }

func (fx *fixture) statuses(window Window, callers Callers) Statuses {
	fx.Helper()
	s, err := fx.reader().Statuses(fx.Context(), shop.Name, window, callers)
	if err != nil {
		fx.Fatalf("Statuses(%s) error = %v, want none", window, err)
	}
	return s
}

func (fx *fixture) operations(window Window) Operations {
	fx.Helper()
	o, err := fx.reader().Operations(fx.Context(), shop.Name, window)
	if err != nil {
		fx.Fatalf("Operations(%s) error = %v, want none", window, err)
	}
	return o
}

func (fx *fixture) recent(callers Callers, limit int) []RecentCall {
	fx.Helper()
	calls, err := fx.reader().Recent(fx.Context(), shop.Name, callers, limit)
	if err != nil {
		fx.Fatalf("Recent() error = %v, want none", err)
	}
	return calls
}

var allCallers = Callers{All: true}

// newCall returns a call of shop by a consumer.
func newCall(consumer string, status int, at time.Time) analytics.Call {
	return analytics.Call{
		Deployment: shop, Consumer: consumer, Method: "GET", Route: "/todos/{id}", Status: status,
		At: at,
	}
}

// newOperation returns a query of shop with this total latency. Its resolvers take half of the time.
func newOperation(name string, total time.Duration, at time.Time) analytics.Operation {
	return analytics.Operation{
		Deployment: shop, Route: "/graphql", Name: name, Type: "query", At: at, Total: total,
		Resolver: total / 2, Complexity: 3,
	}
}

// formatCounts formats counts, one per line.
func formatCounts(all []CallerCount) string {
	out := ""
	for _, c := range all {
		at := ""
		if !c.At.IsZero() {
			at = c.At.Format("2006-01-02T15:04 ")
		}
		out += fmt.Sprintf("%s%s %d %v\n", at, c.Consumer, c.Calls, c.ByStatus)
	}
	return out
}

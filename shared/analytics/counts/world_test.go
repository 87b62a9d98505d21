package counts

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/analytics"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/memory"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

// TestMain has garbage collected less often while the process holds little: simulations make many small worlds, each for a moment.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	debug.SetMemoryLimit(512 << 20)
	os.Exit(m.Run())
}

// shop is what is called in tests.
var shop = analytics.Deployment{AccountID: "a", Project: "shop", Environment: "production", Name: "shop-main-0123abc"}

// world is a table with a clock that tests move, and what counts over it.
type world struct {
	testing.TB
	items  *memory.Backend
	table  *store.Table
	time   time.Time
	random *rand.ChaCha8
}

func newWorld(t testing.TB) *world {
	w := &world{TB: t, items: memory.New(), time: storetest.Epoch, random: rand.NewChaCha8([32]byte{1})}
	w.table = storetest.Over(t, w.items, storetest.Clock(w.now), storetest.Pause(storetest.AtOnce))
	return w
}

func (w *world) now() time.Time { return w.time }

func (w *world) collector() *Collector { return w.collectorOver(w.table) }

func (w *world) collectorOver(table *store.Table) *Collector {
	return New(Options{Table: table, Now: w.now, Random: w.random, Log: slog.New(slog.DiscardHandler)})
}

func (w *world) drain(c *Collector) {
	w.Helper()
	if err := c.Drain(w.Context()); err != nil {
		w.Fatal(err)
	}
}

func (w *world) rollup() (added int) {
	w.Helper()
	added, err := NewRollup(w.table, w.now).Run(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	return added
}

func (w *world) reader() *Reader { return NewReader(w.table, w.now) }

func (w *world) statuses(window Window, callers Callers) Statuses {
	w.Helper()
	s, err := w.reader().Statuses(w.Context(), shop.Name, window, callers)
	if err != nil {
		w.Fatal(err)
	}
	return s
}

func (w *world) operations(window Window) Operations {
	w.Helper()
	o, err := w.reader().Operations(w.Context(), shop.Name, window)
	if err != nil {
		w.Fatal(err)
	}
	return o
}

func (w *world) recent(callers Callers, limit int) []RecentCall {
	w.Helper()
	calls, err := w.reader().Recent(w.Context(), shop.Name, callers, limit)
	if err != nil {
		w.Fatal(err)
	}
	return calls
}

var everybody = Callers{All: true}

func calledBy(consumer string, status int, at time.Time) analytics.Call {
	return analytics.Call{Deployment: shop, Consumer: consumer, Method: "GET", Route: "/todos/{id}", Status: status, At: at}
}

func asked(name string, total time.Duration, at time.Time) analytics.Operation {
	return analytics.Operation{Deployment: shop, Route: "/graphql", Name: name, Type: "query", At: at, Total: total, Resolver: total / 2, Complexity: 3}
}

// text shows counts in one line.
func text(all []CallerCount) string {
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

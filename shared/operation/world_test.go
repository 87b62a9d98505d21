package operation_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/operation"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/memory"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

// world is an engine over a table in memory. Made inside a synctest bubble, its
// clock is the bubble's.
type world struct {
	t       testing.TB
	backend *memory.Backend
	table   *store.Table
	engine  *operation.Engine
	kinds   []operation.Definition // that engine knows
	log     *logged
}

func newWorld(t testing.TB, definitions ...operation.Definition) *world {
	t.Helper()
	w := &world{t: t, backend: memory.New(), kinds: definitions, log: &logged{t: t}}
	w.table = storetest.Over(t, w.backend, storetest.Clock(time.Now))
	w.engine = w.engineOf(definitions...)
	return w
}

// engineOf makes a further engine over the same table.
func (w *world) engineOf(definitions ...operation.Definition) *operation.Engine {
	w.t.Helper()
	e, err := operation.New(w.table, definitions, w.options())
	if err != nil {
		w.t.Fatal(err)
	}
	return e
}

func (w *world) options() operation.Options {
	return operation.Options{
		Now: time.Now, Random: storetest.Random(w.t), Log: slog.New(w.log),
		Jitter: func(limit time.Duration) time.Duration { return limit },
	}
}

func (w *world) commit(writes ...store.Write) {
	w.t.Helper()
	if err := w.table.Commit(w.t.Context(), writes...); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) begin(id, kind string) {
	w.t.Helper()
	w.commit(operation.Begin(operation.Start{ID: id, Kind: kind}, time.Now()))
}

func (w *world) run(id string) operation.Record {
	w.t.Helper()
	r, err := w.engine.Run(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

func (w *world) read(id string) operation.Record {
	w.t.Helper()
	r, err := w.engine.Read(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

func (w *world) sweep() {
	w.t.Helper()
	if err := w.engine.Sweep(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

// untilEnd sweeps once a minute until the operation ends.
func (w *world) untilEnd(id string) operation.Record {
	w.t.Helper()
	for range 1000 {
		w.sweep()
		if r := w.read(id); r.Ended() {
			return r
		}
		time.Sleep(time.Minute)
	}
	w.t.Fatalf("operation %s does not end", id)
	return operation.Record{}
}

func (w *world) counter(name string) int {
	w.t.Helper()
	var c struct {
		N int `dynamodbav:"n"`
	}
	if err := w.table.Get(w.t.Context(), counterKey(name), &c); err != nil && !errors.Is(err, store.ErrNotFound) {
		w.t.Fatal(err)
	}
	return c.N
}

func counterKey(name string) store.Key { return store.Key{PK: "counter#" + name, SK: "."} }

// add is a task with one effect, which would show if it happened twice.
func add(name string, n int64) operation.Task {
	return func(context.Context, operation.Step) (operation.Result, error) {
		return operation.Result{Writes: []store.Write{store.Upsert(counterKey(name), store.Add(store.At("n"), n))}}, nil
	}
}

// logged keeps what an engine logs.
type logged struct {
	t     testing.TB
	mu    sync.Mutex
	lines []string
}

func (l *logged) Enabled(context.Context, slog.Level) bool { return true }

func (l *logged) Handle(_ context.Context, r slog.Record) error {
	line := r.Level.String() + " " + r.Message
	r.Attrs(func(a slog.Attr) bool {
		if line += " " + a.String(); a.Value.Resolve().Kind() == slog.KindDuration {
			l.t.Errorf("the field %s is a Duration, which JSON has in nanoseconds: log telemetry.Milliseconds of it", a.Key)
		}
		return true
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
	return nil
}

func (l *logged) WithAttrs([]slog.Attr) slog.Handler { return l }
func (l *logged) WithGroup(string) slog.Handler      { return l }

func (l *logged) messages() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.lines)
}

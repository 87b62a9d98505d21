package operation_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/core/operation"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/memory"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
)

// fixture is an engine over a table in memory. In a synctest bubble it uses the bubble's clock.
type fixture struct {
	t           testing.TB
	backend     *memory.Backend
	table       *store.Table
	engine      *operation.Engine
	definitions []operation.Definition // the definitions of engine
	log         *logRecorder
}

func newFixture(t testing.TB, definitions ...operation.Definition) *fixture {
	t.Helper()
	fx := &fixture{t: t, backend: memory.New(), definitions: definitions, log: &logRecorder{t: t}}
	fx.table = storetest.NewWithBackend(t, fx.backend, storetest.Clock(time.Now))
	fx.engine = fx.engineOf(definitions...)
	return fx
}

// engineOf returns another engine over the same table.
func (fx *fixture) engineOf(definitions ...operation.Definition) *operation.Engine {
	fx.t.Helper()
	e, err := operation.New(fx.table, definitions, fx.options())
	if err != nil {
		fx.t.Fatal(err)
	}
	return e
}

func (fx *fixture) options() operation.Options {
	return operation.Options{
		Now: time.Now, Random: storetest.Random(fx.t), Log: slog.New(fx.log),
		Jitter: func(limit time.Duration) time.Duration { return limit },
	}
}

func (fx *fixture) commit(writes ...store.Write) {
	fx.t.Helper()
	if err := fx.table.Commit(fx.t.Context(), writes...); err != nil {
		fx.t.Fatal(err)
	}
}

func (fx *fixture) begin(id, kind string) {
	fx.t.Helper()
	fx.commit(operation.Create(operation.Start{ID: id, Kind: kind}, time.Now()))
}

func (fx *fixture) run(id string) operation.Record {
	fx.t.Helper()
	r, err := fx.engine.Run(fx.t.Context(), id)
	if err != nil {
		fx.t.Fatalf("Run(%s) = %v, want success", id, err)
	}
	return r
}

func (fx *fixture) read(id string) operation.Record {
	fx.t.Helper()
	r, err := fx.engine.Read(fx.t.Context(), id)
	if err != nil {
		fx.t.Fatalf("Read(%s) = %v, want success", id, err)
	}
	return r
}

func (fx *fixture) sweep() {
	fx.t.Helper()
	if err := fx.engine.Sweep(fx.t.Context()); err != nil {
		fx.t.Fatalf("Sweep() = %v, want success", err)
	}
}

// untilEnd sweeps once a minute until the operation ends.
func (fx *fixture) untilEnd(id string) operation.Record {
	fx.t.Helper()
	for range 1000 {
		fx.sweep()
		if r := fx.read(id); r.Ended() {
			return r
		}
		time.Sleep(time.Minute)
	}
	fx.t.Fatalf("operation %s is still in progress, want it to end", id)
	return operation.Record{}
}

func (fx *fixture) counter(name string) int {
	fx.t.Helper()
	var c struct {
		N int `dynamodbav:"n"`
	}
	if err := fx.table.Get(fx.t.Context(), counterKey(name), &c); err != nil && !errors.Is(err, store.ErrNotFound) {
		fx.t.Fatal(err)
	}
	return c.N
}

func counterKey(name string) store.Key { return store.Key{PK: "counter#" + name, SK: "."} }

// addTask returns a task with one effect: it adds n to a counter. So a test sees if the effect happens twice.
func addTask(name string, n int64) operation.Task {
	return func(context.Context, operation.Step) (operation.Result, error) {
		return operation.Result{Writes: []store.Write{store.Upsert(counterKey(name), store.Add(store.At("n"), n))}}, nil
	}
}

// logRecorder records an engine's log lines. It fails the test if an attribute of a line is a Duration.
type logRecorder struct {
	t     testing.TB
	mu    sync.Mutex
	lines []string
}

func (l *logRecorder) Enabled(context.Context, slog.Level) bool { return true }

func (l *logRecorder) Handle(_ context.Context, r slog.Record) error {
	line := r.Level.String() + " " + r.Message
	r.Attrs(func(a slog.Attr) bool {
		if line += " " + a.String(); a.Value.Resolve().Kind() == slog.KindDuration {
			l.t.Errorf("the log attribute %s is a Duration, which JSON has in nanoseconds, want telemetry.Milliseconds", a.Key)
		}
		return true
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
	return nil
}

func (l *logRecorder) WithAttrs([]slog.Attr) slog.Handler { return l }
func (l *logRecorder) WithGroup(string) slog.Handler      { return l }

func (l *logRecorder) messages() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.lines)
}

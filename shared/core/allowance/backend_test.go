package allowance

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/memory"
)

// backend is a table in memory whose calls a test can count, delay and fail.
type backend struct {
	*memory.Backend
	// before, if not nil, is called before each Read and each commit. If it returns an error, they fail with it.
	before func(ctx context.Context) error
	// replaceNext, if not nil, is called in place of the next commit.
	replaceNext func(token string, writes []store.Write) error
	// reads and writes are the numbers of calls of Read and Transact.
	reads, writes atomic.Int64
}

func (b *backend) Read(ctx context.Context, keys []store.Key) ([]store.Item, error) {
	b.reads.Add(1)
	if b.before != nil {
		if err := b.before(ctx); err != nil {
			return nil, err
		}
	}
	return b.Backend.Read(ctx, keys)
}

func (b *backend) Transact(ctx context.Context, token string, writes []store.Write) error {
	b.writes.Add(1)
	if b.before != nil {
		if err := b.before(ctx); err != nil {
			return err
		}
	}
	if replace := b.replaceNext; replace != nil {
		b.replaceNext = nil
		return replace(token, writes)
	}
	return b.Backend.Transact(ctx, token, writes)
}

func newBackend() *backend { return &backend{Backend: memory.New()} }

// open returns an instance. nth distinguishes it from other instances in the same test.
func (b *backend) open(nth byte, change ...func(*Options)) *Pool {
	o := Options{
		Table: store.New(b, store.Options{Random: rand.NewChaCha8([32]byte{nth, 1}), Now: time.Now}),
		Now:   time.Now, Random: rand.NewChaCha8([32]byte{nth, 2}), Log: slog.New(slog.DiscardHandler),
	}
	for _, c := range change {
		c(&o)
	}
	return New(o)
}

// minute returns an allowance for the current minute.
func minute(limit int64) Allowance {
	a := Allowance{Name: "account/deployment/policy/user", Limit: limit}
	a.From, a.To = Window(time.Now(), time.Minute)
	return a
}

func mustTake(t *testing.T, pl *Pool, a Allowance, n int64) Decision {
	t.Helper()
	d, err := pl.Take(t.Context(), a, n)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func BenchmarkTakeFromMemory(b *testing.B) {
	pool := newBackend().open(1)
	a := minute(1 << 40)
	a.From, a.To = Window(time.Now(), 24*time.Hour)
	if _, err := pool.Take(b.Context(), a, 1); err != nil {
		b.Fatal(err)
	}
	s := pool.find(a.period(), a.Limit)
	s.tokens.Store(1 << 39)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if d, err := pool.Take(b.Context(), a, 1); err != nil || !d.Admitted {
				b.Fatalf("Take() = %+v, %v, want admitted", d, err)
			}
		}
	})
}

func BenchmarkRefuseFromMemory(b *testing.B) {
	pool := newBackend().open(1)
	a := minute(1)
	a.From, a.To = Window(time.Now(), 30*24*time.Hour)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := pool.Take(b.Context(), a, 1); err != nil {
			b.Fatal(err)
		}
	}
}

package allowance

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/memory"
)

// countingBackend is a table that takes 5 ms for each Read and each commit.
type countingBackend struct {
	*memory.Backend
	writes atomic.Int64 // the number of writes in all commits
	reads  atomic.Int64 // the number of calls of Read
}

func (c *countingBackend) Transact(ctx context.Context, token string, writes []store.Write) error {
	time.Sleep(5 * time.Millisecond)
	c.writes.Add(int64(len(writes)))
	return c.Backend.Transact(ctx, token, writes)
}

func (c *countingBackend) Read(ctx context.Context, keys []store.Key) ([]store.Item, error) {
	time.Sleep(5 * time.Millisecond)
	c.reads.Add(1)
	return c.Backend.Read(ctx, keys)
}

// fleet has instances with steady traffic in a synctest bubble.
type fleet struct {
	t        *testing.T
	table    *countingBackend
	span     time.Duration
	limit    int64
	strict   bool // the instances call Take, and not TakeAsync
	quota    bool // the instances use the Pool of Quotas
	admitted atomic.Int64
	refused  atomic.Int64
	nth      atomic.Int32 // the number of instances so far
}

func newFleet(t *testing.T, limit int64, span time.Duration) *fleet {
	return &fleet{t: t, table: &countingBackend{Backend: memory.New()}, span: span, limit: limit, strict: true}
}

// serve runs one instance with rate requests per second until ctx ends. Then the
// instance shuts down, or if crashes is true, stops without returning its units.
func (f *fleet) serve(ctx context.Context, rate float64, crashes bool) {
	nth := byte(f.nth.Add(1))
	o := Options{
		// Instances must not have the same random tokens: the table
		// treats two commits with the same token as one commit.
		Table: store.New(f.table, store.Options{Random: rand.NewChaCha8([32]byte{nth, 1}), Now: time.Now}), Now: time.Now,
		Random: rand.NewChaCha8([32]byte{nth}), Log: slog.New(slog.DiscardHandler),
	}
	pl := New(o)
	if f.quota {
		pl = NewQuotas(o).pool
	}
	runCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		if crashes {
			<-runCtx.Done()
			return
		}
		pl.Run(runCtx, time.Second)
	}()
	// Instances are not synchronized: each begins at a different time.
	time.Sleep(time.Duration(nth) * 37 * time.Millisecond)
	jitter := rand.New(rand.NewPCG(uint64(nth), 1))
	for ctx.Err() == nil {
		a := Allowance{Name: "a", Limit: f.limit}
		a.From, a.To = Window(time.Now(), f.span)
		take := pl.Take
		if !f.strict {
			take = pl.TakeAsync
		}
		d, err := take(ctx, a, 1)
		switch {
		case err != nil && ctx.Err() == nil:
			f.t.Errorf("take() error = %v, want none", err)
		case err == nil && d.Admitted:
			f.admitted.Add(1)
		case err == nil:
			f.refused.Add(1)
		}
		// Arrivals are random (a Poisson process), as real ones are.
		time.Sleep(time.Duration(jitter.ExpFloat64() / rate * float64(time.Second)))
	}
	stop()
	<-done
}

func (f *fleet) String() string {
	return fmt.Sprintf("admitted %d, refused %d, writes %d, reads %d: %.1f admitted a write",
		f.admitted.Load(), f.refused.Load(), f.table.writes.Load(), f.table.reads.Load(),
		float64(f.admitted.Load())/float64(f.table.writes.Load()))
}

func TestSteadyTrafficWritesOnceInTwentyAdmissions(t *testing.T) {
	tests := []struct {
		name      string
		limit     int64
		span      time.Duration
		instances int
		rate      float64 // requests per second at each instance
		periods   int
		strict    bool
	}{
		{"one instance below its limit", 1000, time.Minute, 1, 10, 5, true},
		{"four instances below the limit", 10_000, time.Minute, 4, 20, 5, true},
		{"the lowest traffic with 20 admissions per write", 1000, time.Minute, 4, 2.5, 5, true},
		{"the smallest limit under pressure", 500, time.Minute, 4, 20, 5, true},
		{"four instances at the limit", 1000, time.Minute, 4, 4.2, 5, true},
		{"four instances far above the limit", 1000, time.Minute, 4, 100, 3, true},
		{"sixteen instances far above the limit", 2000, time.Minute, 16, 50, 2, true},
		{"asynchronous, four instances", 10_000, time.Minute, 4, 20, 5, false},
		{"asynchronous, far above the limit", 1000, time.Minute, 4, 100, 3, false},
		{"an hour's window", 100_000, time.Hour, 4, 1.2, 1, true},
		{"a month's window, one hour of it", 10_000_000, 30 * 24 * time.Hour, 4, 1.2, 1, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, tt.limit, tt.span)
				f.strict = tt.strict
				ctx, stop := context.WithTimeout(t.Context(), min(tt.span, time.Hour)*time.Duration(tt.periods))
				defer stop()
				for range tt.instances {
					go f.serve(ctx, tt.rate, false)
				}
				<-ctx.Done()
				time.Sleep(time.Minute)
				t.Log(f)
				if f.admitted.Load() < 20*f.table.writes.Load() {
					t.Errorf("%v: want at least 20 admitted requests per write", f)
				}
			})
		})
	}
}

// TestAllowanceIsUsedUpWhileInstancesComeAndGo checks how much of the limit is admitted while instances are replaced:
// all of it if they shut down, and at least three quarters if they die.
func TestAllowanceIsUsedUpWhileInstancesComeAndGo(t *testing.T) {
	tests := []struct {
		name    string
		crashes bool
		minPart float64 // the minimum admitted part of the limit
	}{
		{"instances shut down", false, 1},
		// 60 instances die in this period, each with its leased units.
		{"instances die", true, 0.75},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const limit, span = 3000, 5 * time.Minute
				f := newFleet(t, limit, span)
				ctx, stop := context.WithTimeout(t.Context(), span-time.Millisecond)
				defer stop()
				// Every five seconds one of five instances is replaced. All
				// instances together request more units than the limit.
				for range 5 {
					go f.serve(ctx, 4, false)
				}
				for ctx.Err() == nil {
					runCtx, cancel := context.WithTimeout(ctx, 25*time.Second)
					defer cancel()
					go f.serve(runCtx, 4, tt.crashes)
					time.Sleep(5 * time.Second)
				}
				time.Sleep(time.Minute)
				part := float64(f.admitted.Load()) / limit
				t.Logf("%.3f of the limit: %v", part, f)
				if part < tt.minPart || part > 1 {
					t.Errorf("%.3f of the limit was admitted, want %.2f to 1", part, tt.minPart)
				}
			})
		})
	}
}

package store

import (
	"context"
	"sync"
)

// Meter counts what a piece of work asks of the table. The zero value is
// ready; a nil Meter counts nothing. It is safe for concurrent use.
type Meter struct {
	mu sync.Mutex
	u  Usage
}

// Usage is what a Meter has counted.
type Usage struct {
	// Reads, Queries and Commits are calls to the database by kind, repeats included.
	Reads, Queries, Commits int
	// ReadUnits and WriteUnits are capacity units as DynamoDB bills them.
	ReadUnits, WriteUnits float64
}

// Usage gives what was counted so far.
func (m *Meter) Usage() Usage {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.u
}

type meterKey struct{}

// WithMeter has all calls made under the context counted by m.
func WithMeter(ctx context.Context, m *Meter) context.Context {
	return context.WithValue(ctx, meterKey{}, m)
}

func meterOf(ctx context.Context) *Meter {
	m, _ := ctx.Value(meterKey{}).(*Meter)
	return m
}

// ChargeRead counts one request for items by their keys and the read units it
// used. Backends call this and the two below once for each request that really
// leaves the process, also for one that fails.
func ChargeRead(ctx context.Context, units float64) {
	charge(ctx, Usage{Reads: 1, ReadUnits: units})
}

// ChargeQuery counts one request for a page and the read units it used.
func ChargeQuery(ctx context.Context, units float64) {
	charge(ctx, Usage{Queries: 1, ReadUnits: units})
}

// ChargeCommit counts one transaction and the units it used.
func ChargeCommit(ctx context.Context, read, write float64) {
	charge(ctx, Usage{Commits: 1, ReadUnits: read, WriteUnits: write})
}

func charge(ctx context.Context, used Usage) {
	m := meterOf(ctx)
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.u.Reads += used.Reads
	m.u.Queries += used.Queries
	m.u.Commits += used.Commits
	m.u.ReadUnits += used.ReadUnits
	m.u.WriteUnits += used.WriteUnits
}

// action is what a call to the database does.
type action int

const (
	reading action = iota
	querying
	committing
)

// span is what a trace calls it.
func (a action) span() string {
	switch a {
	case reading:
		return "store.Read"
	case querying:
		return "store.Query"
	case committing:
		return "store.Commit"
	}
	return "store"
}

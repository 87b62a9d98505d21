package store

import (
	"context"
	"sync"
)

// Meter counts the requests to the table and their capacity units for one piece of work. The
// zero value is ready to use. A nil Meter counts nothing. A Meter is safe for concurrent use.
type Meter struct {
	mu    sync.Mutex
	usage Usage
}

// Usage holds the counts of a Meter.
type Usage struct {
	// Reads, Queries and Commits are the numbers of calls to the database by kind, including repeats.
	Reads, Queries, Commits int
	// ReadUnits and WriteUnits are capacity units as DynamoDB bills them.
	ReadUnits, WriteUnits float64
}

// Usage returns the current counts.
func (m *Meter) Usage() Usage {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.usage
}

type meterKey struct{}

// WithMeter returns a context whose calls to the table are counted by m.
func WithMeter(ctx context.Context, m *Meter) context.Context {
	return context.WithValue(ctx, meterKey{}, m)
}

func meterOf(ctx context.Context) *Meter {
	m, _ := ctx.Value(meterKey{}).(*Meter)
	return m
}

// ChargeRead counts one request that reads items by their keys, and the read units that the request used. Backends
// call ChargeRead, ChargeQuery and ChargeCommit once for each request that Read, Query and Transact make to their
// database, even if the request fails. Pages of all items (Pager) are not counted.
func ChargeRead(ctx context.Context, units float64) {
	charge(ctx, Usage{Reads: 1, ReadUnits: units})
}

// ChargeQuery counts one request for a page and the read units that it used.
func ChargeQuery(ctx context.Context, units float64) {
	charge(ctx, Usage{Queries: 1, ReadUnits: units})
}

// ChargeCommit counts one transaction and the units that it used.
func ChargeCommit(ctx context.Context, read, write float64) {
	charge(ctx, Usage{Commits: 1, ReadUnits: read, WriteUnits: write})
}

func charge(ctx context.Context, usage Usage) {
	m := meterOf(ctx)
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.usage.Reads += usage.Reads
	m.usage.Queries += usage.Queries
	m.usage.Commits += usage.Commits
	m.usage.ReadUnits += usage.ReadUnits
	m.usage.WriteUnits += usage.WriteUnits
}

// action is the kind of a call to the database.
type action int

const (
	reading action = iota
	querying
	committing
)

// span returns the name of the action's span in a trace.
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

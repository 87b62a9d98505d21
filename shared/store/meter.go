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

// charge counts one call to the database and the capacity it used. Backends
// call it, once for each request that really leaves the process.
func charge(ctx context.Context, action action, read, write float64) {
	m := meterOf(ctx)
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch action {
	case reading:
		m.u.Reads++
	case querying:
		m.u.Queries++
	case committing:
		m.u.Commits++
	}
	m.u.ReadUnits += read
	m.u.WriteUnits += write
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

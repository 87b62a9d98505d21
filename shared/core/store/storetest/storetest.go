// Package storetest creates tables for tests. New creates a table in memory, for the tests of every package that
// stores records. NewDynamoDB creates a table in a DynamoDB emulator, for the few tests that depend on the network.
//
// The memory table is not a fake. Its backend has DynamoDB's transactions and limits, and counts the same capacity
// units. A test suite (shared/core/store/suite_test.go) checks that the backend and DynamoDB return the same results.
// Read this file first, then dynoxide.go.
package storetest

import (
	"crypto/rand"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/memory"
)

// Epoch is the time of a test's table, unless Clock sets another clock.
var Epoch = time.Date(2026, time.March, 14, 9, 26, 53, 589_000_000, time.UTC)

// Option configures the tables of New and NewWithBackend.
type Option func(*store.Options)

// Clock sets the clock that the table compares ttl attributes with, such as
// time.Now in a synctest bubble. Without it the time is always Epoch.
func Clock(now func() time.Time) Option {
	return func(o *store.Options) { o.Now = now }
}

// Backoff sets the function that waits before each retry of the table, such as store.Backoff. Without this option,
// retries follow immediately.
func Backoff(backoff store.BackoffFunc) Option {
	return func(o *store.Options) { o.Backoff = backoff }
}

// New returns an empty table in memory.
func New(t testing.TB, options ...Option) *store.Table {
	t.Helper()
	return NewWithBackend(t, memory.New(), options...)
}

// NewWithBackend returns a table over a backend: for example over a memory.Backend
// whose content or stream the test reads, or over a backend that injects faults.
func NewWithBackend(t testing.TB, b store.Backend, options ...Option) *store.Table {
	t.Helper()
	o := store.Options{
		// The tokens of two tables over one backend must never be equal.
		Random:  rand.Reader,
		Now:     func() time.Time { return Epoch },
		Backoff: NoBackoff,
	}
	for _, option := range options {
		option(&o)
	}
	return store.New(b, o)
}

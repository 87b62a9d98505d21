// Package storetest gives tests a table: New one in memory, for the tests of
// every package that keeps records; NewDynamoDB one in a DynamoDB emulator,
// for the few that must know what the network adds.
//
// What it is not: a fake. The memory backend has DynamoDB's transactions,
// limits and prices, and one suite (shared/store/suite_test.go) holds both to
// the same answers. Read this file first, then dynoxide.go.
package storetest

import (
	"crypto/rand"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/memory"
)

// Epoch is what the clock of a test's table shows unless Clock says otherwise.
var Epoch = time.Date(2026, time.March, 14, 9, 26, 53, 589_000_000, time.UTC)

// Option changes what New and Over make.
type Option func(*store.Options)

// Clock has the table compare ttl attributes with now, such as time.Now in a
// synctest bubble. Without it the time is Epoch and stands still.
func Clock(now func() time.Time) Option {
	return func(o *store.Options) { o.Now = now }
}

// Pause has the table wait between repeats with p, such as store.Backoff.
// Without it repeats follow at once.
func Pause(p store.Pause) Option {
	return func(o *store.Options) { o.Pause = p }
}

// New makes an empty table in memory.
func New(t testing.TB, options ...Option) *store.Table {
	t.Helper()
	return Over(t, memory.New(), options...)
}

// Over makes a table over a backend: a memory.Backend whose content or stream
// the test looks at, or one that injects faults.
func Over(t testing.TB, b store.Backend, options ...Option) *store.Table {
	t.Helper()
	o := store.Options{
		// The tokens of two tables over one backend must never meet.
		Random: rand.Reader,
		Now:    func() time.Time { return Epoch },
		Pause:  AtOnce,
	}
	for _, option := range options {
		option(&o)
	}
	return store.New(b, o)
}

package embedded_test

import (
	"crypto/rand"
	"errors"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/embedded"
)

// TestWatchReportsCommitDurations checks that Watch reports the duration of each commit, and of no refused commit. It
// also checks that Bytes returns a positive size until Close.
func TestWatchReportsCommitDurations(t *testing.T) {
	b := open(t, embedded.Options{Dir: t.TempDir()})
	table := store.New(b, store.Options{Random: rand.Reader, Now: time.Now})
	type item struct{ Text string }
	key := store.Key{PK: "a", SK: "b"}
	if err := table.Commit(t.Context(), store.Create(key, item{"unwatched"})); err != nil {
		t.Fatal(err)
	}
	var durations []time.Duration
	b.Watch(func(elapsed time.Duration) { durations = append(durations, elapsed) })
	if err := table.Commit(t.Context(), store.Create(key, item{"again"})); !errors.Is(err, store.ErrCondition) {
		t.Fatalf("Create() of an existing item = %v, want %v", err, store.ErrCondition)
	}
	if len(durations) != 0 {
		t.Errorf("Watch() reports %v for a refused commit, want nothing", durations)
	}
	for i := range 3 {
		if err := table.Commit(t.Context(), store.Put(key, item{"text"})); err != nil {
			t.Fatal(err)
		}
		if len(durations) != i+1 || durations[i] <= 0 {
			t.Fatalf("Watch() reports %v after %d commits, want a positive duration for each", durations, i+1)
		}
	}
	if n, err := b.Bytes(); n == 0 || err != nil {
		t.Errorf("Bytes() = %d, %v, want more than 0", n, err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Bytes(); !errors.Is(err, embedded.ErrClosed) {
		t.Errorf("Bytes() after Close() = %v, want %v", err, embedded.ErrClosed)
	}
}

package embedded_test

import (
	"crypto/rand"
	"errors"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/embedded"
)

// TestEachCommitIsTimed that something was written for: not a repetition, nor one that was refused.
func TestEachCommitIsTimed(t *testing.T) {
	b := open(t, embedded.Options{Dir: t.TempDir()})
	table := store.New(b, store.Options{Random: rand.Reader, Now: time.Now})
	type item struct{ Text string }
	key := store.Key{PK: "a", SK: "b"}
	if err := table.Commit(t.Context(), store.Create(key, item{"unwatched"})); err != nil {
		t.Fatal(err)
	}
	var told []time.Duration
	b.Watch(func(took time.Duration) { told = append(told, took) })
	if err := table.Commit(t.Context(), store.Create(key, item{"again"})); !errors.Is(err, store.ErrCondition) {
		t.Fatalf("it is there already, and made again: %v", err)
	}
	if len(told) != 0 {
		t.Error("a refusal is told as a commit")
	}
	for i := range 3 {
		if err := table.Commit(t.Context(), store.Put(key, item{"text"})); err != nil {
			t.Fatal(err)
		}
		if len(told) != i+1 || told[i] <= 0 {
			t.Fatalf("after %d commits it is told %v", i+1, told)
		}
	}
	if n, err := b.Bytes(); n == 0 || err != nil {
		t.Errorf("the files take %d bytes on disk, %v", n, err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Bytes(); !errors.Is(err, embedded.ErrClosed) {
		t.Errorf("closed files are asked for their size: %v", err)
	}
}

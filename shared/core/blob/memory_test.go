package blob_test

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/base/dryrun"
	"github.com/gatewright/gatewright/shared/core/blob"
)

// contents returns a bucket's objects as "key=body", separated by spaces.
func contents(t *testing.T, bucket *blob.Memory) string {
	t.Helper()
	var out []string
	for o, err := range bucket.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		body, _, err := bucket.Get(t.Context(), o.Key, o.ETag, o.Size)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(body)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, o.Key+"="+string(text))
	}
	return strings.Join(out, " ")
}

func TestCloneIsIndependent(t *testing.T) {
	original := blob.NewMemory(time.Now)
	original.Upload("a", []byte("1"))
	original.Upload("b", []byte("1"))
	clone := original.Clone()
	original.Upload("a", []byte("2"))
	if err := original.Delete(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	clone.Upload("c", []byte("3"))
	if got := contents(t, original); got != "a=2" {
		t.Errorf("original after its own changes and those of its clone = %q, want \"a=2\"", got)
	}
	if got := contents(t, clone); got != "a=1 b=1 c=3" {
		t.Errorf("clone after its own changes and those of its original = %q, want \"a=1 b=1 c=3\"", got)
	}
}

func TestRestoreIsRepeatable(t *testing.T) {
	bucket := blob.NewMemory(time.Now)
	bucket.Upload("a", []byte("1"))
	snapshot := bucket.Clone()
	for range 2 {
		bucket.Upload("a", []byte("2"))
		bucket.Upload("b", []byte("2"))
		bucket.Restore(snapshot)
		if got := contents(t, bucket); got != "a=1" {
			t.Errorf("bucket after Restore(snapshot) = %q, want \"a=1\"", got)
		}
	}
	bucket.Restore(bucket)
	if got := contents(t, bucket); got != "a=1" {
		t.Errorf("bucket after Restore() of itself = %q, want \"a=1\"", got)
	}
}

// TestConcurrentClones uses clones concurrently, so that the race detector reports data that they share. It also checks
// that the snapshot does not change.
func TestConcurrentClones(t *testing.T) {
	snapshot := blob.NewMemory(time.Now)
	snapshot.Upload("a", slices.Repeat([]byte("1"), 100))
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			clone := snapshot.Clone()
			clone.Upload("a", []byte(fmt.Sprint(i)))
			clone.Restore(snapshot)
		})
	}
	wg.Wait()
	if got := contents(t, snapshot); got != "a="+strings.Repeat("1", 100) {
		t.Errorf("snapshot after changes of its clones = %q, want a with 100 times \"1\"", got)
	}
}

// TestDryRunChangesNoObjects checks that a dry run can read and cannot change
// objects, and that it receives an upload address whose host does not exist.
func TestDryRunChangesNoObjects(t *testing.T) {
	m := blob.NewMemory(time.Now)
	m.Upload("kept", []byte("x"))
	ctx, _ := dryrun.Begin(t.Context())
	if err := m.Put(ctx, "new", strings.NewReader("x")); !errors.Is(err, dryrun.ErrEffect) {
		t.Errorf("Put() in a dry run = %v, want %v", err, dryrun.ErrEffect)
	}
	if err := m.Delete(ctx, "kept"); !errors.Is(err, dryrun.ErrEffect) {
		t.Errorf("Delete() in a dry run = %v, want %v", err, dryrun.ErrEffect)
	}
	address, err := m.PresignPut(ctx, blob.UploadKey("1"))
	if err != nil || address != "https://dry-run.invalid/uploads/1" {
		t.Errorf("PresignPut() in a dry run = %q, %v, want https://dry-run.invalid/uploads/1", address, err)
	}
	if _, err := m.Head(ctx, "kept"); err != nil {
		t.Errorf("Head(kept) in a dry run = %v, want success", err)
	}
	if got := contents(t, m); got != "kept=x" {
		t.Errorf("bucket after a dry run = %q, want \"kept=x\"", got)
	}
}

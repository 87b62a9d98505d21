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

	"github.com/gatewright/gatewright/shared/blob"
	"github.com/gatewright/gatewright/shared/dryrun"
)

// contents lists a bucket's objects as "key=body".
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

func TestCloneAndItsOriginalDoNotShareChanges(t *testing.T) {
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
		t.Errorf("the original holds %s", got)
	}
	if got := contents(t, clone); got != "a=1 b=1 c=3" {
		t.Errorf("the clone holds %s", got)
	}
}

func TestRestoreGoesBackAsOftenAsItIsAsked(t *testing.T) {
	bucket := blob.NewMemory(time.Now)
	bucket.Upload("a", []byte("1"))
	snapshot := bucket.Clone()
	for range 2 {
		bucket.Upload("a", []byte("2"))
		bucket.Upload("b", []byte("2"))
		bucket.Restore(snapshot)
		if got := contents(t, bucket); got != "a=1" {
			t.Errorf("restored, it holds %s", got)
		}
	}
	bucket.Restore(bucket)
	if got := contents(t, bucket); got != "a=1" {
		t.Errorf("restored from itself, it holds %s", got)
	}
}

// TestClonesAreMadeAndUsedAtTheSameTime finds, under the race detector, what
// clones share.
func TestClonesAreMadeAndUsedAtTheSameTime(t *testing.T) {
	snapshot := blob.NewMemory(time.Now)
	snapshot.Upload("a", slices.Repeat([]byte("1"), 100))
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			mine := snapshot.Clone()
			mine.Upload("a", []byte(fmt.Sprint(i)))
			mine.Restore(snapshot)
		})
	}
	all.Wait()
	if got := contents(t, snapshot); got != "a="+strings.Repeat("1", 100) {
		t.Errorf("the snapshot holds %s", got)
	}
}

// TestADryRunLeavesTheBucketAsItIs, and is given an address that leads nowhere.
func TestADryRunLeavesTheBucketAsItIs(t *testing.T) {
	m := blob.NewMemory(time.Now)
	m.Upload("kept", []byte("x"))
	ctx, _ := dryrun.Begin(t.Context())
	if err := m.Put(ctx, "new", strings.NewReader("x")); !errors.Is(err, dryrun.ErrEffect) {
		t.Errorf("a put: %v", err)
	}
	if err := m.Delete(ctx, "kept"); !errors.Is(err, dryrun.ErrEffect) {
		t.Errorf("a deletion: %v", err)
	}
	address, err := m.PresignPut(ctx, blob.UploadKey("1"))
	if err != nil || address != "https://dry-run.invalid/uploads/1" {
		t.Errorf("an upload goes to %s, %v", address, err)
	}
	if _, err := m.Head(ctx, "kept"); err != nil {
		t.Errorf("a look: %v", err)
	}
}

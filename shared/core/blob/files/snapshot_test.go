package files_test

import (
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gatewright/gatewright/shared/core/blob"
	"github.com/gatewright/gatewright/shared/core/blob/files"
)

// TestSnapshotReadsContents checks that a snapshot reads all contents that a copy of the notes
// names, even contents of objects that were deleted after the copy. The folder must not change.
func TestSnapshotReadsContents(t *testing.T) {
	fx := newFixture(t)
	fx.put(t, "a", "one")
	fx.put(t, "b/c", "two")
	release := fx.Retain()
	defer func() { _ = release() }()
	notes := map[string][]byte{}
	err := fx.options.Notes.EachNote("", func(key string, value []byte) (bool, error) {
		notes[key] = value
		return true, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want, err := fx.Head(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	if err := fx.Delete(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	before := fx.stored(t)
	snapshot := files.OpenSnapshot(fx.options.Dir, fixedNotes(notes))
	var keys []string
	for o, err := range snapshot.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, o.Key)
	}
	if diff := cmp.Diff([]string{"a", "b/c"}, keys); diff != "" {
		t.Errorf("keys of List() (-want +got):\n%s", diff)
	}
	body, got, err := snapshot.Get(t.Context(), "a", want.ETag, 3)
	if err != nil || got != want {
		t.Fatalf("Get(a) of the snapshot = %+v, %v, want %+v", got, err, want)
	}
	if content, err := io.ReadAll(body); err != nil || string(content) != "one" {
		t.Errorf("content of a = %q, %v, want \"one\"", content, err)
	}
	_ = body.Close()
	for _, c := range []struct {
		key, etag string
		limit     int64
		want      error
	}{
		{"x", "", 3, blob.ErrNotFound},
		{"a", "other", 3, blob.ErrChanged},
		{"a", "", 2, blob.ErrTooLarge},
	} {
		if _, _, err := snapshot.Get(t.Context(), c.key, c.etag, c.limit); !errors.Is(err, c.want) {
			t.Errorf("Get(%q, %q, %d) of the snapshot = %v, want %v", c.key, c.etag, c.limit, err, c.want)
		}
	}
	if diff := cmp.Diff(before, fx.stored(t)); diff != "" {
		t.Errorf("files after reads of the snapshot, want no change (-before +after):\n%s", diff)
	}
}

// fixedNotes are notes that do not change.
type fixedNotes map[string][]byte

func (f fixedNotes) Note(key string) ([]byte, error) { return f[key], nil }

func (f fixedNotes) SetNotes(map[string][]byte, ...string) error {
	return errors.New("fixedNotes do not change")
}

func (f fixedNotes) EachNote(prefix string, visit func(string, []byte) (bool, error)) error {
	for _, key := range slices.Sorted(maps.Keys(f)) {
		if !strings.HasPrefix(key, prefix) {
			continue
		}
		if more, err := visit(key, f[key]); err != nil || !more {
			return err
		}
	}
	return nil
}

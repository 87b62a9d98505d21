package files_test

import (
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gatewright/gatewright/shared/blob"
	"github.com/gatewright/gatewright/shared/blob/files"
)

// TestCopiedNotesLeadToContents: what a copy of the notes names is read from the folder, also what was deleted since, and
// nothing there changes.
func TestCopiedNotesLeadToContents(t *testing.T) {
	w := newWorld(t)
	w.put(t, "a", "one")
	w.put(t, "b/c", "two")
	release := w.Retain()
	defer func() { _ = release() }()
	notes := map[string][]byte{}
	err := w.options.Notes.EachNote("", func(key string, value []byte) (bool, error) {
		notes[key] = value
		return true, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want, err := w.Head(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Delete(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	before := w.stored(t)
	copied := files.OpenCopied(w.options.Dir, fixed(notes))
	var keys []string
	for o, err := range copied.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, o.Key)
	}
	if diff := cmp.Diff([]string{"a", "b/c"}, keys); diff != "" {
		t.Error(diff)
	}
	body, got, err := copied.Get(t.Context(), "a", want.ETag, 3)
	if err != nil || got != want {
		t.Fatalf("it is %+v (%v)", got, err)
	}
	if content, err := io.ReadAll(body); err != nil || string(content) != "one" {
		t.Errorf("it reads %q (%v)", content, err)
	}
	_ = body.Close()
	for name, ask := range map[string]func() error{
		"absent":  func() error { _, _, err := copied.Get(t.Context(), "x", "", 3); return err },
		"changed": func() error { _, _, err := copied.Get(t.Context(), "a", "other", 3); return err },
		"large":   func() error { _, _, err := copied.Get(t.Context(), "a", "", 2); return err },
	} {
		if err := ask(); !errors.Is(err, map[string]error{"absent": blob.ErrNotFound, "changed": blob.ErrChanged, "large": blob.ErrTooLarge}[name]) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if diff := cmp.Diff(before, w.stored(t)); diff != "" {
		t.Error(diff)
	}
}

// fixed are notes that do not change.
type fixed map[string][]byte

func (f fixed) Note(key string) ([]byte, error) { return f[key], nil }

func (f fixed) SetNotes(map[string][]byte, ...string) error { return errors.New("they do not change") }

func (f fixed) EachNote(prefix string, visit func(string, []byte) (bool, error)) error {
	for _, key := range slices.Sorted(maps.Keys(f)) {
		if !strings.HasPrefix(key, prefix) {
			continue
		}
		if goOn, err := visit(key, f[key]); err != nil || !goOn {
			return err
		}
	}
	return nil
}

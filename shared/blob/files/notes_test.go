package files_test

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/gatewright/gatewright/shared/blob"
	"github.com/gatewright/gatewright/shared/blob/files"
)

// hooked are notes that fail where a hook says so.
type hooked struct {
	files.Notes
	note, set func(key string) error // nil for none
}

func (h *hooked) Note(key string) ([]byte, error) {
	if h.note != nil {
		if err := h.note(key); err != nil {
			return nil, err
		}
	}
	return h.Notes.Note(key)
}

func (h *hooked) SetNotes(set map[string][]byte, remove ...string) error {
	for key := range set {
		if h.set == nil {
			break
		}
		if err := h.set(key); err != nil {
			return err
		}
	}
	return h.Notes.SetNotes(set, remove...)
}

// A content's file is in its place before its note is: a crash in between leaves a
// file that nobody names, and no object without content.
func TestContentComesBeforeItsNote(t *testing.T) {
	w := newWorld(t)
	looked := 0
	w.options.Notes = &hooked{Notes: w.options.Notes, set: func(key string) error {
		content, ok := strings.CutPrefix(key, "content/")
		if !ok {
			return nil
		}
		looked++
		digest, _, _ := strings.Cut(content, "/")
		_, err := os.Stat(filepath.Join(w.options.Dir, filepath.FromSlash(files.ContentPath(digest))))
		return err
	}}
	w.open(t)
	w.put(t, "sources/a", "content")
	if code := w.send(t, http.MethodPut, w.issue(t, "id"), strings.NewReader("body")); code != http.StatusOK {
		t.Errorf("an upload is answered %d", code)
	}
	if looked != 2 {
		t.Errorf("of two contents %d were noted", looked)
	}
}

// What cannot be noted is not answered, nor told; and notes that cannot be read do
// not pass for a URL that was used.
func TestObjectThatCannotBeNotedIsNoObject(t *testing.T) {
	gone := errors.New("the disk is gone")
	fail := func(string) error { return gone }
	for name, h := range map[string]*hooked{"written": {set: fail}, "read": {note: fail}} {
		w := newWorld(t)
		h.Notes = w.options.Notes
		w.options.Notes = h
		w.open(t)
		if err := w.Put(t.Context(), "sources/a", strings.NewReader("content")); !errors.Is(err, gone) {
			t.Errorf("%s: it is answered with %v", name, err)
		}
		if code := w.send(t, http.MethodPut, w.issue(t, "id"), strings.NewReader("body")); code != http.StatusInternalServerError || len(w.uploaded) > 0 {
			t.Errorf("%s: an upload is answered %d, told %v", name, code, w.uploaded)
		}
		h.set, h.note = nil, nil
		for _, key := range []string{"sources/a", blob.UploadKey("id")} {
			if o, err := w.Head(t.Context(), key); !errors.Is(err, blob.ErrNotFound) {
				t.Errorf("%s: there is %+v (%v)", name, o, err)
			}
		}
	}
}

// Who reads an object while it comes and goes has all of it, or hears that there
// is none.
func TestObjectIsThereOrNot(t *testing.T) {
	w := newWorld(t)
	var all sync.WaitGroup
	over := make(chan struct{})
	all.Go(func() {
		defer close(over)
		for range 100 {
			w.put(t, "sources/a", "content")
			if err := w.Delete(t.Context(), "sources/a"); err != nil {
				t.Error(err)
			}
		}
	})
	for range 2 {
		all.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				if content, err := w.get(t, "sources/a"); !errors.Is(err, blob.ErrNotFound) && (err != nil || content != "content") {
					t.Errorf("it reads %q (%v)", content, err)
					return
				}
			}
		})
	}
	all.Wait()
}

// What lies in the folder is for its owner alone.
func TestFolderIsForItsOwnerAlone(t *testing.T) {
	w := newWorld(t)
	w.put(t, "sources/a", "content")
	for path := w.stored(t)[0]; len(path) >= len(w.options.Dir); path = filepath.Dir(path) {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o077 != 0 && filepath.Separator == '/' {
			t.Errorf("%s has the mode %v (%v)", path, info.Mode(), err)
		}
	}
}

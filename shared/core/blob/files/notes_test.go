package files_test

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/gatewright/gatewright/shared/core/blob"
	"github.com/gatewright/gatewright/shared/core/blob/files"
)

// hookedNotes are notes that fail if a hook returns an error. Note calls the hook note, and SetNotes calls the hook set
// for each note that it sets. A hook can be nil.
type hookedNotes struct {
	files.Notes
	note, set func(key string) error
}

func (h *hookedNotes) Note(key string) ([]byte, error) {
	if h.note != nil {
		if err := h.note(key); err != nil {
			return nil, err
		}
	}
	return h.Notes.Note(key)
}

func (h *hookedNotes) SetNotes(set map[string][]byte, remove ...string) error {
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

// TestContentIsWrittenBeforeNote checks that a content's file is written before its note.
// So a crash in between leaves a file without a note, but never an object without content.
func TestContentIsWrittenBeforeNote(t *testing.T) {
	fx := newFixture(t)
	checked := 0
	fx.options.Notes = &hookedNotes{Notes: fx.options.Notes, set: func(key string) error {
		content, ok := strings.CutPrefix(key, "content/")
		if !ok {
			return nil
		}
		checked++
		digest, _, _ := strings.Cut(content, "/")
		_, err := os.Stat(filepath.Join(fx.options.Dir, filepath.FromSlash(files.ContentPath(digest))))
		return err
	}}
	fx.open(t)
	fx.put(t, "sources/a", "content")
	if code := fx.send(t, http.MethodPut, fx.presign(t, "id"), strings.NewReader("body")); code != http.StatusOK {
		t.Errorf("PUT to an upload URL: status = %d, want %d", code, http.StatusOK)
	}
	if checked != 2 {
		t.Errorf("SetNotes() sets the notes of %d contents, want 2", checked)
	}
}

// TestFailedNoteStoresNoObject checks that an object whose note cannot be written is neither acknowledged nor reported
// as uploaded. It also checks that Put and an upload fail if the notes cannot be read, because the URL of the upload
// may have been used.
func TestFailedNoteStoresNoObject(t *testing.T) {
	errDisk := errors.New("the disk is gone")
	fail := func(string) error { return errDisk }
	for name, h := range map[string]*hookedNotes{
		"notes cannot be written": {set: fail}, "notes cannot be read": {note: fail},
	} {
		fx := newFixture(t)
		h.Notes = fx.options.Notes
		fx.options.Notes = h
		fx.open(t)
		if err := fx.Put(t.Context(), "sources/a", strings.NewReader("content")); !errors.Is(err, errDisk) {
			t.Errorf("%s: Put() = %v, want %v", name, err, errDisk)
		}
		if code := fx.send(t, http.MethodPut, fx.presign(t, "id"),
			strings.NewReader("body")); code != http.StatusInternalServerError || len(fx.uploaded) > 0 {
			t.Errorf("%s: PUT to an upload URL: status = %d, uploads %v, want %d without an upload",
				name, code, fx.uploaded, http.StatusInternalServerError)
		}
		h.set, h.note = nil, nil
		for _, key := range []string{"sources/a", blob.UploadKey("id")} {
			if o, err := fx.Head(t.Context(), key); !errors.Is(err, blob.ErrNotFound) {
				t.Errorf("%s: Head(%s) = %+v, %v, want %v", name, key, o, err, blob.ErrNotFound)
			}
		}
	}
}

// TestConcurrentPutAndDeleteAreAtomic checks that a reader of an object that is
// stored and deleted concurrently reads the whole object, or receives ErrNotFound.
func TestConcurrentPutAndDeleteAreAtomic(t *testing.T) {
	fx := newFixture(t)
	var wg sync.WaitGroup
	done := make(chan struct{})
	wg.Go(func() {
		defer close(done)
		for range 100 {
			fx.put(t, "sources/a", "content")
			if err := fx.Delete(t.Context(), "sources/a"); err != nil {
				t.Errorf("Delete(sources/a) during reads = %v, want nil", err)
			}
		}
	})
	for range 2 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if content, err := fx.get(t, "sources/a"); !errors.Is(err, blob.ErrNotFound) &&
					(err != nil || content != "content") {
					t.Errorf("Get(sources/a) = %q, %v, want \"content\" or %v", content, err, blob.ErrNotFound)
					return
				}
			}
		})
	}
	wg.Wait()
}

// TestFolderIsPrivate checks that only the owner has access to the folder, its subfolders and its files. On Windows, it
// checks only that they exist.
func TestFolderIsPrivate(t *testing.T) {
	fx := newFixture(t)
	fx.put(t, "sources/a", "content")
	for path := fx.stored(t)[0]; len(path) >= len(fx.options.Dir); path = filepath.Dir(path) {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm()&0o077 != 0 && filepath.Separator == '/' {
			t.Errorf("Stat(%s): mode = %v, want no access for others", path, info.Mode())
		}
	}
}

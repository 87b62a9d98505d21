package embedded_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/embedded"
)

// TestNothingIsAnsweredWhereNoStartFindsIt takes the files away while they are
// open, which lets them be written to.
func TestNothingIsAnsweredWhereNoStartFindsIt(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows removes no file that is open")
	}
	for name, take := range map[string]func(dir string) error{
		"removed":               os.RemoveAll,
		"its own files removed": func(dir string) error { return os.RemoveAll(filepath.Join(dir, "pebble")) },
		"moved":                 func(dir string) error { return os.Rename(dir, dir+"-old") },
		"replaced by a copy": func(dir string) error {
			return errors.Join(os.Rename(dir, dir+"-old"), os.CopyFS(dir, os.DirFS(dir+"-old")))
		},
	} {
		for what, write := range map[string]func(*embedded.Backend) error{
			"a commit": func(b *embedded.Backend) error {
				return tableOver(b).Commit(t.Context(), store.Put(numbered(1), map[string]any{"n": 1}))
			},
			"a note": func(b *embedded.Backend) error { return b.SetNotes(map[string][]byte{"a": nil}) },
		} {
			t.Run(name+", "+what, func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), folder)
				told := make(chan error, 10)
				engine := open(t, embedded.Options{Dir: dir, Fatal: func(err error) { told <- err }})
				put(t, tableOver(engine), 0)
				if err := take(dir); err != nil {
					t.Fatal(err)
				}
				if err := write(engine); err == nil {
					t.Fatal("it is answered")
				}
				if err := <-told; !strings.Contains(err.Error(), "put them back") || strings.Contains(err.Error(), "\n") {
					t.Errorf("it says %v", err)
				}
				if err := write(engine); !errors.Is(err, store.ErrLost) || len(told) > 0 {
					t.Errorf("afterwards a write is answered with %v, and said is %d times more", err, len(told))
				}
			})
		}
	}
}

// TestLostNoteIsToldAtStart cuts a log within a note: that of an upload that was
// answered.
func TestLostNoteIsToldAtStart(t *testing.T) {
	fs, copied := vfs.NewMem(), vfs.NewMem()
	engine := open(t, embedded.Options{Dir: folder, FS: fs})
	put(t, tableOver(engine), 0)
	if err := engine.SetNotes(map[string][]byte{"object/a": []byte("its digest")}); err != nil {
		t.Fatal(err)
	}
	if _, err := vfs.Clone(fs, copied, folder, folder, vfs.CloneSync); err != nil {
		t.Fatal(err)
	}
	log := newest(t, copied, ".log")
	raw := content(t, copied, log)
	replace(t, copied, log, raw[:bytes.LastIndex(raw, []byte("its digest"))])
	if _, err := embedded.Open(t.Context(), embedded.Options{Dir: folder, FS: copied}); err == nil || !strings.Contains(err.Error(), "has lost changes") {
		t.Errorf("the start is answered with %v", err)
	}
}

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

	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/embedded"
)

// TestWritesToMovedFilesFail removes or moves the open files, which the system still lets the
// store write to. It checks that all writes fail, and that Fatal is called once, with advice.
func TestWritesToMovedFilesFail(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows removes no file that is open")
	}
	for name, move := range map[string]func(dir string) error{
		"removed":                   os.RemoveAll,
		"the store's files removed": func(dir string) error { return os.RemoveAll(filepath.Join(dir, "pebble")) },
		"moved":                     func(dir string) error { return os.Rename(dir, dir+"-old") },
		"replaced by a copy": func(dir string) error {
			return errors.Join(os.Rename(dir, dir+"-old"), os.CopyFS(dir, os.DirFS(dir+"-old")))
		},
	} {
		for operation, write := range map[string]func(*embedded.Backend) error{
			"a commit": func(b *embedded.Backend) error {
				return tableOver(b).Commit(t.Context(), store.Put(numberedKey(1), map[string]any{"n": 1}))
			},
			"a note": func(b *embedded.Backend) error { return b.SetNotes(map[string][]byte{"a": nil}) },
		} {
			t.Run(name+", "+operation, func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), folder)
				fatal := make(chan error, 10)
				engine := open(t, embedded.Options{Dir: dir, Fatal: func(err error) { fatal <- err }})
				put(t, tableOver(engine), 0)
				if err := move(dir); err != nil {
					t.Fatal(err)
				}
				if err := write(engine); err == nil {
					t.Fatal("a write to moved files succeeds, want an error")
				}
				if err := <-fatal; !strings.Contains(err.Error(), "put them back") || strings.Contains(err.Error(), "\n") {
					t.Errorf("fatal error = %v, want one line with \"put them back\"", err)
				}
				if err := write(engine); !errors.Is(err, store.ErrOutcomeUnknown) || len(fatal) > 0 {
					t.Errorf("second write = %v with %d more fatal errors, want %v with none",
						err, len(fatal), store.ErrOutcomeUnknown)
				}
			})
		}
	}
}

// TestLostNoteIsReportedAtStart cuts a log within an acknowledged note. It checks that the next start reports the loss.
func TestLostNoteIsReportedAtStart(t *testing.T) {
	fs, copied := vfs.NewMem(), vfs.NewMem()
	engine := open(t, embedded.Options{Dir: folder, FS: fs})
	put(t, tableOver(engine), 0)
	if err := engine.SetNotes(map[string][]byte{"object/a": []byte("its digest")}); err != nil {
		t.Fatal(err)
	}
	if _, err := vfs.Clone(fs, copied, folder, folder, vfs.CloneSync); err != nil {
		t.Fatal(err)
	}
	log := newestFile(t, copied, ".log")
	raw := content(t, copied, log)
	replace(t, copied, log, raw[:bytes.LastIndex(raw, []byte("its digest"))])
	if _, err := embedded.Open(t.Context(), embedded.Options{Dir: folder, FS: copied}); err == nil ||
		!strings.Contains(err.Error(), "has lost changes") {
		t.Errorf("Open() of a cut log = %v, want an error with \"has lost changes\"", err)
	}
}

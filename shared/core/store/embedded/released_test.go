package embedded_test

import (
	"archive/zip"
	"fmt"
	"io"
	"path"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/embedded"
)

// releasedStore returns the files of a store that the release before Pebble v2 wrote. It was started
// three times, with 20 commits and a note after each start. The last process was killed.
func releasedStore(t *testing.T) *vfs.MemFS {
	t.Helper()
	archive, err := zip.OpenReader("testdata/released.zip")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = archive.Close() }()
	fs := vfs.NewMem()
	for _, f := range archive.File {
		from, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(from)
		if err != nil {
			t.Fatal(err)
		}
		name := path.Join(folder, f.Name)
		if err := fs.MkdirAll(path.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		replace(t, fs, name, raw)
	}
	return fs
}

// TestFilesOfReleaseBeforePebble2AreRead checks that all items and notes are read. It opens the files
// twice, because the first start rewrites them.
func TestFilesOfReleaseBeforePebble2AreRead(t *testing.T) {
	fs := releasedStore(t)
	for start := range 2 {
		b := open(t, embedded.Options{Dir: folder, FS: fs})
		table := tableOver(b)
		if n := count(t, table); n != 60 {
			t.Errorf("start %d: Count() = %d, want 60", start, n)
		}
		for n := range 60 {
			var got struct {
				N int `dynamodbav:"n"`
			}
			if err := table.Load(t.Context(), store.Get(numberedKey(n), &got)); err != nil || got.N != n {
				t.Errorf("start %d: Load(%d) = %d, %v, want %d", start, n, got.N, err, n)
			}
		}
		for n := range 3 {
			if note, err := b.Note(fmt.Sprint("note-", n)); string(note) != "noted" || err != nil {
				t.Errorf("start %d: Note(note-%d) = %q, %v, want noted", start, n, note, err)
			}
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

package embedded_test

import (
	"archive/zip"
	"fmt"
	"io"
	"path"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/embedded"
)

// released returns the files of a store that the release before Pebble v2 wrote in three lives of 20 commits and a note each. The
// last life ended with a kill.
func released(t *testing.T) *vfs.MemFS {
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

// TestFilesOfTheLastReleaseAreRead opens the files twice, since the first start rewrites them.
func TestFilesOfTheLastReleaseAreRead(t *testing.T) {
	fs := released(t)
	for start := range 2 {
		b := open(t, embedded.Options{Dir: folder, FS: fs})
		table := tableOver(b)
		if n := count(t, table); n != 60 {
			t.Errorf("start %d: Count = %d, want 60", start, n)
		}
		for n := range 60 {
			var got struct {
				N int `dynamodbav:"n"`
			}
			if err := table.Load(t.Context(), store.Want(numbered(n), &got)); err != nil || got.N != n {
				t.Errorf("start %d: Load(%d) = %d, %v", start, n, got.N, err)
			}
		}
		for n := range 3 {
			if note, err := b.Note(fmt.Sprint("note-", n)); string(note) != "noted" || err != nil {
				t.Errorf("start %d: Note(%d) = %q, %v, want noted", start, n, note, err)
			}
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

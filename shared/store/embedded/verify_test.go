package embedded_test

import (
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/embedded"
)

// written returns the files of an engine that has written its log into a table and was closed.
func written(t *testing.T, commits int) *vfs.MemFS {
	t.Helper()
	fs := crashed(t, commits)
	if err := open(t, embedded.Options{Dir: folder, FS: fs}).Close(); err != nil {
		t.Fatal(err)
	}
	return fs
}

// footerBytes is the size of the footer at the end of a table. It says where the blocks are. It is padded and has no checksum.
const footerBytes = 53

// TestVerifyFindsEveryDamagedBlock of a table: blocks of data, indexes, filters and properties. Verify reads the disk, even if the
// block in memory is whole.
func TestVerifyFindsEveryDamagedBlock(t *testing.T) {
	fs := written(t, 60)
	name := newest(t, fs, ".sst")
	whole := content(t, fs, name)
	engine := open(t, embedded.Options{Dir: folder, FS: fs, ReadOnly: true})
	if err := engine.Verify(t.Context()); err != nil {
		t.Fatalf("Verify(whole table) = %v, want success", err)
	}
	const places = 80
	for i := range places {
		at := (len(whole) - footerBytes) * i / places
		changed := append([]byte{}, whole...)
		changed[at] ^= 1
		replace(t, fs, name, changed)
		err := engine.Verify(t.Context())
		if err == nil || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "restore the last backup") {
			t.Errorf("Verify(table with a bit of byte %d of %d changed) = %v, want one line that says what to do", at, len(whole), err)
		}
	}
}

// TestDamagedBlockEndsTheCallAlone: a damaged block fails the call that reads it, and not the process. Other calls succeed.
func TestDamagedBlockEndsTheCallAlone(t *testing.T) {
	met := false
	for at := range 30 {
		fs := written(t, 60)
		name := newest(t, fs, ".sst")
		changed := content(t, fs, name)
		changed[len(changed)*at/30] ^= 1
		replace(t, fs, name, changed)
		engine, err := embedded.Open(t.Context(), embedded.Options{Dir: folder, FS: fs, Fatal: func(err error) { t.Errorf("Fatal(%v) is called, want no call", err) }})
		if err != nil {
			continue // the block is one that a start reads
		}
		if _, err := tableOver(engine).Count(t.Context(), store.Query{PK: "p"}); err != nil {
			met = true
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("Count() over a damaged block = %q, want one line", err)
			}
		}
		if err := engine.SetNotes(map[string][]byte{"another": {1}}); err != nil {
			t.Errorf("SetNotes() after a damaged block was read = %v, want success", err)
		}
		_ = engine.Close()
	}
	if !met {
		t.Error("Count() over 30 damaged tables = no error, want one for a damaged block of items")
	}
}

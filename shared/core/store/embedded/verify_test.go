package embedded_test

import (
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/embedded"
)

// closedStore returns the files of an engine that has written its log into a table and was closed.
func closedStore(t *testing.T, commits int) *vfs.MemFS {
	t.Helper()
	fs := crashedStore(t, commits)
	if err := open(t, embedded.Options{Dir: folder, FS: fs}).Close(); err != nil {
		t.Fatal(err)
	}
	return fs
}

// footerBytes is the size of the footer at the end of a table. It contains the
// positions of the blocks. It is padded and has no checksum.
const footerBytes = 53

// TestVerifyFindsEveryDamagedBlock damages one bit at a time, at 80 places in all blocks of a table.
// It checks that Verify reads the blocks on disk, even if an undamaged block is in memory.
func TestVerifyFindsEveryDamagedBlock(t *testing.T) {
	fs := closedStore(t, 60)
	name := newestFile(t, fs, ".sst")
	intact := content(t, fs, name)
	engine := open(t, embedded.Options{Dir: folder, FS: fs, ReadOnly: true})
	if err := engine.Verify(t.Context()); err != nil {
		t.Fatalf("Verify(whole table) = %v, want success", err)
	}
	const places = 80
	for i := range places {
		offset := (len(intact) - footerBytes) * i / places
		changed := append([]byte{}, intact...)
		changed[offset] ^= 1
		replace(t, fs, name, changed)
		err := engine.Verify(t.Context())
		if err == nil || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "restore the last backup") {
			t.Errorf("Verify(table with a bit of byte %d of %d changed) = %v, want one line with \"restore the last backup\"",
				offset, len(intact), err)
		}
	}
}

// TestDamagedBlockFailsOnlyItsCall checks that a call that reads a damaged block
// returns an error and does not end the process. Other calls must succeed.
func TestDamagedBlockFailsOnlyItsCall(t *testing.T) {
	failed := false
	for part := range 30 {
		fs := closedStore(t, 60)
		name := newestFile(t, fs, ".sst")
		changed := content(t, fs, name)
		changed[len(changed)*part/30] ^= 1
		replace(t, fs, name, changed)
		engine, err := embedded.Open(t.Context(), embedded.Options{Dir: folder, FS: fs, Fatal: func(err error) {
			t.Errorf("Fatal(%v) is called, want no call", err)
		}})
		if err != nil {
			continue // the start reads the damaged block
		}
		if _, err := tableOver(engine).Count(t.Context(), store.Query{PK: "p"}); err != nil {
			failed = true
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("Count() over a damaged block = %q, want one line", err)
			}
		}
		if err := engine.SetNotes(map[string][]byte{"another": {1}}); err != nil {
			t.Errorf("SetNotes() after a damaged block was read = %v, want success", err)
		}
		_ = engine.Close()
	}
	if !failed {
		t.Error("Count() over 30 damaged tables = no error, want one for a damaged block of items")
	}
}

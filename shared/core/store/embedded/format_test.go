package embedded_test

import (
	"encoding/binary"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"

	"github.com/gatewright/gatewright/shared/core/store/embedded"
)

// TestFilesOfANewerVersionAreRefused checks that the error advises using the version that
// wrote the files. It must not advise restoring a backup, because no file is damaged.
func TestFilesOfANewerVersionAreRefused(t *testing.T) {
	const files = folder + "/pebble"
	for name, tt := range map[string]struct {
		upgrade, downgrade func(*testing.T, vfs.FS) error
		wantErr            string
	}{
		"the store's format": {
			func(_ *testing.T, fs vfs.FS) error { return setFormat(fs, files, 2) },
			func(_ *testing.T, fs vfs.FS) error { return setFormat(fs, files, 1) },
			"has format 2, and this version reads format 1: use the version that wrote it",
		},
		"the engine's format": {
			func(t *testing.T, fs vfs.FS) error { return setEngineFormat(t, fs, files, "099") },
			func(t *testing.T, fs vfs.FS) error {
				return setEngineFormat(t, fs, files, pebble.FormatNewest.String())
			},
			"have format 99, and this version reads formats to " + strings.TrimLeft(pebble.FormatNewest.String(),
				"0") + ": use the version that wrote them",
		},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			fs := vfs.NewMem()
			b := open(t, embedded.Options{Dir: folder, FS: fs})
			put(t, tableOver(b), 1)
			if err := errors.Join(b.Close(), tt.upgrade(t, fs)); err != nil {
				t.Fatal(err)
			}
			before := fileSizes(t, fs, folder)
			_, err := embedded.Open(t.Context(), embedded.Options{Dir: folder, FS: fs, ReadOnly: true})
			if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
				t.Errorf("Open(read-only) = %v, want the error %q", err, tt.wantErr)
			}
			if after := fileSizes(t, fs, folder); !maps.Equal(before, after) {
				t.Errorf("files after Open(read-only) = %v, want %v", after, before)
			}
			_, err = embedded.Open(t.Context(), embedded.Options{Dir: folder, FS: fs})
			if err == nil || !strings.Contains(err.Error(), tt.wantErr) || strings.Contains(err.Error(), "damaged") ||
				strings.Contains(err.Error(), "\n") {
				t.Errorf("Open() = %v, want the error %q, on one line, without damage", err, tt.wantErr)
			}
			if err := tt.downgrade(t, fs); err != nil {
				t.Fatal(err)
			}
			if n := count(t, tableOver(open(t, embedded.Options{Dir: folder, FS: fs}))); n != 1 {
				t.Errorf("%d records after a refused Open(), want 1", n)
			}
		})
	}
}

// setFormat writes the version of the store's format (layout.go).
func setFormat(fs vfs.FS, files string, n uint64) error {
	db, err := pebble.Open(files, &pebble.Options{FS: fs, FormatMajorVersion: pebble.FormatNewest})
	if err != nil {
		return err
	}
	return errors.Join(db.Set([]byte("mformat"), binary.BigEndian.AppendUint64(nil, n), pebble.Sync), db.Close())
}

// setEngineFormat sets the engine's own format in the name of its marker file.
func setEngineFormat(t *testing.T, fs vfs.FS, files, format string) error {
	t.Helper()
	m, _, err := atomicfs.LocateMarker(fs, files, "format-version")
	if err != nil {
		return err
	}
	return errors.Join(m.Move(format), m.Close())
}

// fileSizes returns the sizes of the files in a folder and its subfolders, by their paths.
func fileSizes(t *testing.T, fs vfs.FS, folder string) map[string]int64 {
	t.Helper()
	all := map[string]int64{}
	names, err := fs.List(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(slices.Values(names)) {
		path := fs.PathJoin(folder, name)
		info, err := fs.Stat(path)
		if errors.Is(err, os.ErrNotExist) {
			continue // an open store has deleted the file meanwhile
		}
		if err != nil {
			t.Fatal(err)
		}
		if all[path] = info.Size(); info.IsDir() {
			all[path] = 0
			maps.Copy(all, fileSizes(t, fs, path))
		}
	}
	return all
}

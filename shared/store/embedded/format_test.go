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

	"github.com/gatewright/gatewright/shared/store/embedded"
)

// TestFilesOfANewerVersionAreRefused with what to do about it, which is not to restore a backup: nothing is damaged, and
// the version that wrote them goes on with them.
func TestFilesOfANewerVersionAreRefused(t *testing.T) {
	const files = folder + "/pebble"
	for name, tt := range map[string]struct {
		raise, lower func(*testing.T, vfs.FS) error
		wants        string
	}{
		"of the store's form": {
			func(_ *testing.T, fs vfs.FS) error { return setFormat(fs, files, 2) },
			func(_ *testing.T, fs vfs.FS) error { return setFormat(fs, files, 1) },
			"has format 2, and this version reads format 1: use the version that wrote it",
		},
		"of the engine": {
			func(t *testing.T, fs vfs.FS) error { return move(t, fs, files, "099") },
			func(t *testing.T, fs vfs.FS) error { return move(t, fs, files, pebble.FormatNewest.String()) },
			"have format 99, and this version reads formats to " + strings.TrimLeft(pebble.FormatNewest.String(), "0") + ": use the version that wrote them",
		},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			fs := vfs.NewMem()
			b := open(t, embedded.Options{Dir: folder, FS: fs})
			put(t, tableOver(b), 1)
			if err := errors.Join(b.Close(), tt.raise(t, fs)); err != nil {
				t.Fatal(err)
			}
			before := listed(t, fs, folder)
			_, err := embedded.Open(t.Context(), embedded.Options{Dir: folder, FS: fs, ReadOnly: true})
			if err == nil || !strings.Contains(err.Error(), tt.wants) {
				t.Errorf("read alone, it is answered with %v", err)
			}
			if after := listed(t, fs, folder); !maps.Equal(before, after) {
				t.Errorf("the files were %v and are %v", before, after)
			}
			_, err = embedded.Open(t.Context(), embedded.Options{Dir: folder, FS: fs})
			if err == nil || !strings.Contains(err.Error(), tt.wants) || strings.Contains(err.Error(), "damaged") || strings.Contains(err.Error(), "\n") {
				t.Errorf("it is answered with %v", err)
			}
			if err := tt.lower(t, fs); err != nil {
				t.Fatal(err)
			}
			if n := count(t, tableOver(open(t, embedded.Options{Dir: folder, FS: fs}))); n != 1 {
				t.Errorf("%d of 1 records are left", n)
			}
		})
	}
}

// setFormat writes the version of the store's form, as layout.go has it.
func setFormat(fs vfs.FS, files string, n uint64) error {
	db, err := pebble.Open(files, &pebble.Options{FS: fs, FormatMajorVersion: pebble.FormatNewest})
	if err != nil {
		return err
	}
	return errors.Join(db.Set([]byte("mformat"), binary.BigEndian.AppendUint64(nil, n), pebble.Sync), db.Close())
}

// move sets the engine's own format, as its files name it.
func move(t *testing.T, fs vfs.FS, files, format string) error {
	t.Helper()
	m, _, err := atomicfs.LocateMarker(fs, files, "format-version")
	if err != nil {
		return err
	}
	return errors.Join(m.Move(format), m.Close())
}

// listed are the files of a folder and below, with their sizes.
func listed(t *testing.T, fs vfs.FS, folder string) map[string]int64 {
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
			maps.Copy(all, listed(t, fs, path))
		}
	}
	return all
}

// Package staging has a directory appear whole or not at all: it is made in a
// folder beside its place and moved there in one step. A kill leaves the folder,
// which the next one who needs it empties.
//
// What it is not: it knows nothing of what lies in the directories.
//
// This file is all of it.
package staging

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/disk"
)

// Folder is a folder of one process. What lies in it is gone with Close.
type Folder struct {
	path string
	lock io.Closer
}

// ErrInUse is what Open answers while another one has the folder.
var ErrInUse = errors.New("the same is under way already")

const (
	lockName             = "lock"
	dirMode  fs.FileMode = 0o700
)

// Open makes the folder, or empties the one that a killed process left; it refuses
// any other. The folder around it has to be there.
func Open(path string) (*Folder, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", path, err)
	}
	err = os.Mkdir(path, dirMode)
	if errors.Is(err, fs.ErrExist) {
		if err := ours(path); err != nil {
			return nil, err
		}
	} else if err != nil {
		return nil, fmt.Errorf("the folder %s cannot be made: %w: make the one around it, and let it be writable", path, disk.Cause(err))
	}
	lock, err := vfs.Default.Lock(filepath.Join(path, lockName))
	if errors.Is(err, fs.ErrPermission) {
		return nil, fmt.Errorf("the folder %s cannot be written to: %w: make it writable", path, disk.Cause(err))
	}
	if err != nil {
		return nil, fmt.Errorf("%w (it has %s): wait for its end", ErrInUse, path)
	}
	f := &Folder{path, lock}
	if err := f.clear(); err != nil {
		return nil, errors.Join(fmt.Errorf("what an interrupted one left in %s cannot be removed: %w", path, err), lock.Close())
	}
	return f, nil
}

// ours refuses what is there and was not left by Open. All in the folder is going to
// be deleted: nothing is that somebody else keeps there, or that another user has
// a link lead to.
func ours(path string) error {
	refused := fmt.Errorf("%s is needed for what is under way, and was not left by an interrupted one: rename it, or remove it", path)
	at, err := os.Lstat(path)
	if err != nil {
		return fmt.Errorf("look at %s: %w", path, disk.Cause(err))
	}
	if !at.IsDir() || disk.Exposed(at.Mode()) {
		return refused
	}
	found, err := os.ReadDir(path)
	if err != nil {
		return fmt.Errorf("look into %s: %w", path, disk.Cause(err))
	}
	if lock, err := os.Lstat(filepath.Join(path, lockName)); len(found) > 0 && (err != nil || !lock.Mode().IsRegular()) {
		return refused
	}
	return nil
}

// Path is that of something in the folder.
func (f *Folder) Path(elem ...string) string {
	return filepath.Join(append([]string{f.path}, elem...)...)
}

func (f *Folder) clear() error {
	entries, err := os.ReadDir(f.path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() == lockName {
			continue
		}
		if err := os.RemoveAll(f.Path(e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// Close removes the folder.
func (f *Folder) Close() error {
	err := errors.Join(f.clear(), f.lock.Close())
	// An error of these leaves an empty folder, which harms nobody.
	_ = os.Remove(f.Path(lockName))
	_ = os.Remove(f.path)
	return err
}

// Resolve gives the absolute path of what is there or is to be, without links, so
// that what is made beside it is on its file system. Its error is a sentence for the
// terminal.
func Resolve(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("find %s: %w", path, err)
	}
	if there, err := filepath.EvalSymlinks(abs); err == nil {
		return there, nil
	}
	around, err := filepath.EvalSymlinks(filepath.Dir(abs))
	if err != nil {
		return "", fmt.Errorf("%s cannot be made: %w: make the directory around it", path, disk.Cause(err))
	}
	return filepath.Join(around, filepath.Base(abs)), nil
}

// Vacant refuses the place of a data directory where something lies. Its error is
// a sentence for the terminal.
func Vacant(path string) error {
	found, err := os.ReadDir(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("the data directory %s cannot be read: %w: name one that is not there yet in %s", path, disk.Cause(err), config.VarDataDir)
	case len(found) > 0:
		return fmt.Errorf("the data directory %s holds something already, which stays: rename it, or name a directory that is not there yet in %s", path, config.VarDataDir)
	}
	return nil
}

// Place moves a folder of this one to where it is to be, an absent or empty
// directory of the same file system. All in it is on disk before.
func (f *Folder) Place(name, to string) error {
	if err := Vacant(to); err != nil {
		return err
	}
	err := filepath.WalkDir(f.Path(name), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			err = disk.SyncFolder(path)
		}
		return err
	})
	if err == nil {
		err = os.Remove(to)
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	if err == nil {
		err = os.Rename(f.Path(name), to)
	}
	if err == nil {
		err = disk.SyncFolder(filepath.Dir(to))
	}
	if err != nil {
		return fmt.Errorf("the data directory %s cannot be put in its place: %w: name one that is not there yet in %s", to, disk.Cause(err), config.VarDataDir)
	}
	return nil
}

// Reader reads until a context ends: copies into a folder may be long.
func Reader(ctx context.Context, from io.Reader) io.Reader { return reader{ctx, from} }

type reader struct {
	ctx  context.Context //nolint:containedctx // of one call
	from io.Reader
}

func (r reader) Read(p []byte) (int, error) {
	if err := context.Cause(r.ctx); err != nil {
		return 0, err
	}
	return r.from.Read(p)
}

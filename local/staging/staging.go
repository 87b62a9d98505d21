// Package staging makes a directory appear completely or not at all. The directory is created in a staging folder next
// to its final place, and then moved there atomically. If the process is killed, the staging folder stays, and the next
// Open empties it. A staging folder can also hold a temporary copy, which is not moved.
//
// The package does not know the content of the directories. It has this file only.
package staging

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"

	"github.com/gatewright/gatewright/shared/base/disk"
	"github.com/gatewright/gatewright/shared/core/config"
)

// Folder is a staging folder, which only one process can use at a time. Close deletes it.
type Folder struct {
	path string
	lock *flock.Flock
}

// ErrInUse means that another process or call uses the folder.
var ErrInUse = errors.New("the same is under way already")

const (
	lockName             = "lock"
	lockMode fs.FileMode = 0o600
	dirMode  fs.FileMode = 0o700
)

// Open creates the folder at path. If a folder exists there, Open uses it if it is empty, or empties it if it is a
// staging folder that a killed process has left. Other users must have no access to it. Open returns an error for
// anything else at path. The parent folder must exist.
func Open(path string) (*Folder, error) {
	name := path
	path, err := filepath.Abs(name)
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", name, err)
	}
	err = os.Mkdir(path, dirMode)
	if errors.Is(err, fs.ErrExist) {
		if err := checkLeftover(path); err != nil {
			return nil, err
		}
	} else if err != nil {
		return nil, fmt.Errorf("the folder %s cannot be made: %w: make the one around it, and let it be writable", path,
			disk.Cause(err))
	}
	lock := flock.New(filepath.Join(path, lockName), flock.SetPermissions(lockMode))
	switch locked, err := lock.TryLock(); {
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("the folder %s cannot be written to: %w: make it writable", path, disk.Cause(err))
	case err != nil:
		return nil, fmt.Errorf("lock the folder %s: %w", path, disk.Cause(err))
	case !locked:
		return nil, fmt.Errorf("%w (it has %s): wait for its end", ErrInUse, path)
	}
	f := &Folder{path, lock}
	if err := f.clear(); err != nil {
		return nil, errors.Join(fmt.Errorf("what an interrupted one left in %s cannot be removed: %w", path, err),
			lock.Close())
	}
	return f, nil
}

// checkLeftover returns an error unless path is a folder that other users cannot access, and is empty or a staging
// folder of an earlier Open. Open deletes everything in the folder, which must not be other data or the target of
// another user's link.
func checkLeftover(path string) error {
	errForeign := fmt.Errorf("%s is needed for what is under way, and was not left by an interrupted one: rename it, "+
		"or remove it", path)
	info, err := os.Lstat(path)
	if err != nil {
		return fmt.Errorf("look at %s: %w", path, disk.Cause(err))
	}
	if !info.IsDir() || disk.Exposed(info.Mode()) {
		return errForeign
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return fmt.Errorf("look into %s: %w", path, disk.Cause(err))
	}
	if lock, err := os.Lstat(filepath.Join(path, lockName)); len(entries) > 0 && (err != nil || !lock.Mode().IsRegular()) {
		return errForeign
	}
	return nil
}

// Path returns the path of a file or folder within the staging folder.
func (f *Folder) Path(elem ...string) string {
	return filepath.Join(append([]string{f.path}, elem...)...)
}

// clear deletes everything in the folder except the lock.
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

// Close deletes the folder and its content.
func (f *Folder) Close() error {
	err := errors.Join(f.clear(), f.lock.Close())
	// Errors are ignored, because an empty folder that remains is harmless.
	_ = os.Remove(f.Path(lockName))
	_ = os.Remove(f.path)
	return err
}

// Resolve returns the absolute path of an existing or new file or folder, with symbolic links resolved.
// So a staging folder next to it is on the same file system. Its error is a sentence for the terminal.
func Resolve(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("find %s: %w", path, err)
	}
	if resolved, err := filepath.EvalSymlinks(abs); err == nil {
		return resolved, nil
	}
	parent, err := filepath.EvalSymlinks(filepath.Dir(abs))
	if err != nil {
		return "", fmt.Errorf("%s cannot be made: %w: make the directory around it", path, disk.Cause(err))
	}
	return filepath.Join(parent, filepath.Base(abs)), nil
}

// CheckEmpty returns an error if path exists and is not an empty directory. Its error is a sentence for the terminal.
func CheckEmpty(path string) error {
	entries, err := os.ReadDir(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("the data directory %s cannot be read: %w: name one that is not there yet in %s", path,
			disk.Cause(err), config.VarDataDir)
	case len(entries) > 0:
		return fmt.Errorf("the data directory %s holds something already, which stays: rename it, or name a directory that "+
			"is not there yet in %s", path, config.VarDataDir)
	}
	return nil
}

// MoveTo moves a folder within f to target, which must be on the same file system, and must not exist or be an empty
// directory. name is the path of the folder, relative to f. Before the move, MoveTo syncs the folders to disk, but not
// the files in them.
func (f *Folder) MoveTo(name, target string) error {
	if err := CheckEmpty(target); err != nil {
		return err
	}
	err := filepath.WalkDir(f.Path(name), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			err = disk.SyncFolder(path)
		}
		return err
	})
	if err == nil {
		err = os.Remove(target)
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	if err == nil {
		err = os.Rename(f.Path(name), target)
	}
	if err == nil {
		err = disk.SyncFolder(filepath.Dir(target))
	}
	if err != nil {
		return fmt.Errorf("the data directory %s cannot be put in its place: %w: name one that is not there yet in %s",
			target, disk.Cause(err), config.VarDataDir)
	}
	return nil
}

// Reader returns a reader whose reads fail when ctx ends, so that a long copy can be canceled.
func Reader(ctx context.Context, from io.Reader) io.Reader { return reader{ctx, from} }

type reader struct {
	ctx  context.Context //nolint:containedctx // a reader is used within one call
	from io.Reader
}

func (r reader) Read(p []byte) (int, error) {
	if err := context.Cause(r.ctx); err != nil {
		return 0, err
	}
	return r.from.Read(p)
}

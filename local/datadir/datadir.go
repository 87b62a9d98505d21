// Package datadir is the directory in which a local installation keeps its
// data: who may use it now (a lock), where that one answers (the run state),
// and its files, written so that a kill at any moment leaves the old content or
// the new.
//
// What it is not: it does not know what the files mean; packages rootkey,
// emulator and product do.
//
// Read datadir.go first, then state.go. The rules are those of design,
// section 9: .gatewright/ continues after any kind of stop.
package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"
	"github.com/rogpeppe/go-internal/robustio"

	"github.com/gatewright/gatewright/shared/disk"
	"github.com/gatewright/gatewright/shared/seal"
)

// The modes of what is made: nobody but the owner has business in there.
const (
	dirMode  fs.FileMode = 0o700
	fileMode fs.FileMode = 0o600
)

// What stands in a data directory, beside the root key (package rootkey) and the
// lock and state of this package. A backup and an import write the same names.
const (
	// Engine is the folder of the embedded engine, Objects that of the bucket's
	// files.
	Engine  = "engine"
	Objects = "objects"
	// EmulatedTable and EmulatedObjects are the folders of the emulators of DynamoDB and
	// S3. They take the place of Engine and Objects if functions are processes.
	EmulatedTable   = "dynamodb"
	EmulatedObjects = "s3"
	// AccountKey is the file with the key of the first account.
	AccountKey = "account-key"
)

// Dir is a data directory.
type Dir struct{ path string }

// Open makes the directory when it is absent and makes sure that it can be
// written to. Its error is a full sentence for the terminal.
func Open(path string) (*Dir, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("find the data directory: %w", err)
	}
	d := &Dir{path: abs}
	if err := d.probe(); err != nil {
		return nil, fmt.Errorf("the data directory %s cannot be written to (%w): make it writable, or name another one in GATEWRIGHT_DATA_DIR",
			path, disk.Cause(err))
	}
	return d, nil
}

func (d *Dir) probe() error {
	if err := os.MkdirAll(d.path, dirMode); err != nil {
		return err
	}
	probe, err := os.CreateTemp(d.path, ".probe-*")
	if err != nil {
		return err
	}
	_ = probe.Close()
	return os.Remove(probe.Name())
}

// Path returns the absolute path of something in the directory.
func (d *Dir) Path(elem ...string) string {
	return filepath.Join(append([]string{d.path}, elem...)...)
}

// Sub makes a directory in this one and gives its path.
func (d *Dir) Sub(name string) (string, error) {
	path := d.Path(name)
	if err := os.MkdirAll(path, dirMode); err != nil {
		return "", fmt.Errorf("make %s: %w", path, disk.Cause(err))
	}
	return path, nil
}

// Read returns a file's content; the error wraps fs.ErrNotExist for none.
func (d *Dir) Read(name string) ([]byte, error) {
	content, err := robustio.ReadFile(d.Path(name)) // Windows refuses it while Write renames
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", d.Path(name), disk.Cause(err))
	}
	return content, nil
}

// Write puts content in place of a file, readable by its owner alone. A reader
// and a kill see the old content or all of the new.
func (d *Dir) Write(name string, content []byte) error {
	if err := d.write(name, content); err != nil {
		return fmt.Errorf("write %s: %w", d.Path(name), disk.Cause(err))
	}
	return nil
}

func (d *Dir) write(name string, content []byte) error {
	file, err := os.CreateTemp(d.path, draft) // mode 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(file.Name()) }()
	_, err = file.Write(content)
	// Without it a crash of the machine may leave an empty file in its place.
	if err == nil {
		err = file.Sync()
	}
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Chmod(file.Name(), fileMode)
	}
	if err != nil {
		return err
	}
	return robustio.Rename(file.Name(), d.Path(name)) // Windows refuses it while somebody reads the old content
}

// ErrInUse is what Lock answers while another process has the lock.
var ErrInUse = errors.New("the data directory is in use by another process")

// Lock is the right to use a data directory. It ends with the process, however
// the process ends.
type Lock struct{ file *flock.Flock }

// draft is the pattern of what is going to be a file.
const draft = ".new-*"

// Lock takes the lock or answers ErrInUse at once. It removes what a killed holder
// was writing: keys, mostly.
func (d *Dir) Lock() (*Lock, error) {
	file := flock.New(d.Path("lock")) // of fileMode
	switch locked, err := file.TryLock(); {
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("the data directory %s is another user's: run this as the user who has it, or give it to yours, with all that is in it", d.path)
	case err != nil:
		return nil, fmt.Errorf("lock %s: %w", d.path, disk.Cause(err))
	case !locked:
		return nil, ErrInUse
	}
	for _, pattern := range []string{draft, seal.Draft} {
		left, _ := fs.Glob(os.DirFS(d.path), pattern) // the patterns are good, and what is not removed now is later
		for _, name := range left {
			_ = os.Remove(d.Path(name))
		}
	}
	return &Lock{file: file}, nil
}

// Release gives the lock back. It may be called more than once.
func (l *Lock) Release() { _ = l.file.Unlock() }

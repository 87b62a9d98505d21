// Package datadir manages the directory with the data of a local installation. The directory contains a lock for the
// process that uses it, the addresses of that process (the run state), and the installation's files. If the process is
// killed during a write, the file has either its old or its new content.
//
// The package does not interpret the files; packages rootkey, emulator and product do.
//
// Read datadir.go first, then state.go. The rules are in section 9 of the
// design: an installation can be started again after any kind of stop.
package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"
	"github.com/rogpeppe/go-internal/robustio"

	"github.com/gatewright/gatewright/shared/base/disk"
	"github.com/gatewright/gatewright/shared/core/seal"
)

// The modes of new files and folders: only the owner has access.
const (
	dirMode  fs.FileMode = 0o700
	fileMode fs.FileMode = 0o600
)

// The names of files and folders in a data directory that several packages use. Backups and imports use the same names.
// Other names are declared where they are used, such as the name of the root key in package rootkey.
const (
	// Engine is the folder of the embedded engine. Objects is the folder of the bucket's objects.
	Engine  = "engine"
	Objects = "objects"
	// EmulatedTable and EmulatedObjects are the folders of the emulators of DynamoDB and
	// S3. They are used instead of Engine and Objects if functions are separate processes.
	EmulatedTable   = "dynamodb"
	EmulatedObjects = "s3"
	// AccountKey is the file with the key of the first account.
	AccountKey = "account-key"
)

// Dir is a data directory.
type Dir struct{ path string }

// Open opens the directory at path. It creates the directory if it does not exist,
// and checks that it is writable. Its error is a full sentence for the terminal.
func Open(path string) (*Dir, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("find the data directory: %w", err)
	}
	d := &Dir{path: abs}
	if err := d.probe(); err != nil {
		return nil, fmt.Errorf("the data directory %s cannot be written to (%w): make it writable, or name another one in "+
			"GATEWRIGHT_DATA_DIR",
			path, disk.Cause(err))
	}
	return d, nil
}

// probe creates the directory if it does not exist, and checks that files can be created in it.
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

// Path returns the absolute path of a file or folder in the directory.
func (d *Dir) Path(elem ...string) string {
	return filepath.Join(append([]string{d.path}, elem...)...)
}

// CreateFolder creates a folder in the directory and returns its path.
func (d *Dir) CreateFolder(name string) (string, error) {
	path := d.Path(name)
	if err := os.MkdirAll(path, dirMode); err != nil {
		return "", fmt.Errorf("make %s: %w", path, disk.Cause(err))
	}
	return path, nil
}

// Read returns a file's content. The error wraps fs.ErrNotExist if the file does not exist.
func (d *Dir) Read(name string) ([]byte, error) {
	content, err := robustio.ReadFile(d.Path(name)) // retries: on Windows, a read fails during Write's rename
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", d.Path(name), disk.Cause(err))
	}
	return content, nil
}

// Write replaces the content of a file, which only its owner can read. Readers see
// either the old content or the complete new content, even if the process is killed.
func (d *Dir) Write(name string, content []byte) error {
	if err := d.write(name, content); err != nil {
		return fmt.Errorf("write %s: %w", d.Path(name), disk.Cause(err))
	}
	return nil
}

func (d *Dir) write(name string, content []byte) error {
	file, err := os.CreateTemp(d.path, draftPattern) // mode 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(file.Name()) }()
	_, err = file.Write(content)
	// Without Sync, the file could be empty after a crash of the machine.
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
	return robustio.Rename(file.Name(), d.Path(name)) // retries: on Windows, it fails while another process reads
}

// ErrInUse reports that another process has the lock.
var ErrInUse = errors.New("the data directory is in use by another process")

// Lock is the right to use a data directory. The system releases
// it when the process ends, even if the process is killed.
type Lock struct{ file *flock.Flock }

// draftPattern is the pattern for the names of the temporary files of Write.
const draftPattern = ".new-*"

// Lock locks the directory, or returns ErrInUse without waiting. It removes
// the temporary files that a killed process has left, which can contain keys.
func (d *Dir) Lock() (*Lock, error) {
	file := flock.New(d.Path("lock")) // creates the file with fileMode
	switch locked, err := file.TryLock(); {
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("the data directory %s is another user's: run this as the user who has it, or give it to "+
			"yours, with all that is in it", d.path)
	case err != nil:
		return nil, fmt.Errorf("lock %s: %w", d.path, disk.Cause(err))
	case !locked:
		return nil, ErrInUse
	}
	for _, pattern := range []string{draftPattern, seal.TempPattern} {
		// Errors are ignored: the patterns are valid, and the next call removes the files that could not be removed.
		drafts, _ := fs.Glob(os.DirFS(d.path), pattern)
		for _, name := range drafts {
			_ = os.Remove(d.Path(name))
		}
	}
	return &Lock{file: file}, nil
}

// Release releases the lock. It can be called more than once.
func (l *Lock) Release() { _ = l.file.Unlock() }

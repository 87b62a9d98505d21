package seal

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/gatewright/gatewright/shared/base/disk"
)

// File is the root key in a file that only the file's owner can read. It is for local runs, single servers and tests.
// If the file is lost, sealed values can no longer be opened, and stored hashes can no longer be compared.
type File struct{ read func() ([]byte, error) }

var _ KeySource = (*File)(nil)

// OpenFile returns the File at a path. The file is read when the key is first needed. If it does
// not exist then, it is created with 32 random bytes and mode 0600. It is created atomically, so
// that two processes that start at the same time use the same key. The directory must exist.
func OpenFile(path string) *File {
	return &File{read: sync.OnceValues(func() ([]byte, error) {
		key, err := readKey(path)
		if errors.Is(err, fs.ErrNotExist) {
			if err = createKey(path); err == nil {
				key, err = readKey(path)
			}
		}
		return key, err
	})}
}

// ExistingFile works as OpenFile does, but never creates the file, because a new key cannot open
// data that is sealed already. If the file does not exist, the error of Root wraps fs.ErrNotExist.
func ExistingFile(path string) *File {
	return &File{read: sync.OnceValues(func() ([]byte, error) { return readKey(path) })}
}

// Root implements KeySource. If the group or others can read the file, or
// its content is not a key, Root returns an error that says what to do.
func (f *File) Root(context.Context) ([]byte, error) { return f.read() }

func readKey(path string) ([]byte, error) {
	file, err := os.Open(path) //nolint:gosec // G304: the operator names the file
	if err != nil {
		return nil, fmt.Errorf("read the key file: %w", err)
	}
	defer file.Close() //nolint:errcheck // nothing was written
	info, err := file.Stat()
	if err != nil {
		return nil, fmt.Errorf("read the key file: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("seal: the key file %s is no regular file", path)
	}
	if disk.Exposed(info.Mode()) {
		return nil, fmt.Errorf("seal: the key file %s has mode %04o and others may read it: chmod 600 it, or start over "+
			"with another key if somebody may have read it", path, info.Mode().Perm())
	}
	// Read one byte more than a key, so that a longer file is detected.
	key, err := io.ReadAll(io.LimitReader(file, KeyBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read the key file: %w", err)
	}
	if len(key) != KeyBytes {
		return nil, fmt.Errorf("seal: the key file %s does not hold exactly %d bytes: restore it from a copy; without it "+
			"nothing sealed can be read", path, KeyBytes)
	}
	return key, nil
}

// TempPattern is the pattern of temporary files that createKey creates in the key's
// folder. After a kill such a file can remain, and may contain the key.
const TempPattern = ".key-*"

// createKey writes a new key to a temporary file and links it to path. If another process has
// created the file at path meanwhile, the link fails, and createKey succeeds with that file.
func createKey(path string) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("make the key file: %w", err)
		}
	}()
	temp, err := os.CreateTemp(filepath.Dir(path), TempPattern) // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name()) //nolint:errcheck // the file at path remains
	key := make([]byte, KeyBytes)
	rand.Read(key) // never fails
	_, err = temp.Write(key)
	// If a power cut loses the key, everything sealed with it is lost.
	err = errors.Join(err, temp.Sync(), temp.Close())
	if err != nil {
		return err
	}
	if err := os.Link(temp.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return disk.SyncFolder(filepath.Dir(path))
}

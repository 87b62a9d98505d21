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

	"github.com/gatewright/gatewright/shared/disk"
)

// File is the root key in a file that only its owner may read: for a laptop
// and for tests. Losing the file loses every sealed value and every key's hash.
type File struct{ read func() ([]byte, error) }

var _ KeySource = (*File)(nil)

// OpenFile names the key file. It is read when the key is first asked for, and
// made then if it is absent: 32 random bytes with mode 0600, in one step, so
// that two processes that start at once agree. The directory must exist.
func OpenFile(path string) *File {
	return &File{read: sync.OnceValues(func() ([]byte, error) {
		key, err := readKey(path)
		if errors.Is(err, fs.ErrNotExist) {
			if err = makeKey(path); err == nil {
				key, err = readKey(path)
			}
		}
		return key, err
	})}
}

// ExistingFile names a key file that is never made: where something is sealed
// already, a new key opens none of it. The error of Root wraps fs.ErrNotExist
// while there is none.
func ExistingFile(path string) *File {
	return &File{read: sync.OnceValues(func() ([]byte, error) { return readKey(path) })}
}

// Root implements KeySource. A file that group or others may read, or that is
// no key, is refused with an error that says what to do.
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
		return nil, fmt.Errorf("seal: the key file %s has mode %04o and others may read it: chmod 600 it, or start over with another key if somebody may have read it", path, info.Mode().Perm())
	}
	// One byte more than a key, so that a longer file is noticed.
	key, err := io.ReadAll(io.LimitReader(file, KeyBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read the key file: %w", err)
	}
	if len(key) != KeyBytes {
		return nil, fmt.Errorf("seal: the key file %s does not hold exactly %d bytes: restore it from a copy; without it nothing sealed can be read", path, KeyBytes)
	}
	return key, nil
}

// Draft is the pattern of the files beside a key that is made. One that is left was
// left by a kill, and may hold the key.
const Draft = ".key-*"

// makeKey writes a new key beside path and links it there, which either
// happens wholly or finds that another process was first. Both are success.
func makeKey(path string) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("make the key file: %w", err)
		}
	}()
	draft, err := os.CreateTemp(filepath.Dir(path), Draft) // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(draft.Name()) //nolint:errcheck // the link keeps the content
	key := make([]byte, KeyBytes)
	rand.Read(key) // never fails
	_, err = draft.Write(key)
	// A key that a power cut loses takes everything sealed with it.
	err = errors.Join(err, draft.Sync(), draft.Close())
	if err != nil {
		return err
	}
	if err := os.Link(draft.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return disk.SyncFolder(filepath.Dir(path))
}

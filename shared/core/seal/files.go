package seal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/gatewright/gatewright/shared/base/disk"
)

// NextFile is the suffix of the file with the next root key, next to the current
// key file. At the end of a rotation the file replaces the current one.
const NextFile = ".next"

// Files is a Wrapper of root keys in files. The wrapped form of a key only identifies
// the key, and Files finds the file that has this key. It is safe for concurrent use.
type Files struct {
	path string

	mu   sync.Mutex
	keys map[string][]byte // by wrapped form
}

var _ Wrapper = (*Files)(nil)

// OpenFiles returns the Files for a key file. It does not read or create files.
func OpenFiles(path string) *Files { return &Files{path: path, keys: map[string][]byte{}} }

// Current returns the wrapped form of the key in the key file. Generate returns the same form of the next key. Current
// creates the file if it does not exist.
func (f *Files) Current(ctx context.Context) ([]byte, error) { return f.wrapped(ctx, OpenFile(f.path)) }

// Generate implements Wrapper. The key is on disk, in the file for the next key, before Generate returns.
// If an earlier call has left a key there, that key is used, because nothing is sealed under it.
func (f *Files) Generate(ctx context.Context) ([]byte, error) {
	return f.wrapped(ctx, OpenFile(f.path+NextFile))
}

func (f *Files) wrapped(ctx context.Context, file *File) ([]byte, error) {
	key, err := file.Root(ctx)
	if err != nil {
		return nil, err
	}
	identifier, err := RootKeyHash(ctx, file)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.keys[identifier] = key
	return []byte(identifier), nil
}

// Unwrap implements Wrapper. It remembers keys that it has read.
func (f *Files) Unwrap(ctx context.Context, wrapped []byte) ([]byte, error) {
	f.mu.Lock()
	key, ok := f.keys[string(wrapped)]
	f.mu.Unlock()
	if ok {
		return key, nil
	}
	_, key, err := f.find(ctx, string(wrapped))
	return key, err
}

// find returns the path and the key of the file whose key has the given wrapped form.
func (f *Files) find(ctx context.Context, wrapped string) (path string, key []byte, err error) {
	for _, path := range []string{f.path, f.path + NextFile} {
		file := ExistingFile(path)
		found, err := f.wrapped(ctx, file)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return "", nil, err
		}
		if string(found) == wrapped {
			key, err := file.Root(ctx)
			return path, key, err
		}
	}
	return "", nil, fmt.Errorf("neither %s nor %s is a root key that the data were sealed under: put the copies of both "+
		"back that are as old as the data, or restore a backup into another data directory",
		f.path, filepath.Base(f.path)+NextFile)
}

// Promote moves the key with this wrapped form to the key file, which deletes the previous key. It can be repeated.
func (f *Files) Promote(ctx context.Context, wrapped []byte) error {
	path, _, err := f.find(ctx, string(wrapped))
	if err != nil || path == f.path {
		return err
	}
	if err := os.Rename(path, f.path); err != nil {
		return fmt.Errorf("put the root key in its place: %w", err)
	}
	return disk.SyncFolder(filepath.Dir(f.path))
}

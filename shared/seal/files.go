package seal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/gatewright/gatewright/shared/disk"
)

// NextFile is what the name of a key file ends in that has the root key to come, beside the one that is. At the end
// of a rotation it takes that one's place.
const NextFile = ".next"

// Files is a Wrapper of root keys that lie in files: what it gives in place of a wrapped key says which of two files has the
// key, by its content and not by its name. It is safe for concurrent use.
type Files struct {
	path string

	mu    sync.Mutex
	known map[string][]byte // by what Generate gives
}

var _ Wrapper = (*Files)(nil)

// OpenFiles names the key file. It reads and makes none.
func OpenFiles(path string) *Files { return &Files{path: path, known: map[string][]byte{}} }

// Current gives, as Generate does, the key that is in the key file, which is made if it is absent.
func (f *Files) Current(ctx context.Context) ([]byte, error) { return f.wrapped(ctx, OpenFile(f.path)) }

// Generate implements Wrapper. The key is on disk, in the file beside, before anybody hears of it; one that an
// earlier call has left there, which nothing is sealed under, is taken.
func (f *Files) Generate(ctx context.Context) ([]byte, error) {
	return f.wrapped(ctx, OpenFile(f.path+NextFile))
}

func (f *Files) wrapped(ctx context.Context, file *File) ([]byte, error) {
	key, err := file.Root(ctx)
	if err != nil {
		return nil, err
	}
	check, err := Check(ctx, file)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.known[check] = key
	return []byte(check), nil
}

// Unwrap implements Wrapper. A key that was read once is remembered.
func (f *Files) Unwrap(ctx context.Context, wrapped []byte) ([]byte, error) {
	f.mu.Lock()
	key, ok := f.known[string(wrapped)]
	f.mu.Unlock()
	if ok {
		return key, nil
	}
	_, key, err := f.find(ctx, string(wrapped))
	return key, err
}

// find gives the file that has a key, and the key.
func (f *Files) find(ctx context.Context, check string) (path string, key []byte, err error) {
	for _, path := range []string{f.path, f.path + NextFile} {
		file := ExistingFile(path)
		its, err := f.wrapped(ctx, file)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return "", nil, err
		}
		if string(its) == check {
			key, err := file.Root(ctx)
			return path, key, err
		}
	}
	return "", nil, fmt.Errorf("neither %s nor %s is a root key that the data were sealed under: put the copies of both back that are as old as the data, or restore a backup into another data directory",
		f.path, filepath.Base(f.path)+NextFile)
}

// Settle has the key that wrapped stands for lie in the key file, in place of the one before it, which is gone then. It may be repeated.
func (f *Files) Settle(ctx context.Context, wrapped []byte) error {
	path, _, err := f.find(ctx, string(wrapped))
	if err != nil || path == f.path {
		return err
	}
	if err := os.Rename(path, f.path); err != nil {
		return fmt.Errorf("put the root key in its place: %w", err)
	}
	return disk.SyncFolder(filepath.Dir(f.path))
}

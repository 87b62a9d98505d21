package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/gatewright/gatewright/shared/core/blob"
)

// Retain keeps the content files of objects that are deleted or replaced from now on, until release is called (the
// last release, after several calls of Retain). So all contents that are named in the notes exist until then, also if
// the notes are from a copy of the engine's files that was made after the call of Retain. If the process dies before
// release is called, the next Open removes the files.
func (b *Bucket) Retain() (release func() error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.retained++
	return sync.OnceValue(b.release)
}

func (b *Bucket) release() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.retained--; b.retained > 0 {
		return nil
	}
	var errs []error
	for digest := range b.pendingRemoval {
		errs = append(errs, b.removeUnused(digest))
	}
	clear(b.pendingRemoval)
	return errors.Join(errs...)
}

// Import stores an object from another store. It keeps the object's ETag and time, so
// that records with this ETag or time stay valid. There must be no object at the key.
func (b *Bucket) Import(ctx context.Context, o blob.Object, body io.Reader) error {
	_, err := b.store(ctx, o, body, map[string][]byte{})
	return err
}

// Contents calls visit once for each content that an object in notes
// has, in the order of their digests, until visit returns an error.
func Contents(notes Notes, visit func(digest string, bytes int64) error) error {
	previous := ""
	return notes.EachNote(contentNote, func(name string, _ []byte) (bool, error) {
		digest, key, _ := strings.Cut(name[len(contentNote):], "/")
		if digest == previous {
			return true, nil
		}
		previous = digest
		n, err := noteOf(notes, key)
		if err == nil && n.Digest != digest {
			err = fmt.Errorf("the object %s has two contents: restore the last backup", key)
		}
		if err != nil {
			return false, err
		}
		return true, visit(digest, n.Size)
	})
}

// Snapshot has the objects whose notes are in a copy of the engine's files. It reads their contents from
// the folder of the original bucket, and does not change the folder. Retain must keep the contents.
type Snapshot struct {
	dir   string
	notes Notes
}

// OpenSnapshot returns the Snapshot of the objects in notes, which
// are from a copy. dir is the folder of the original bucket.
func OpenSnapshot(dir string, notes Notes) *Snapshot { return &Snapshot{dir, notes} }

// List works as blob.Bucket.List does.
func (s *Snapshot) List(ctx context.Context, prefix string) iter.Seq2[blob.Object, error] {
	return list(ctx, s.notes, prefix)
}

// Get works as blob.Bucket.Get does.
func (s *Snapshot) Get(ctx context.Context, key, etag string, limit int64) (io.ReadCloser, blob.Object, error) {
	if err := ctx.Err(); err != nil {
		return nil, blob.Object{}, err
	}
	n, err := noteOf(s.notes, key)
	if err == nil {
		err = n.check(key, etag, limit)
	}
	if err != nil {
		return nil, blob.Object{}, err
	}
	file, err := os.Open(filepath.Join(s.dir, filepath.FromSlash(ContentPath(n.Digest))))
	if err != nil {
		return nil, blob.Object{}, fmt.Errorf("get an object: %w: restore the last backup", err)
	}
	return newVerifyingReader(file, n), n.object(key), nil
}

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

	"github.com/gatewright/gatewright/shared/blob"
)

// Retain keeps the files of contents whose objects are deleted from now on, until
// release is called: whoever copies the engine's files after Retain finds all
// contents that the copy's notes name. A process that dies in between leaves them
// to the next Open.
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
	var all []error
	for digest := range b.left {
		all = append(all, b.discard(digest))
	}
	clear(b.left)
	return errors.Join(all...)
}

// Import puts an object that another store had, under its ETag and with its time:
// records that name it by these go on. There must be none at its key.
func (b *Bucket) Import(ctx context.Context, o blob.Object, body io.Reader) error {
	_, err := b.store(ctx, o, body, map[string][]byte{})
	return err
}

// Contents visits the contents that the objects in notes have, each once, in the
// order of their digests, until an error.
func Contents(notes Notes, visit func(digest string, bytes int64) error) error {
	last := ""
	return notes.EachNote(contentNote, func(name string, _ []byte) (bool, error) {
		digest, key, _ := strings.Cut(name[len(contentNote):], "/")
		if digest == last {
			return true, nil
		}
		last = digest
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

// Copied are the objects that a copy of the engine's files names, with contents in the folder of
// the bucket that they were copied from. It changes nothing there; Retain keeps the contents.
type Copied struct {
	dir   string
	notes Notes
}

// OpenCopied opens what the notes of a copy name in a bucket's folder.
func OpenCopied(dir string, notes Notes) *Copied { return &Copied{dir, notes} }

// List is blob.Bucket.List.
func (c *Copied) List(ctx context.Context, prefix string) iter.Seq2[blob.Object, error] {
	return list(ctx, c.notes, prefix)
}

// Get is blob.Bucket.Get.
func (c *Copied) Get(ctx context.Context, key, etag string, limit int64) (io.ReadCloser, blob.Object, error) {
	if err := ctx.Err(); err != nil {
		return nil, blob.Object{}, err
	}
	n, err := noteOf(c.notes, key)
	if err == nil {
		err = n.suits(key, etag, limit)
	}
	if err != nil {
		return nil, blob.Object{}, err
	}
	file, err := os.Open(filepath.Join(c.dir, filepath.FromSlash(ContentPath(n.Digest))))
	if err != nil {
		return nil, blob.Object{}, fmt.Errorf("get an object: %w: restore the last backup", err)
	}
	return newVerified(file, n), n.object(key), nil
}

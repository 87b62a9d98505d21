package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/gatewright/gatewright/shared/blob"
)

// Replace is blob.Bucket.Replace. Killed anywhere it leaves the one object or the other.
func (b *Bucket) Replace(ctx context.Context, key, etag string, body io.ReadSeeker) error {
	if err := errors.Join(blob.Refuse(ctx), ctx.Err()); err != nil {
		return err
	}
	written, n, raw, err := b.write(ctx, blob.Object{Key: key, Modified: b.o.Now()}, body)
	if written != "" {
		defer func() { _ = os.Remove(written) }()
	}
	if err != nil {
		return fmt.Errorf("replace an object: %w", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	before, err := b.note(key)
	switch {
	case err != nil:
		return err
	case before.object(key).ETag != etag:
		return blob.ErrChanged
	}
	if err := b.place(filepath.Base(written), n.Digest); err != nil {
		return fmt.Errorf("replace an object: %w", err)
	}
	set := map[string][]byte{objectNote + key: raw, contentNote + n.Digest + "/" + key: {}}
	if before.Digest == n.Digest {
		return b.o.Notes.SetNotes(set)
	}
	if err := b.o.Notes.SetNotes(set, contentNote+before.Digest+"/"+key); err != nil {
		return err
	}
	return b.discard(before.Digest)
}

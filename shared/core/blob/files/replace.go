package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/gatewright/gatewright/shared/core/blob"
)

// Replace works as blob.Bucket.Replace does. If the process is
// killed during Replace, either the old or the new object remains.
func (b *Bucket) Replace(ctx context.Context, key, etag string, body io.ReadSeeker) error {
	if err := errors.Join(blob.RefuseInDryRun(ctx), ctx.Err()); err != nil {
		return err
	}
	temp, n, raw, err := b.write(ctx, blob.Object{Key: key, Modified: b.o.Now()}, body)
	if temp != "" {
		defer func() { _ = os.Remove(temp) }()
	}
	if err != nil {
		return fmt.Errorf("replace an object: %w", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	previous, err := b.note(key)
	switch {
	case err != nil:
		return err
	case previous.object(key).ETag != etag:
		return blob.ErrChanged
	}
	if err := b.moveIntoPlace(filepath.Base(temp), n.Digest); err != nil {
		return fmt.Errorf("replace an object: %w", err)
	}
	set := map[string][]byte{objectNote + key: raw, contentNote + n.Digest + "/" + key: {}}
	if previous.Digest == n.Digest {
		return b.o.Notes.SetNotes(set)
	}
	if err := b.o.Notes.SetNotes(set, contentNote+previous.Digest+"/"+key); err != nil {
		return err
	}
	return b.removeUnused(previous.Digest)
}

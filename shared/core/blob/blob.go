// Package blob stores objects in the product's S3 bucket: uploads, and the
// sources and artifacts derived from them. keys.go lists the keys.
//
// The package is not a file system, and it is not for data that changes. Except for uploads, which
// clients store with presigned URLs, an object is written once, at a key with the digest of its content.
// So a write can be repeated, and two writers cannot conflict. After that, only a rotation of the root
// key changes the object: it seals the same content again (Bucket.Replace).
//
// Read this file first. s3.go is the bucket in S3, memory.go is a bucket in
// memory. One test suite tests both. The rules are those of design, section 7.
package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"time"

	"github.com/gatewright/gatewright/shared/base/dryrun"
)

// UploadValidity is how long a presigned upload URL works (design, section 7). S3 cannot
// limit the size of an upload, so the code that reads the upload does, with the limit of Get.
const UploadValidity = 15 * time.Minute

// The errors that callers distinguish.
var (
	// ErrNotFound means that there is no object at the key.
	ErrNotFound = errors.New("blob: no such object")
	// ErrChanged is the error of Get and Replace for an object with another ETag than the requested one.
	ErrChanged = errors.New("blob: the object has been replaced")
	// ErrTooLarge is the error of Get, or of its reader, for an object that exceeds the limit.
	ErrTooLarge = errors.New("blob: the object is over the size limit")
)

// Object describes a stored object.
type Object struct {
	Key  string
	Size int64
	// ETag changes when the object is replaced by another content. It has no quotes, as in S3's events.
	ETag string
	// Modified is when the object was stored, to the second.
	Modified time.Time
}

// RefuseInDryRun returns an error in a dry run. Every bucket calls it before it changes anything.
func RefuseInDryRun(ctx context.Context) error { return dryrun.Refuse(ctx, "a change of the bucket") }

// DryRunURL returns the address that a dry run returns instead of an upload
// address. Its host never exists (RFC 2606). ok is false outside a dry run.
func DryRunURL(ctx context.Context, key string) (address string, ok bool) {
	return (&url.URL{Scheme: "https", Host: "dry-run.invalid", Path: "/" + key}).String(), dryrun.Active(ctx)
}

// limitedReader reads at most remaining bytes, and returns ErrTooLarge if the object has more.
type limitedReader struct {
	io.ReadCloser
	remaining int64
}

func (l *limitedReader) Read(p []byte) (int, error) {
	if int64(len(p)) > l.remaining+1 {
		p = p[:l.remaining+1] // one byte more shows that the object is too large
	}
	n, err := l.ReadCloser.Read(p)
	if int64(n) > l.remaining {
		n, err = int(l.remaining), ErrTooLarge
	}
	l.remaining -= int64(n)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, ErrTooLarge) {
		err = fmt.Errorf("read an object: %w", err)
	}
	return n, err
}

// Package blob stores objects in the product's S3 bucket: uploads, and the
// sources and artifacts made of them. keys.go lists what is in it.
//
// What it is not: a file system, or a place for anything that changes. Apart
// from uploads, which clients put there by presigned URLs, an object is written
// once under the digest of its content and never again, so that a write may be
// repeated and two writers cannot disagree.
//
// Read this file first; s3.go is the bucket, memory.go the one in memory, and
// one suite tests both. The rules are those of design, section 7.
package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"time"

	"github.com/gatewright/gatewright/shared/dryrun"
)

// UploadValidity is how long a presigned upload URL works (design, section 7).
// S3 cannot bound the size of what is put there: who reads it does, with Get.
const UploadValidity = 15 * time.Minute

// The errors that callers tell apart.
var (
	// ErrNotFound answers a key without an object.
	ErrNotFound = errors.New("blob: no such object")
	// ErrChanged answers Get when the object is another than the one asked for.
	ErrChanged = errors.New("blob: the object has been replaced")
	// ErrTooLarge answers Get, or its reader, when the object is over the limit.
	ErrTooLarge = errors.New("blob: the object is over the size limit")
)

// Object describes what is stored at a key.
type Object struct {
	Key  string
	Size int64
	// ETag changes when the object is replaced by another content. It is
	// without quotes, as in S3's events.
	ETag string
	// Modified is when the object was stored, to the second.
	Modified time.Time
}

// Refuse answers an error in a dry run, for every bucket before it changes anything.
func Refuse(ctx context.Context) error { return dryrun.Refuse(ctx, "a change of the bucket") }

// Nowhere is the address that a dry run is given in place of one to upload to: no
// host has it (RFC 2606). ok is false outside of one.
func Nowhere(ctx context.Context, key string) (address string, ok bool) {
	return (&url.URL{Scheme: "https", Host: "dry-run.invalid", Path: "/" + key}).String(), dryrun.Active(ctx)
}

// limited reads at most left bytes and answers ErrTooLarge instead of more.
type limited struct {
	io.ReadCloser
	left int64
}

func (l *limited) Read(p []byte) (int, error) {
	if int64(len(p)) > l.left+1 {
		p = p[:l.left+1] // one byte more shows that there is too much
	}
	n, err := l.ReadCloser.Read(p)
	if int64(n) > l.left {
		n, err = int(l.left), ErrTooLarge
	}
	l.left -= int64(n)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, ErrTooLarge) {
		err = fmt.Errorf("read an object: %w", err)
	}
	return n, err
}

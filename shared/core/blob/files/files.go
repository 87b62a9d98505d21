// Package files keeps the product's objects in a folder. Contents are files that are named by their digest. The
// metadata are notes of the embedded engine. So `cp -r` and `tar` copy both. Clients upload objects with signed URLs.
//
// A stored object is on disk: first its content is written, then its note. If storing fails, a file without
// a note can remain, which the next start removes. Equal contents are stored once, under any number of keys.
//
// The package is not a server: package local mounts Uploads under the management address.
//
// Read files.go first, then uploads.go; contents.go is for backups. The test suite of
// package blob tests that this package, the bucket in memory and S3 return the same results.
package files

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"log/slog"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"sync"
	"time"

	"github.com/gatewright/gatewright/shared/base/disk"
	"github.com/gatewright/gatewright/shared/core/blob"
)

// Notes stores the metadata of objects. The embedded engine implements it.
type Notes interface {
	// Note returns the note with a key, nil if there is none.
	Note(key string) ([]byte, error)
	// SetNotes stores and deletes notes, all or none, durably.
	SetNotes(set map[string][]byte, remove ...string) error
	// EachNote calls visit for the notes whose keys begin with prefix,
	// in the order of their keys, until visit returns false or an error.
	EachNote(prefix string, visit func(key string, value []byte) (bool, error)) error
}

// The keys of notes.
const (
	// objectNote is the prefix of an object's note.
	objectNote = "object/"
	// contentNote is the prefix of notes that say which object has a
	// content. The content's digest, "/" and the object's key follow.
	contentNote = "content/"
	// uploadedNote is the prefix of notes that say that an upload's URL was used. The object's key follows.
	uploadedNote = "uploaded/"
)

// note is the JSON value of an object's note.
type note struct {
	Digest   string    `json:"digest"`
	Size     int64     `json:"size"`
	Modified time.Time `json:"modified"`
	// ETag is "" if the ETag is the digest.
	ETag string `json:"etag,omitempty"`
}

// Bucket is a bucket in a folder. It is safe for concurrent use.
type Bucket struct {
	o Options
	// root is the folder. Files that are opened through root can be
	// deleted and replaced while they are open, even on Windows.
	root *os.Root
	// mu is held while notes and files change together. It also guards the fields below.
	mu sync.Mutex
	// retained is the number of active Retain calls. pendingRemoval has the deleted contents that are kept for them.
	retained       int
	pendingRemoval map[string]struct{}
	// uploading has the keys of the uploads in progress.
	uploading map[string]struct{}
}

// Options configure a Bucket. All fields except Verify and OnUpload are required.
type Options struct {
	// Dir is the folder. Open creates it.
	Dir   string
	Notes Notes
	Now   func() time.Time
	// Sign returns the signature of a text. The signature is always
	// the same for the same text, and nobody else can compute it.
	Sign func(ctx context.Context, text string) (string, error)
	// Verify reports, in constant time, whether Sign returns the signature for a text, or did so
	// under an earlier key. If it is nil, signatures are compared with the current result of Sign.
	Verify func(ctx context.Context, text, signature string) (bool, error)
	// Address is the base address of Uploads, with or without a trailing slash.
	Address string
	// RespondError responds to a request to Uploads with a problem document.
	RespondError func(w http.ResponseWriter, r *http.Request, status int, detail string)
	// Log receives the reasons why signatures could not be checked and uploads could not be stored.
	Log *slog.Logger
	// OnUpload, if not nil, is called after each upload that was stored.
	OnUpload func(blob.Object)
}

const (
	dirMode  fs.FileMode = 0o700
	fileMode fs.FileMode = 0o600
	// tempFolder is the folder for files that are being written.
	tempFolder = "unfinished"
)

// Open creates the folder, or opens the existing folder and removes files that a crash has left.
func Open(o Options) (*Bucket, error) {
	b := &Bucket{o: o, pendingRemoval: map[string]struct{}{}, uploading: map[string]struct{}{}}
	if err := os.RemoveAll(filepath.Join(o.Dir, tempFolder)); err != nil {
		return nil, fmt.Errorf("remove unfinished objects: %w", err)
	}
	if err := makeFolder(o.Dir); err != nil {
		return nil, fmt.Errorf("make the objects' folder: %w", err)
	}
	var err error
	if b.root, err = os.OpenRoot(o.Dir); err != nil {
		return nil, fmt.Errorf("open the objects' folder: %w", err)
	}
	return b, b.removeStrays()
}

// makeFolder creates the folder. If it is new, makeFolder syncs its parent, so that the folder survives a power cut. If
// the folder were lost, the next start would refuse the data, because its objects are missing.
func makeFolder(dir string) error {
	_, statErr := os.Lstat(dir)
	if err := os.MkdirAll(filepath.Join(dir, tempFolder), dirMode); err != nil {
		return err
	}
	if statErr == nil {
		return nil
	}
	return disk.SyncFolder(filepath.Dir(filepath.Clean(dir)))
}

// removeStrays removes files that no note names. Such files remain if a
// crash happens after the file is written and before its note is written.
func (b *Bucket) removeStrays() error {
	found, err := fs.Glob(b.root.FS(), "??/*")
	if err != nil {
		return fmt.Errorf("list the objects' files: %w", err)
	}
	for _, name := range found {
		if used, err := b.used(path.Base(name)); err != nil || used {
			if err != nil {
				return err
			}
			continue
		}
		if err := b.root.Remove(name); err != nil {
			return fmt.Errorf("remove a file that no object has: %w", err)
		}
	}
	return nil
}

// used reports whether any object has the content.
func (b *Bucket) used(digest string) (found bool, err error) {
	err = b.o.Notes.EachNote(contentNote+digest+"/", func(string, []byte) (bool, error) {
		found = true
		return false, nil
	})
	return found, err
}

// ContentPath returns the path of a content's file below the folder, with slashes.
func ContentPath(digest string) string { return digest[:2] + "/" + digest }

// Put works as blob.Bucket.Put does.
func (b *Bucket) Put(ctx context.Context, key string, body io.ReadSeeker) error {
	if err := blob.RefuseInDryRun(ctx); err != nil {
		return err
	}
	if _, err := b.Head(ctx, key); err == nil || !errors.Is(err, blob.ErrNotFound) {
		return err
	}
	_, err := b.store(ctx, blob.Object{Key: key, Modified: b.o.Now()}, body, nil)
	return err
}

// errExists is the error of store if there is an object at the key, or if one of the other notes exists.
var errExists = errors.New("files: there is an object at the key")

// store writes content, assigns it to o's key, and sets the other notes in the same step.
// If there is an object at the key, or if one of the notes exists, store changes nothing:
// it returns errExists, or no error if notes is nil.
func (b *Bucket) store(
	ctx context.Context, o blob.Object, body io.Reader, notes map[string][]byte,
) (blob.Object, error) {
	temp, n, raw, err := b.write(ctx, o, body)
	if temp != "" {
		defer func() { _ = os.Remove(temp) }()
	}
	if err != nil {
		return blob.Object{}, fmt.Errorf("put an object: %w", err)
	}
	key := o.Key
	set := map[string][]byte{objectNote + key: raw, contentNote + n.Digest + "/" + key: {}}
	for name, value := range notes {
		set[name] = value
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for name := range set {
		existing, err := b.o.Notes.Note(name)
		if err != nil {
			return blob.Object{}, err
		}
		if existing != nil {
			if notes == nil {
				return n.object(key), nil
			}
			return blob.Object{}, errExists
		}
	}
	if err := b.moveIntoPlace(filepath.Base(temp), n.Digest); err != nil {
		return blob.Object{}, fmt.Errorf("put an object: %w", err)
	}
	return n.object(key), b.o.Notes.SetNotes(set)
}

// write writes body to a temporary file, and returns the note of an object with this content, decoded and
// as JSON (raw). If the returned file name is not "", the caller must remove the file.
func (b *Bucket) write(
	ctx context.Context, o blob.Object, body io.Reader,
) (temp string, n note, raw []byte, err error) {
	file, err := os.CreateTemp(filepath.Join(b.o.Dir, tempFolder), "")
	if err != nil {
		return "", n, nil, err
	}
	digest := sha256.New()
	size, err := io.Copy(io.MultiWriter(file, digest), body)
	if err == nil {
		err = file.Sync()
	}
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = ctx.Err()
	}
	n = note{hex.EncodeToString(digest.Sum(nil)), size, o.Modified.UTC().Truncate(time.Second), o.ETag}
	if err == nil {
		raw, err = json.Marshal(n)
	}
	return file.Name(), n, raw, err
}

// moveIntoPlace moves a written file to the path of its digest. After that, the file survives a power cut.
func (b *Bucket) moveIntoPlace(temp, digest string) error {
	to := ContentPath(digest)
	dir := path.Dir(to)
	if _, err := b.root.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		if err := b.root.Mkdir(dir, dirMode); err != nil {
			return err
		}
		if err := disk.SyncFolder(b.o.Dir); err != nil {
			return err
		}
	}
	if err := b.root.Rename(path.Join(tempFolder, temp), to); err != nil {
		return err
	}
	return disk.SyncFolder(filepath.Join(b.o.Dir, dir))
}

func (n note) object(key string) blob.Object {
	return blob.Object{Key: key, Size: n.Size, ETag: cmp.Or(n.ETag, n.Digest), Modified: n.Modified}
}

func (b *Bucket) note(key string) (note, error) { return noteOf(b.o.Notes, key) }

// noteOf returns the note of the object at key, or blob.ErrNotFound if there is none.
func noteOf(notes Notes, key string) (note, error) {
	raw, err := notes.Note(objectNote + key)
	if err != nil {
		return note{}, err
	}
	if raw == nil {
		return note{}, blob.ErrNotFound
	}
	var n note
	if err := json.Unmarshal(raw, &n); err != nil || len(n.Digest) != 2*sha256.Size {
		return note{}, fmt.Errorf("read what is known of an object: %w: restore the last backup",
			errors.Join(err, fs.ErrInvalid))
	}
	return n, nil
}

// Get works as blob.Bucket.Get does.
func (b *Bucket) Get(ctx context.Context, key, etag string, limit int64) (io.ReadCloser, blob.Object, error) {
	if err := ctx.Err(); err != nil {
		return nil, blob.Object{}, err
	}
	b.mu.Lock() // so that no call deletes the object between reading the note and opening the file
	defer b.mu.Unlock()
	n, err := b.note(key)
	if err == nil {
		err = n.check(key, etag, limit)
	}
	if err != nil {
		return nil, blob.Object{}, err
	}
	file, err := b.root.Open(ContentPath(n.Digest))
	if err != nil {
		return nil, blob.Object{}, fmt.Errorf("get an object: %w: restore the last backup", err)
	}
	return newVerifyingReader(file, n), n.object(key), nil
}

// check returns an error if the object has another ETag than the requested one, or is too large.
func (n note) check(key, etag string, limit int64) error {
	switch {
	case etag != "" && etag != n.object(key).ETag:
		return blob.ErrChanged
	case n.Size > limit:
		return blob.ErrTooLarge
	}
	return nil
}

// Head works as blob.Bucket.Head does.
func (b *Bucket) Head(ctx context.Context, key string) (blob.Object, error) {
	if err := ctx.Err(); err != nil {
		return blob.Object{}, err
	}
	n, err := b.note(key)
	return n.object(key), err
}

// Delete works as blob.Bucket.Delete does.
func (b *Bucket) Delete(ctx context.Context, key string) error {
	if err := blob.RefuseInDryRun(ctx); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	n, err := b.note(key)
	if errors.Is(err, blob.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := b.o.Notes.SetNotes(nil, objectNote+key, contentNote+n.Digest+"/"+key); err != nil {
		return err
	}
	return b.removeUnused(n.Digest)
}

// removeUnused removes the file of a content if no object has the content. While Retain
// is active, it only records the digest, and release removes the file.
func (b *Bucket) removeUnused(digest string) error {
	if b.retained > 0 {
		b.pendingRemoval[digest] = struct{}{}
		return nil
	}
	if used, err := b.used(digest); err != nil || used {
		return err
	}
	if err := b.root.Remove(ContentPath(digest)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("delete an object: %w", err)
	}
	return nil
}

// List works as blob.Bucket.List does.
func (b *Bucket) List(ctx context.Context, prefix string) iter.Seq2[blob.Object, error] {
	return list(ctx, b.o.Notes, prefix)
}

func list(ctx context.Context, notes Notes, prefix string) iter.Seq2[blob.Object, error] {
	return func(yield func(blob.Object, error) bool) {
		err := ctx.Err()
		if err == nil {
			err = notes.EachNote(objectNote+prefix, func(name string, raw []byte) (bool, error) {
				var n note
				if err := json.Unmarshal(raw, &n); err != nil {
					return false, fmt.Errorf("list objects: %w", err)
				}
				return yield(n.object(name[len(objectNote):]), ctx.Err()) && ctx.Err() == nil, nil
			})
		}
		if err != nil {
			yield(blob.Object{}, err)
		}
	}
}

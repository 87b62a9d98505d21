// Package files keeps the product's objects in a folder: contents in files under
// their digest, what is known of them as notes of the embedded engine, so that
// `cp -r` and `tar` keep both. Clients upload to it by signed URLs.
//
// What it holds: an object that was answered is on disk, content first; one that
// was not may leave a file without a note, which the next start removes. Equal
// contents are kept once, whatever their keys.
//
// What it is not: a server. Package local mounts Uploads under the management
// address.
//
// Read files.go first, then uploads.go; contents.go is for backups. The suite of package blob holds it,
// memory and S3 to the same answers.
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

	"github.com/gatewright/gatewright/shared/blob"
	"github.com/gatewright/gatewright/shared/disk"
)

// Notes keep what is known of objects. The embedded engine does.
type Notes interface {
	// Note gives what is noted under a key, nil for nothing.
	Note(key string) ([]byte, error)
	// SetNotes notes and removes, all or nothing, and durably.
	SetNotes(set map[string][]byte, remove ...string) error
	// EachNote visits the notes under keys that begin with prefix, in their order.
	EachNote(prefix string, visit func(key string, value []byte) (bool, error)) error
}

// The keys of notes.
const (
	// objectNote leads to an object's note.
	objectNote = "object/"
	// contentNote, a digest, "/" and an object's key: the object has the content.
	contentNote = "content/"
	// uploadedNote is when an upload's URL was used.
	uploadedNote = "uploaded/"
)

// note is an object's, as JSON.
type note struct {
	Digest   string    `json:"digest"`
	Size     int64     `json:"size"`
	Modified time.Time `json:"modified"`
	// ETag is "" for the digest.
	ETag string `json:"etag,omitempty"`
}

// Bucket is a bucket in a folder. It is safe for concurrent use.
type Bucket struct {
	o Options
	// root is the folder. What it opens can be deleted and replaced meanwhile, on
	// Windows too.
	root *os.Root
	// mu is held while notes and files change together.
	mu sync.Mutex
	// retained counts those who want deleted contents kept, left are these.
	retained int
	left     map[string]struct{}
	// under are the keys to which clients upload now.
	under map[string]struct{}
}

// Options are what a Bucket takes from outside. All fields but Uploaded are needed.
type Options struct {
	// Dir is the folder, which is made.
	Dir   string
	Notes Notes
	Now   func() time.Time
	// Sign gives the signature of a text, always the same for the same, and none that anybody else could.
	Sign func(ctx context.Context, text string) (string, error)
	// Signed reports, in constant time, whether Sign gives or gave the signature of a text; nil compares with what it gives.
	Signed func(ctx context.Context, text, signature string) (bool, error)
	// Address is the base address under which Uploads is reached, with a slash at its
	// end or without.
	Address string
	// Refuse answers a request to Uploads with a problem document.
	Refuse func(w http.ResponseWriter, r *http.Request, status int, detail string)
	// Log hears why an upload could not be stored.
	Log *slog.Logger
	// Uploaded, if not nil, is called after each upload.
	Uploaded func(blob.Object)
}

const (
	dirMode  fs.FileMode = 0o700
	fileMode fs.FileMode = 0o600
	// unfinished is the folder of what is being written.
	unfinished = "unfinished"
)

// Open makes the folder, or goes on with the one that is there, and removes what
// a crash has left.
func Open(o Options) (*Bucket, error) {
	b := &Bucket{o: o, left: map[string]struct{}{}, under: map[string]struct{}{}}
	if err := os.RemoveAll(filepath.Join(o.Dir, unfinished)); err != nil {
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

// makeFolder makes the folder, and syncs it so that it survives a power cut: a start refuses
// data whose objects are missing.
func makeFolder(dir string) error {
	_, missing := os.Lstat(dir)
	if err := os.MkdirAll(filepath.Join(dir, unfinished), dirMode); err != nil {
		return err
	}
	if missing == nil {
		return nil
	}
	return disk.SyncFolder(filepath.Dir(filepath.Clean(dir)))
}

// removeStrays removes the files that no object has: a crash came between the
// file and the note.
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

// ContentPath is where a content's file lies below the folder, with slashes.
func ContentPath(digest string) string { return digest[:2] + "/" + digest }

// Put is blob.Bucket.Put.
func (b *Bucket) Put(ctx context.Context, key string, body io.ReadSeeker) error {
	if err := blob.Refuse(ctx); err != nil {
		return err
	}
	if _, err := b.Head(ctx, key); err == nil || !errors.Is(err, blob.ErrNotFound) {
		return err
	}
	_, err := b.store(ctx, blob.Object{Key: key, Modified: b.o.Now()}, body, nil)
	return err
}

// errThere is what store answers for a key that has an object.
var errThere = errors.New("files: there is an object at the key")

// store writes content, makes it that of o's key, and sets the other notes with
// it. It is errThere, or nil without notes of its own, where the key has an object.
func (b *Bucket) store(ctx context.Context, o blob.Object, body io.Reader, notes map[string][]byte) (blob.Object, error) {
	written, n, raw, err := b.write(ctx, o, body)
	if written != "" {
		defer func() { _ = os.Remove(written) }()
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
		there, err := b.o.Notes.Note(name)
		if err != nil {
			return blob.Object{}, err
		}
		if there != nil {
			if notes == nil {
				return n.object(key), nil
			}
			return blob.Object{}, errThere
		}
	}
	if err := b.place(filepath.Base(written), n.Digest); err != nil {
		return blob.Object{}, fmt.Errorf("put an object: %w", err)
	}
	return n.object(key), b.o.Notes.SetNotes(set)
}

// write writes content to a file that has no place yet, and makes the note of an object with it. The file is to be
// removed where it is named.
func (b *Bucket) write(ctx context.Context, o blob.Object, body io.Reader) (written string, n note, raw []byte, err error) {
	file, err := os.CreateTemp(filepath.Join(b.o.Dir, unfinished), "")
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

// place moves a written file to where its digest says, so that a power cut
// leaves it there.
func (b *Bucket) place(written, digest string) error {
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
	if err := b.root.Rename(path.Join(unfinished, written), to); err != nil {
		return err
	}
	return disk.SyncFolder(filepath.Join(b.o.Dir, dir))
}

func (n note) object(key string) blob.Object {
	return blob.Object{Key: key, Size: n.Size, ETag: cmp.Or(n.ETag, n.Digest), Modified: n.Modified}
}

func (b *Bucket) note(key string) (note, error) { return noteOf(b.o.Notes, key) }

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
		return note{}, fmt.Errorf("read what is known of an object: %w: restore the last backup", errors.Join(err, fs.ErrInvalid))
	}
	return n, nil
}

// Get is blob.Bucket.Get.
func (b *Bucket) Get(ctx context.Context, key, etag string, limit int64) (io.ReadCloser, blob.Object, error) {
	if err := ctx.Err(); err != nil {
		return nil, blob.Object{}, err
	}
	b.mu.Lock() // so that nobody deletes it between the note and the file
	defer b.mu.Unlock()
	n, err := b.note(key)
	if err == nil {
		err = n.suits(key, etag, limit)
	}
	if err != nil {
		return nil, blob.Object{}, err
	}
	file, err := b.root.Open(ContentPath(n.Digest))
	if err != nil {
		return nil, blob.Object{}, fmt.Errorf("get an object: %w: restore the last backup", err)
	}
	return newVerified(file, n), n.object(key), nil
}

// suits refuses an object that is another than the one asked for, or too large.
func (n note) suits(key, etag string, limit int64) error {
	switch {
	case etag != "" && etag != n.object(key).ETag:
		return blob.ErrChanged
	case n.Size > limit:
		return blob.ErrTooLarge
	}
	return nil
}

// Head is blob.Bucket.Head.
func (b *Bucket) Head(ctx context.Context, key string) (blob.Object, error) {
	if err := ctx.Err(); err != nil {
		return blob.Object{}, err
	}
	n, err := b.note(key)
	return n.object(key), err
}

// Delete is blob.Bucket.Delete.
func (b *Bucket) Delete(ctx context.Context, key string) error {
	if err := blob.Refuse(ctx); err != nil {
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
	return b.discard(n.Digest)
}

// discard removes the file of a content that no object has.
func (b *Bucket) discard(digest string) error {
	if b.retained > 0 {
		b.left[digest] = struct{}{}
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

// List is blob.Bucket.List.
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

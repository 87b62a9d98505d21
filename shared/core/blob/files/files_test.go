package files_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gatewright/gatewright/shared/base/dryrun"
	"github.com/gatewright/gatewright/shared/core/blob"
	"github.com/gatewright/gatewright/shared/core/blob/files"
	"github.com/gatewright/gatewright/shared/core/seal"
	"github.com/gatewright/gatewright/shared/core/store/embedded"
)

// fixture is a bucket with the options that it was opened with, its log and its clock.
type fixture struct {
	*files.Bucket
	options  files.Options
	log      bytes.Buffer
	now      time.Time
	mu       sync.Mutex    // for uploaded
	uploaded []blob.Object // the arguments of OnUpload
}

// rootKey is a key source with one key.
type rootKey struct{}

func (rootKey) Root(context.Context) ([]byte, error) { return make([]byte, 32), nil }

func newFixture(t *testing.T) *fixture {
	t.Helper()
	engine, err := embedded.Open(t.Context(), embedded.Options{Dir: "notes", FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = engine.Close() })
	fx := &fixture{now: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)}
	fx.options = files.Options{
		Dir: filepath.Join(t.TempDir(), "a [folder]"), Notes: engine, Now: func() time.Time {
			return fx.now
		}, Address: "http://api.example.test:9000/",
		Sign: seal.NewHasher(rootKey{}, "upload").Hash,
		RespondError: func(out http.ResponseWriter, _ *http.Request, status int, detail string) {
			http.Error(out, detail, status)
		},
		Log: slog.New(slog.NewTextHandler(&fx.log, nil)),
		OnUpload: func(o blob.Object) {
			fx.mu.Lock()
			defer fx.mu.Unlock()
			fx.uploaded = append(fx.uploaded, o)
		},
	}
	fx.open(t)
	return fx
}

// open opens the bucket with fx.options. A further call is like a restart.
func (fx *fixture) open(t *testing.T) {
	t.Helper()
	b, err := files.Open(fx.options)
	if err != nil {
		t.Fatal(err)
	}
	fx.Bucket = b
}

func (fx *fixture) put(t *testing.T, key, content string) {
	t.Helper()
	if err := fx.Put(t.Context(), key, strings.NewReader(content)); err != nil {
		t.Fatal(err)
	}
}

func (fx *fixture) get(t *testing.T, key string) (string, error) {
	t.Helper()
	body, _, err := fx.Get(t.Context(), key, "", 1<<30)
	if err != nil {
		return "", err
	}
	defer func() { _ = body.Close() }()
	content, err := io.ReadAll(body)
	return string(content), err
}

// stored returns the paths of all files in the bucket's folder, including files of uploads that have not ended.
func (fx *fixture) stored(t *testing.T) (out []string) {
	t.Helper()
	err := filepath.WalkDir(fx.options.Dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			out = append(out, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (fx *fixture) presign(t *testing.T, id string) string {
	t.Helper()
	address, err := fx.PresignPut(t.Context(), blob.UploadKey(id))
	if err != nil {
		t.Fatal(err)
	}
	return address
}

func (fx *fixture) send(t *testing.T, method, address string, body io.Reader) int {
	t.Helper()
	out := httptest.NewRecorder()
	fx.Uploads().ServeHTTP(out, httptest.NewRequestWithContext(t.Context(), method, address, body))
	return out.Code
}

// TestContentIsStoredOnce checks that equal contents share one file, and
// that the file is deleted with the last object that has the content.
func TestContentIsStoredOnce(t *testing.T) {
	fx := newFixture(t)
	for _, key := range []string{"sources/a", "sources/b"} {
		fx.put(t, key, "same")
	}
	for remaining := 2; remaining > 0; remaining-- {
		if found := fx.stored(t); len(found) != 1 {
			t.Fatalf("files with %d objects of the same content = %v, want one", remaining, found)
		}
		if err := fx.Delete(t.Context(), "sources/"+string(rune('a'+remaining-1))); err != nil {
			t.Fatal(err)
		}
	}
	if found := fx.stored(t); len(found) != 0 {
		t.Errorf("files without objects = %v, want none", found)
	}
}

// TestStrayFilesAreRemoved checks that the next start removes files that a crash left, and keeps the files of objects.
func TestStrayFilesAreRemoved(t *testing.T) {
	fx := newFixture(t)
	fx.put(t, "sources/a", "content")
	contentFile := fx.stored(t)[0]
	stray := filepath.Join(fx.options.Dir, "ab", "ab"+strings.Repeat("0", 62))
	for path, content := range map[string]string{stray: "x", filepath.Join(fx.options.Dir, "unfinished", "1"): "half"} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700),
			os.WriteFile(path, []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	fx.open(t)
	if found := fx.stored(t); len(found) != 1 || found[0] != contentFile {
		t.Errorf("files after Open() = %v, want only %s", found, contentFile)
	}
	if content, err := fx.get(t, "sources/a"); err != nil || content != "content" {
		t.Errorf("Get(sources/a) = %q, %v, want \"content\"", content, err)
	}
}

// TestOpenReaderSurvivesDelete deletes an object and stores its content again while the object is read. The reader must
// still read the content. Operating systems differ in how they handle open files.
func TestOpenReaderSurvivesDelete(t *testing.T) {
	fx := newFixture(t)
	fx.put(t, "sources/a", "content")
	body, _, err := fx.Get(t.Context(), "sources/a", "", 100)
	if err != nil {
		t.Fatal(err)
	}
	fx.put(t, "sources/b", "content")
	for _, key := range []string{"sources/a", "sources/b"} {
		if err := fx.Delete(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	if found := fx.stored(t); len(found) != 0 {
		t.Errorf("files without objects = %v, want none", found)
	}
	fx.put(t, "sources/a", "content")
	content, err := io.ReadAll(body)
	if err := errors.Join(err, body.Close()); err != nil || string(content) != "content" {
		t.Errorf("reading a deleted object = %q, %v, want \"content\"", content, err)
	}
}

// TestDamagedFileReturnsError checks that a read of a damaged file returns an error with advice.
func TestDamagedFileReturnsError(t *testing.T) {
	for name, damage := range map[string]func(path string) error{
		"a changed byte":   func(path string) error { return os.WriteFile(path, []byte("cantent"), 0o600) },
		"a truncated file": func(path string) error { return os.Truncate(path, 3) },
		"a longer file":    func(path string) error { return os.WriteFile(path, []byte("contents"), 0o600) },
		"no file":          os.Remove,
	} {
		fx := newFixture(t)
		fx.put(t, "sources/a", "content")
		if err := damage(fx.stored(t)[0]); err != nil {
			t.Fatal(err)
		}
		if content, err := fx.get(t, "sources/a"); err == nil || !strings.Contains(err.Error(), "restore the last backup") {
			t.Errorf("%s: Get(sources/a) = %q, %v, want an error with \"restore the last backup\"", name, content, err)
		}
		body, _, err := fx.Get(t.Context(), "sources/a", "", 1<<30)
		if err == nil {
			_, err = io.Copy(io.Discard, body) // uses WriteTo of a body that has it
			_ = body.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "restore the last backup") {
			t.Errorf("%s: io.Copy() of sources/a = %v, want an error with \"restore the last backup\"", name, err)
		}
	}
}

func TestUploadURLRefusesOtherRequests(t *testing.T) {
	fx := newFixture(t)
	address := fx.presign(t, "right")
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	withQuery := func(name, value string) string {
		q := u.Query()
		q.Set(name, value)
		return u.Scheme + "://" + u.Host + u.Path + "?" + q.Encode()
	}
	for name, tc := range map[string]struct {
		method, address string
		want            int
	}{
		"another method":   {http.MethodGet, address, 405},
		"another key":      {http.MethodPut, strings.Replace(address, "right", "wrong", 1), 403},
		"a deeper key":     {http.MethodPut, strings.Replace(address, "right", "right/x", 1), 404},
		"another prefix":   {http.MethodPut, strings.Replace(address, "uploads/", "sources/", 1), 404},
		"a later expiry":   {http.MethodPut, withQuery("expires", fmt.Sprint(fx.now.Unix()+90000)), 403},
		"no expiry":        {http.MethodPut, withQuery("expires", ""), 403},
		"no signature":     {http.MethodPut, address[:strings.Index(address, "?")], 403},
		"broken signature": {http.MethodPut, withQuery("signature", strings.Repeat("A", 43)), 403},
		"empty signature":  {http.MethodPut, withQuery("signature", ""), 403},
	} {
		if code := fx.send(t, tc.method, tc.address, strings.NewReader("x")); code != tc.want {
			t.Errorf("request with %s: status = %d, want %d", name, code, tc.want)
		}
	}
	if found := fx.stored(t); len(found)+len(fx.uploaded) != 0 {
		t.Errorf("refused requests leave the files %v and the uploads %v, want none", found, fx.uploaded)
	}
	if code := fx.send(t, http.MethodPut, address, strings.NewReader("body")); code != http.StatusOK ||
		len(fx.uploaded) != 1 || fx.uploaded[0].Key != blob.UploadKey("right") {
		t.Errorf("PUT to the upload URL: status = %d, uploads %+v, want %d, and one of %s",
			code, fx.uploaded, http.StatusOK, blob.UploadKey("right"))
	}
}

// TestUploadURLWorksOnce checks that a URL does not work again, even after its object
// was deleted. It also checks that only one of several concurrent uploads succeeds.
func TestUploadURLWorksOnce(t *testing.T) {
	fx := newFixture(t)
	address := fx.presign(t, "id")
	const senders = 8
	codes := make(chan int, senders)
	var wg sync.WaitGroup
	for i := range senders {
		wg.Go(func() { codes <- fx.send(t, http.MethodPut, address, strings.NewReader(fmt.Sprint("body ", i))) })
	}
	wg.Wait()
	close(codes)
	count := map[int]int{}
	for code := range codes {
		count[code]++
	}
	if count[http.StatusOK] != 1 || count[http.StatusConflict] != senders-1 || len(fx.stored(t)) != 1 ||
		len(fx.uploaded) != 1 {
		t.Errorf("%d uploads to one URL: statuses %v, %d files, uploads %v, "+
			"want status 200 once and else 409, one file and one upload",
			senders, count, len(fx.stored(t)), fx.uploaded)
	}
	if err := fx.Delete(t.Context(), blob.UploadKey("id")); err != nil {
		t.Fatal(err)
	}
	fx.open(t)
	if err := fx.DeleteExpiredNotes(); err != nil {
		t.Fatal(err)
	}
	if code := fx.send(t, http.MethodPut, address, strings.NewReader("later")); code != http.StatusConflict {
		t.Errorf("PUT to a used URL without its object: status = %d, want %d", code, http.StatusConflict)
	}
}

// TestUploadURLExpires checks that a URL works until it expires. It also checks when the note of a used URL is deleted.
func TestUploadURLExpires(t *testing.T) {
	fx := newFixture(t)
	first, second := fx.presign(t, "first"), fx.presign(t, "second")
	fx.now = fx.now.Add(blob.UploadValidity - time.Second)
	if code := fx.send(t, http.MethodPut, first, strings.NewReader("x")); code != http.StatusOK {
		t.Errorf("PUT a second before the URL expires: status = %d, want %d", code, http.StatusOK)
	}
	fx.now = fx.now.Add(time.Second)
	if code := fx.send(t, http.MethodPut, second, strings.NewReader("x")); code != http.StatusForbidden {
		t.Errorf("PUT when the URL expires: status = %d, want %d", code, http.StatusForbidden)
	}
	for want := 1; want >= 0; want-- { // the note of the used URL is kept until a second after the URL has expired
		if err := fx.DeleteExpiredNotes(); err != nil {
			t.Fatal(err)
		}
		notes := 0
		err := fx.options.Notes.EachNote("uploaded/", func(string, []byte) (bool, error) { notes++; return true, nil })
		if err != nil || notes != want {
			t.Errorf("DeleteExpiredNotes() at %v leaves %d notes, %v, want %d", fx.now, notes, err, want)
		}
		fx.now = fx.now.Add(time.Second)
	}
}

// zeros is a reader of an endless body.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// TestUploadSizeLimit uploads bodies of the maximum size and larger bodies, with and without a Content-Length.
func TestUploadSizeLimit(t *testing.T) {
	const limit = 100 << 20
	f := newFixture(t)
	for id, body := range map[string]io.Reader{
		"with-length":    bytes.NewReader(make([]byte, limit)),
		"without-length": io.LimitReader(zeros{}, limit),
	} {
		if code := f.send(t, http.MethodPut, f.presign(t, id), body); code != http.StatusOK {
			t.Errorf("PUT of 100 MiB (%s): status = %d, want %d", id, code, http.StatusOK)
		}
	}
	for name, body := range map[string]io.Reader{
		"with-length":    bytes.NewReader(make([]byte, limit+1)),
		"without-length": io.LimitReader(zeros{}, limit+1),
	} {
		fx := newFixture(t)
		if code := fx.send(t, http.MethodPut, fx.presign(t, "id"), body); code != http.StatusRequestEntityTooLarge {
			t.Errorf("PUT of 100 MiB and one byte (%s): status = %d, want %d", name, code, http.StatusRequestEntityTooLarge)
		}
		if found := fx.stored(t); len(found) != 0 {
			t.Errorf("PUT of 100 MiB and one byte (%s) leaves the files %v, want none", name, found)
		}
	}
}

// TestDeletedContentIsRetained checks that the contents of deleted objects are kept during copies, even if two copies
// are made at the same time. Afterwards the contents are deleted, except contents that were stored again meanwhile.
func TestDeletedContentIsRetained(t *testing.T) {
	fx := newFixture(t)
	fx.put(t, "a", "one")
	fx.put(t, "b", "two")
	first, second := fx.Retain(), fx.Retain()
	for _, key := range []string{"a", "b"} {
		if err := fx.Delete(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(first(), first()); err != nil { // the second call must not end the other copy
		t.Fatal(err)
	}
	if n := len(fx.stored(t)); n != 2 {
		t.Errorf("%d files during the second copy, want 2", n)
	}
	fx.put(t, "c", "two")
	if err := second(); err != nil {
		t.Fatal(err)
	}
	if got, err := fx.get(t, "c"); err != nil || got != "two" || len(fx.stored(t)) != 1 {
		t.Errorf("Get(c) = %q, %v with %d files, want \"two\" with one file", got, err, len(fx.stored(t)))
	}
	if err := fx.Delete(t.Context(), "c"); err != nil {
		t.Fatal(err)
	}
	if n := len(fx.stored(t)); n != 0 {
		t.Errorf("%d files after the copies and Delete(c), want 0", n)
	}
}

func TestContentsAreVisitedOnce(t *testing.T) {
	fx := newFixture(t)
	for key, content := range map[string]string{"a": "one", "b/c": "one", "d": "three"} {
		fx.put(t, key, content)
	}
	got := map[string]int64{}
	err := files.Contents(fx.options.Notes, func(digest string, bytes int64) error {
		if _, duplicate := got[digest]; duplicate {
			t.Errorf("Contents() visits %s twice, want once", digest)
		}
		got[digest] = bytes
		if _, err := os.Stat(filepath.Join(fx.options.Dir, filepath.FromSlash(files.ContentPath(digest)))); err != nil {
			t.Errorf("file of the content %s: %v, want it to exist", digest, err)
		}
		return nil
	})
	if err != nil || len(got) != 2 {
		t.Errorf("Contents() visits %v, %v, want 2 contents", got, err)
	}
	stop := errors.New("stop")
	if err := files.Contents(fx.options.Notes, func(string, int64) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("Contents() with a failing function = %v, want %v", err, stop)
	}
}

// TestImportedObjectKeepsItsETag checks that an object from another
// store keeps its ETag and its time, because records contain these.
func TestImportedObjectKeepsItsETag(t *testing.T) {
	fx := newFixture(t)
	want := blob.Object{Key: "uploads/a", Size: 3, ETag: "of another store", Modified: fx.now.Add(-time.Hour)}
	if err := fx.Import(t.Context(), want, strings.NewReader("one")); err != nil {
		t.Fatalf("Import(%s) = %v, want nil", want.Key, err)
	}
	fx.open(t)
	if got, err := fx.Head(t.Context(), want.Key); err != nil || got != want {
		t.Errorf("Head(%s) = %+v, %v, want %+v", want.Key, got, err, want)
	}
	body, got, err := fx.Get(t.Context(), want.Key, want.ETag, 10)
	if err != nil || got != want {
		t.Fatalf("Get(%s) with its ETag = %+v, %v, want %+v", want.Key, got, err, want)
	}
	if content, err := io.ReadAll(body); err != nil || string(content) != "one" {
		t.Errorf("content of %s = %q, %v, want \"one\"", want.Key, content, err)
	}
	_ = body.Close()
	if _, _, err := fx.Get(t.Context(), want.Key, "another", 10); !errors.Is(err, blob.ErrChanged) {
		t.Errorf("Get(%s) with another ETag = %v, want %v", want.Key, err, blob.ErrChanged)
	}
	if err := fx.Import(t.Context(), want, strings.NewReader("two")); err == nil {
		t.Errorf("Import(%s) over an object succeeds, want an error", want.Key)
	}
}

// TestDryRunChangesNoFiles checks that a dry run cannot store or delete
// objects, and that it receives an upload address whose host does not exist.
func TestDryRunChangesNoFiles(t *testing.T) {
	fx := newFixture(t)
	ctx, _ := dryrun.Begin(t.Context())
	if err := fx.Put(ctx, blob.SourceKey("1"), strings.NewReader("x")); !errors.Is(err, dryrun.ErrEffect) {
		t.Errorf("Put() in a dry run = %v, want %v", err, dryrun.ErrEffect)
	}
	if err := fx.Delete(ctx, blob.SourceKey("1")); !errors.Is(err, dryrun.ErrEffect) {
		t.Errorf("Delete() in a dry run = %v, want %v", err, dryrun.ErrEffect)
	}
	if address, err := fx.PresignPut(ctx, blob.UploadKey("1")); err != nil ||
		address != "https://dry-run.invalid/uploads/1" {
		t.Errorf("PresignPut() in a dry run = %q, %v, want https://dry-run.invalid/uploads/1", address, err)
	}
	if found := fx.stored(t); len(found) != 0 {
		t.Errorf("files after a dry run = %v, want none", found)
	}
}

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

	"github.com/gatewright/gatewright/shared/blob"
	"github.com/gatewright/gatewright/shared/blob/files"
	"github.com/gatewright/gatewright/shared/dryrun"
	"github.com/gatewright/gatewright/shared/seal"
	"github.com/gatewright/gatewright/shared/store/embedded"
)

// world is a bucket, its folder and its time.
type world struct {
	*files.Bucket
	options  files.Options
	log      bytes.Buffer
	now      time.Time
	mu       sync.Mutex
	uploaded []blob.Object
}

// rootKey is a key source with one key.
type rootKey struct{}

func (rootKey) Root(context.Context) ([]byte, error) { return make([]byte, 32), nil }

func newWorld(t *testing.T) *world {
	t.Helper()
	engine, err := embedded.Open(t.Context(), embedded.Options{Dir: "notes", FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = engine.Close() })
	w := &world{now: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)}
	w.options = files.Options{
		Dir: filepath.Join(t.TempDir(), "a [folder]"), Notes: engine, Now: func() time.Time { return w.now }, Address: "http://api.example.test:9000/",
		Sign: seal.NewHasher(rootKey{}, "upload").Hash,
		Refuse: func(out http.ResponseWriter, _ *http.Request, status int, detail string) {
			http.Error(out, detail, status)
		},
		Log: slog.New(slog.NewTextHandler(&w.log, nil)),
		Uploaded: func(o blob.Object) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.uploaded = append(w.uploaded, o)
		},
	}
	w.open(t)
	return w
}

func (w *world) open(t *testing.T) {
	t.Helper()
	b, err := files.Open(w.options)
	if err != nil {
		t.Fatal(err)
	}
	w.Bucket = b
}

func (w *world) put(t *testing.T, key, content string) {
	t.Helper()
	if err := w.Put(t.Context(), key, strings.NewReader(content)); err != nil {
		t.Fatal(err)
	}
}

func (w *world) get(t *testing.T, key string) (string, error) {
	t.Helper()
	body, _, err := w.Get(t.Context(), key, "", 1<<30)
	if err != nil {
		return "", err
	}
	defer func() { _ = body.Close() }()
	content, err := io.ReadAll(body)
	return string(content), err
}

// stored are the files that hold content.
func (w *world) stored(t *testing.T) (out []string) {
	t.Helper()
	err := filepath.WalkDir(w.options.Dir, func(path string, d fs.DirEntry, err error) error {
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

func (w *world) issue(t *testing.T, id string) string {
	t.Helper()
	address, err := w.PresignPut(t.Context(), blob.UploadKey(id))
	if err != nil {
		t.Fatal(err)
	}
	return address
}

func (w *world) send(t *testing.T, method, address string, body io.Reader) int {
	t.Helper()
	out := httptest.NewRecorder()
	w.Uploads().ServeHTTP(out, httptest.NewRequestWithContext(t.Context(), method, address, body))
	return out.Code
}

// Equal contents are one file, which goes with the last object that has it.
func TestContentIsKeptOnce(t *testing.T) {
	w := newWorld(t)
	for _, key := range []string{"sources/a", "sources/b"} {
		w.put(t, key, "same")
	}
	for left := 2; left > 0; left-- {
		if found := w.stored(t); len(found) != 1 {
			t.Fatalf("with %d objects there are the files %v", left, found)
		}
		if err := w.Delete(t.Context(), "sources/"+string(rune('a'+left-1))); err != nil {
			t.Fatal(err)
		}
	}
	if found := w.stored(t); len(found) != 0 {
		t.Errorf("without objects there are the files %v", found)
	}
}

// What a crash left is removed at the next start, and what has an object stays.
func TestStraysGo(t *testing.T) {
	w := newWorld(t)
	w.put(t, "sources/a", "content")
	kept := w.stored(t)[0]
	stray := filepath.Join(w.options.Dir, "ab", "ab"+strings.Repeat("0", 62))
	for path, content := range map[string]string{stray: "x", filepath.Join(w.options.Dir, "unfinished", "1"): "half"} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	w.open(t)
	if found := w.stored(t); len(found) != 1 || found[0] != kept {
		t.Errorf("there are %v, want %s alone", found, kept)
	}
	if content, err := w.get(t, "sources/a"); err != nil || content != "content" {
		t.Errorf("the object holds %q (%v)", content, err)
	}
}

// An object may be deleted, and its content stored again, while somebody reads it:
// systems differ in what they do to open files.
func TestReadersHaveTheContentTheyOpened(t *testing.T) {
	w := newWorld(t)
	w.put(t, "sources/a", "content")
	body, _, err := w.Get(t.Context(), "sources/a", "", 100)
	if err != nil {
		t.Fatal(err)
	}
	w.put(t, "sources/b", "content")
	for _, key := range []string{"sources/a", "sources/b"} {
		if err := w.Delete(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	if found := w.stored(t); len(found) != 0 {
		t.Errorf("without objects there are the files %v", found)
	}
	w.put(t, "sources/a", "content")
	content, err := io.ReadAll(body)
	if err := errors.Join(err, body.Close()); err != nil || string(content) != "content" {
		t.Errorf("read %q (%v)", content, err)
	}
}

// A damaged file is an error that says what to do, and no other content.
func TestDamagedFileIsNoContent(t *testing.T) {
	for name, damage := range map[string]func(path string) error{
		"flipped": func(path string) error { return os.WriteFile(path, []byte("cantent"), 0o600) },
		"cut":     func(path string) error { return os.Truncate(path, 3) },
		"longer":  func(path string) error { return os.WriteFile(path, []byte("contents"), 0o600) },
		"gone":    os.Remove,
	} {
		w := newWorld(t)
		w.put(t, "sources/a", "content")
		if err := damage(w.stored(t)[0]); err != nil {
			t.Fatal(err)
		}
		if content, err := w.get(t, "sources/a"); err == nil || !strings.Contains(err.Error(), "restore the last backup") {
			t.Errorf("%s: read %q (%v)", name, content, err)
		}
	}
}

func TestUploadURLWorksForItsOwnRequestAlone(t *testing.T) {
	w := newWorld(t)
	address := w.issue(t, "right")
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	with := func(name, value string) string {
		q := u.Query()
		q.Set(name, value)
		return u.Scheme + "://" + u.Host + u.Path + "?" + q.Encode()
	}
	for name, try := range map[string]struct {
		method, address string
		want            int
	}{
		"another method":   {http.MethodGet, address, 405},
		"another key":      {http.MethodPut, strings.Replace(address, "right", "wrong", 1), 403},
		"a deeper key":     {http.MethodPut, strings.Replace(address, "right", "right/x", 1), 404},
		"another prefix":   {http.MethodPut, strings.Replace(address, "uploads/", "sources/", 1), 404},
		"a later expiry":   {http.MethodPut, with("expires", fmt.Sprint(w.now.Unix()+90000)), 403},
		"no expiry":        {http.MethodPut, with("expires", ""), 403},
		"no signature":     {http.MethodPut, address[:strings.Index(address, "?")], 403},
		"broken signature": {http.MethodPut, with("signature", strings.Repeat("A", 43)), 403},
		"empty signature":  {http.MethodPut, with("signature", ""), 403},
	} {
		if code := w.send(t, try.method, try.address, strings.NewReader("x")); code != try.want {
			t.Errorf("%s: answered %d, want %d", name, code, try.want)
		}
	}
	if found := w.stored(t); len(found)+len(w.uploaded) != 0 {
		t.Errorf("after the refused requests there are %v, and told is %v", found, w.uploaded)
	}
	if code := w.send(t, http.MethodPut, address, strings.NewReader("body")); code != http.StatusOK || len(w.uploaded) != 1 || w.uploaded[0].Key != blob.UploadKey("right") {
		t.Errorf("the URL as it is: answered %d, told %+v", code, w.uploaded)
	}
}

// A URL works once: not again after its object was taken away, and for one of
// those who use it at the same time.
func TestUploadURLWorksOnce(t *testing.T) {
	w := newWorld(t)
	address := w.issue(t, "id")
	const senders = 8
	codes := make(chan int, senders)
	var all sync.WaitGroup
	for i := range senders {
		all.Go(func() { codes <- w.send(t, http.MethodPut, address, strings.NewReader(fmt.Sprint("body ", i))) })
	}
	all.Wait()
	close(codes)
	count := map[int]int{}
	for code := range codes {
		count[code]++
	}
	if count[http.StatusOK] != 1 || count[http.StatusConflict] != senders-1 || len(w.stored(t)) != 1 || len(w.uploaded) != 1 {
		t.Errorf("answered %v, told %v", count, w.uploaded)
	}
	if err := w.Delete(t.Context(), blob.UploadKey("id")); err != nil {
		t.Fatal(err)
	}
	w.open(t)
	if err := w.Forget(); err != nil {
		t.Fatal(err)
	}
	if code := w.send(t, http.MethodPut, address, strings.NewReader("later")); code != http.StatusConflict {
		t.Errorf("after its object is gone it is answered %d", code)
	}
}

func TestUploadURLEnds(t *testing.T) {
	w := newWorld(t)
	first, second := w.issue(t, "first"), w.issue(t, "second")
	w.now = w.now.Add(blob.UploadValidity - time.Second)
	if code := w.send(t, http.MethodPut, first, strings.NewReader("x")); code != http.StatusOK {
		t.Errorf("a second before its end it is answered %d", code)
	}
	w.now = w.now.Add(time.Second)
	if code := w.send(t, http.MethodPut, second, strings.NewReader("x")); code != http.StatusForbidden {
		t.Errorf("at its end it is answered %d", code)
	}
	for want := 1; want >= 0; want-- {
		if err := w.Forget(); err != nil {
			t.Fatal(err)
		}
		used := 0
		err := w.options.Notes.EachNote("uploaded/", func(string, []byte) (bool, error) { used++; return true, nil })
		if err != nil || used != want {
			t.Errorf("at %v there are %d used URLs noted, want %d (%v)", w.now, used, want, err)
		}
		w.now = w.now.Add(time.Second)
	}
}

// zeros is an archive of any length.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// The bound holds for what says its length and for what does not.
func TestUploadHasABound(t *testing.T) {
	const most = 100 << 20
	whole := newWorld(t)
	for id, body := range map[string]io.Reader{"told": bytes.NewReader(make([]byte, most)), "streamed": io.LimitReader(zeros{}, most)} {
		if code := whole.send(t, http.MethodPut, whole.issue(t, id), body); code != http.StatusOK {
			t.Errorf("%s: 100 MiB are answered %d", id, code)
		}
	}
	for name, body := range map[string]io.Reader{"told": bytes.NewReader(make([]byte, most+1)), "streamed": io.LimitReader(zeros{}, most+1)} {
		w := newWorld(t)
		if code := w.send(t, http.MethodPut, w.issue(t, "id"), body); code != http.StatusRequestEntityTooLarge {
			t.Errorf("%s: 100 MiB and a byte are answered %d", name, code)
		}
		if found := w.stored(t); len(found) != 0 {
			t.Errorf("%s: it left %v", name, found)
		}
	}
}

// While somebody copies, the contents of deleted objects stay, also of those that
// two copiers wait for; then they go, but for what came back meanwhile.
func TestDeletedContentIsRetained(t *testing.T) {
	w := newWorld(t)
	w.put(t, "a", "one")
	w.put(t, "b", "two")
	first, second := w.Retain(), w.Retain()
	for _, key := range []string{"a", "b"} {
		if err := w.Delete(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(first(), first()); err != nil {
		t.Fatal(err)
	}
	if n := len(w.stored(t)); n != 2 {
		t.Errorf("of two contents %d are left while somebody copies", n)
	}
	w.put(t, "c", "two")
	if err := second(); err != nil {
		t.Fatal(err)
	}
	if got, err := w.get(t, "c"); err != nil || got != "two" || len(w.stored(t)) != 1 {
		t.Errorf("what came back reads %q (%v), of %d contents", got, err, len(w.stored(t)))
	}
	if err := w.Delete(t.Context(), "c"); err != nil {
		t.Fatal(err)
	}
	if n := len(w.stored(t)); n != 0 {
		t.Errorf("%d contents are left afterwards", n)
	}
}

func TestContentsAreVisitedOnce(t *testing.T) {
	w := newWorld(t)
	for key, content := range map[string]string{"a": "one", "b/c": "one", "d": "three"} {
		w.put(t, key, content)
	}
	got := map[string]int64{}
	err := files.Contents(w.options.Notes, func(digest string, bytes int64) error {
		if _, twice := got[digest]; twice {
			t.Errorf("%s is visited twice", digest)
		}
		got[digest] = bytes
		if _, err := os.Stat(filepath.Join(w.options.Dir, filepath.FromSlash(files.ContentPath(digest)))); err != nil {
			t.Error(err)
		}
		return nil
	})
	if err != nil || len(got) != 2 {
		t.Errorf("%v are visited (%v)", got, err)
	}
	stop := errors.New("stop")
	if err := files.Contents(w.options.Notes, func(string, int64) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("an error of who visits is answered with %v", err)
	}
}

// What another store had keeps its ETag and its time, by which records name it.
func TestImportedObjectKeepsItsETag(t *testing.T) {
	w := newWorld(t)
	want := blob.Object{Key: "uploads/a", Size: 3, ETag: "of another store", Modified: w.now.Add(-time.Hour)}
	if err := w.Import(t.Context(), want, strings.NewReader("one")); err != nil {
		t.Fatal(err)
	}
	w.open(t)
	if got, err := w.Head(t.Context(), want.Key); err != nil || got != want {
		t.Errorf("it is %+v (%v)", got, err)
	}
	body, got, err := w.Get(t.Context(), want.Key, want.ETag, 10)
	if err != nil || got != want {
		t.Fatalf("under its ETag it is %+v (%v)", got, err)
	}
	if content, err := io.ReadAll(body); err != nil || string(content) != "one" {
		t.Errorf("it reads %q (%v)", content, err)
	}
	_ = body.Close()
	if _, _, err := w.Get(t.Context(), want.Key, "another", 10); !errors.Is(err, blob.ErrChanged) {
		t.Errorf("another ETag is answered with %v", err)
	}
	if err := w.Import(t.Context(), want, strings.NewReader("two")); err == nil {
		t.Error("it was replaced")
	}
}

// TestADryRunLeavesTheFilesAsTheyAre, and is given an address that leads nowhere.
func TestADryRunLeavesTheFilesAsTheyAre(t *testing.T) {
	w := newWorld(t)
	ctx, _ := dryrun.Begin(t.Context())
	if err := w.Put(ctx, blob.SourceKey("1"), strings.NewReader("x")); !errors.Is(err, dryrun.ErrEffect) {
		t.Errorf("a put: %v", err)
	}
	if err := w.Delete(ctx, blob.SourceKey("1")); !errors.Is(err, dryrun.ErrEffect) {
		t.Errorf("a deletion: %v", err)
	}
	if address, err := w.PresignPut(ctx, blob.UploadKey("1")); err != nil || address != "https://dry-run.invalid/uploads/1" {
		t.Errorf("an upload goes to %s, %v", address, err)
	}
}

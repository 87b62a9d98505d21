package blob_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gatewright/gatewright/shared/blob"
	"github.com/gatewright/gatewright/shared/blob/files"
	"github.com/gatewright/gatewright/shared/store/embedded"
)

// bucket is what both implementations answer alike.
type bucket interface {
	Put(ctx context.Context, key string, body io.ReadSeeker) error
	Replace(ctx context.Context, key, etag string, body io.ReadSeeker) error
	Get(ctx context.Context, key, etag string, limit int64) (io.ReadCloser, blob.Object, error)
	Head(ctx context.Context, key string) (blob.Object, error)
	Delete(ctx context.Context, key string) error
	List(ctx context.Context, prefix string) iter.Seq2[blob.Object, error]
	PresignPut(ctx context.Context, key string) (string, error)
}

var (
	_ bucket = (*blob.Memory)(nil)
	_ bucket = (*blob.Bucket)(nil)
)

// subject is a bucket under test and the way a client uploads to it.
type subject struct {
	bucket
	upload func(t *testing.T, key string, body []byte)
	s3     bool // speaks HTTP
	once   bool // takes an upload once
}

// testConfig has the credentials that local S3 emulators are started with.
func testConfig() aws.Config {
	credential := func(name, otherwise string) string {
		if v := os.Getenv(name); v != "" {
			return v
		}
		return otherwise
	}
	return aws.Config{Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider(
		credential("AWS_ACCESS_KEY_ID", "local"), credential("AWS_SECRET_ACCESS_KEY", "local-secret"), "")}
}

// eachBucket runs test over the bucket in memory and over an S3.
func eachBucket(t *testing.T, test func(t *testing.T, b subject)) {
	t.Run("memory", func(t *testing.T) {
		m := blob.NewMemory(time.Now)
		test(t, subject{bucket: m, upload: func(_ *testing.T, key string, body []byte) { m.Upload(key, body) }})
	})
	t.Run("files", func(t *testing.T) {
		engine, err := embedded.Open(t.Context(), embedded.Options{Dir: "notes", FS: vfs.NewMem()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = engine.Close() })
		b, err := files.Open(files.Options{
			Dir: t.TempDir(), Notes: engine, Now: time.Now, Address: "http://uploads.example.test",
			Sign: func(_ context.Context, text string) (string, error) { return text, nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		test(t, subject{bucket: b, once: true, upload: func(t *testing.T, key string, body []byte) {
			t.Helper()
			address, err := b.PresignPut(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			w := httptest.NewRecorder()
			if b.Uploads().ServeHTTP(w, httptest.NewRequest(http.MethodPut, address, bytes.NewReader(body))); w.Code != http.StatusOK {
				t.Fatalf("the upload was answered %d", w.Code)
			}
		}})
	})
	t.Run("s3", func(t *testing.T) {
		name := fmt.Sprintf("suite-%d", time.Now().UnixNano())
		b := blob.New(testConfig(), blob.Options{Name: name, Endpoint: os.Getenv(endpointVar)})
		for range 2 { // to create it again is no error
			if err := b.Create(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		test(t, subject{bucket: b, s3: true, upload: func(t *testing.T, key string, body []byte) {
			t.Helper()
			address, err := b.PresignPut(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			if code := send(t, http.MethodPut, address, body); code != http.StatusOK {
				t.Fatalf("the upload was answered %d", code)
			}
		}})
	})
}

// send makes a request as curl -T does: no header that S3 knows of.
func send(t *testing.T, method, address string, body []byte) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, address, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	return response.StatusCode
}

func read(t *testing.T, b bucket, key, etag string) (string, blob.Object) {
	t.Helper()
	body, o, err := b.Get(t.Context(), key, etag, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(body)
	if err := errors.Join(err, body.Close()); err != nil {
		t.Fatal(err)
	}
	return string(content), o
}

func TestObjectIsWrittenOnce(t *testing.T) {
	eachBucket(t, func(t *testing.T, b subject) {
		key := blob.ArtifactKey("abc")
		for _, content := range []string{"first", "second"} {
			if err := b.Put(t.Context(), key, strings.NewReader(content)); err != nil {
				t.Fatal(err)
			}
		}
		content, o := read(t, b, key, "")
		if content != "first" {
			t.Errorf("the object holds %q, want what was put first", content)
		}
		head, err := b.Head(t.Context(), key)
		if err != nil || head.Size != 5 || head.ETag == "" || head.ETag != o.ETag || head.Key != key || time.Since(head.Modified) > time.Minute {
			t.Errorf("head says %+v, %v; get said %+v", head, err, o)
		}
	})
}

// TestObjectIsReplacedByWhoHasSeenIt, and by nobody else: another one, and one that is gone, stay what they are.
func TestObjectIsReplacedByWhoHasSeenIt(t *testing.T) {
	eachBucket(t, func(t *testing.T, b subject) {
		key := blob.ArtifactKey("abc")
		if err := b.Put(t.Context(), key, strings.NewReader("first")); err != nil {
			t.Fatal(err)
		}
		_, first := read(t, b, key, "")
		for range 2 { // the second time another one is there
			err := b.Replace(t.Context(), key, first.ETag, strings.NewReader("second"))
			content, now := read(t, b, key, "")
			if content != "second" || now.ETag == first.ETag || now.Size != 6 {
				t.Errorf("the object holds %q, %+v", content, now)
			}
			if err != nil && !errors.Is(err, blob.ErrChanged) {
				t.Error(err)
			}
		}
		if err := b.Replace(t.Context(), key, first.ETag, strings.NewReader("third")); !errors.Is(err, blob.ErrChanged) {
			t.Errorf("who has seen another one is answered %v", err)
		}
		if content, _ := read(t, b, key, ""); content != "second" {
			t.Errorf("the object holds %q", content)
		}
		if err := b.Delete(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		if err := b.Replace(t.Context(), key, first.ETag, strings.NewReader("third")); !errors.Is(err, blob.ErrNotFound) {
			t.Errorf("of one that is gone is answered %v", err)
		}
		if _, err := b.Head(t.Context(), key); !errors.Is(err, blob.ErrNotFound) {
			t.Errorf("it is there again: %v", err)
		}
	})
}

func TestAbsentObjectIsNotFound(t *testing.T) {
	eachBucket(t, func(t *testing.T, b subject) {
		if _, _, err := b.Get(t.Context(), "absent", "", 1); !errors.Is(err, blob.ErrNotFound) {
			t.Errorf("get: %v", err)
		}
		if _, _, err := b.Get(t.Context(), "absent", "etag", 1); !errors.Is(err, blob.ErrNotFound) {
			t.Errorf("get with an etag: %v", err)
		}
		if _, err := b.Head(t.Context(), "absent"); !errors.Is(err, blob.ErrNotFound) {
			t.Errorf("head: %v", err)
		}
		if err := b.Delete(t.Context(), "absent"); err != nil {
			t.Errorf("delete: %v", err)
		}
	})
}

func TestReplacedUploadIsNoticed(t *testing.T) {
	eachBucket(t, func(t *testing.T, b subject) {
		key := blob.UploadKey("id")
		b.upload(t, key, []byte("first"))
		first, err := b.Head(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		if content, _ := read(t, b, key, first.ETag); content != "first" {
			t.Errorf("read %q", content)
		}
		if b.once {
			return
		}
		b.upload(t, key, []byte("other"))
		if _, _, err := b.Get(t.Context(), key, first.ETag, 100); !errors.Is(err, blob.ErrChanged) {
			t.Errorf("get of a replaced upload: %v", err)
		}
	})
}

func TestObjectOverTheLimitIsRefused(t *testing.T) {
	eachBucket(t, func(t *testing.T, b subject) {
		if err := b.Put(t.Context(), "ten", strings.NewReader("0123456789")); err != nil {
			t.Fatal(err)
		}
		for limit, want := range map[int64]error{9: blob.ErrTooLarge, 10: nil, 11: nil} {
			body, _, err := b.Get(t.Context(), "ten", "", limit)
			if !errors.Is(err, want) {
				t.Errorf("limit %d: %v, want %v", limit, err, want)
			}
			if err == nil {
				if content, err := io.ReadAll(body); err != nil || len(content) != 10 {
					t.Errorf("limit %d: read %q, %v", limit, content, err)
				}
				if err := body.Close(); err != nil {
					t.Error(err)
				}
			}
		}
	})
}

func TestListGivesThePrefixInOrder(t *testing.T) {
	eachBucket(t, func(t *testing.T, b subject) {
		for _, key := range []string{"sources/b", "sources/a", "sourcesz", "artifacts/a", "sources/c"} {
			if err := b.Put(t.Context(), key, strings.NewReader(key)); err != nil {
				t.Fatal(err)
			}
		}
		if err := b.Delete(t.Context(), "sources/b"); err != nil {
			t.Fatal(err)
		}
		var keys []string
		for o, err := range b.List(t.Context(), "sources/") {
			if err != nil {
				t.Fatal(err)
			}
			if o.Size != int64(len(o.Key)) || o.ETag == "" {
				t.Errorf("listed %+v", o)
			}
			keys = append(keys, o.Key)
		}
		if want := []string{"sources/a", "sources/c"}; !slices.Equal(keys, want) {
			t.Errorf("listed %q, want %q", keys, want)
		}
		for range b.List(t.Context(), "sources/") {
			break // leaving early is fine
		}
	})
}

func TestEndedContextEndsEveryCall(t *testing.T) {
	eachBucket(t, func(t *testing.T, b subject) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, _, getErr := b.Get(ctx, "k", "", 1)
		_, headErr := b.Head(ctx, "k")
		var listErr error
		for _, err := range b.List(ctx, "") {
			listErr = err
		}
		for name, err := range map[string]error{
			"put": b.Put(ctx, "k", strings.NewReader("")), "get": getErr, "head": headErr,
			"delete": b.Delete(ctx, "k"), "list": listErr,
		} {
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

func TestPresignedURLWorksForItsOwnRequestAlone(t *testing.T) {
	eachBucket(t, func(t *testing.T, b subject) {
		if !b.s3 {
			t.Skip("nothing listens at the URLs of the bucket in memory")
		}
		address, err := b.PresignPut(t.Context(), blob.UploadKey("right"))
		if err != nil {
			t.Fatal(err)
		}
		for name, try := range map[string]struct{ method, address string }{
			"another method":   {http.MethodGet, address},
			"another key":      {http.MethodPut, strings.Replace(address, "right", "wrong", 1)},
			"a later expiry":   {http.MethodPut, strings.Replace(address, "X-Amz-Expires=900", "X-Amz-Expires=90000", 1)},
			"no signature":     {http.MethodPut, address[:strings.Index(address, "?")]},
			"another date":     {http.MethodPut, withQuery(t, address, "X-Amz-Date", "20200101T000000Z")},
			"another sender":   {http.MethodPut, withQuery(t, address, "X-Amz-Credential", "else/20260101/us-east-1/s3/aws4_request")},
			"broken signature": {http.MethodPut, withQuery(t, address, "X-Amz-Signature", strings.Repeat("0", 64))},
		} {
			if code := send(t, try.method, try.address, []byte("x")); code < 400 || code >= 500 {
				t.Errorf("%s: answered %d", name, code)
			}
		}
		for _, key := range []string{"right", "wrong"} {
			if _, err := b.Head(t.Context(), blob.UploadKey(key)); !errors.Is(err, blob.ErrNotFound) {
				t.Errorf("after the refused requests, %s: %v", key, err)
			}
		}
		if code := send(t, http.MethodPut, address, []byte("body")); code != http.StatusOK {
			t.Errorf("the URL as it is: answered %d", code)
		}
	})
}

func TestPresignedURLEndsAfterItsValidity(t *testing.T) {
	eachBucket(t, func(t *testing.T, b subject) {
		if !b.s3 {
			t.Skip("nothing listens at the URLs of the bucket in memory")
		}
		address, err := b.PresignPut(t.Context(), blob.UploadKey("late"))
		if err != nil {
			t.Fatal(err)
		}
		for age, want := range map[time.Duration]int{
			blob.UploadValidity - time.Minute: http.StatusOK, blob.UploadValidity + time.Minute: http.StatusForbidden,
		} {
			if code := send(t, http.MethodPut, signedAgo(t, address, age), []byte("x")); code != want {
				t.Errorf("after %v: answered %d, want %d", age, code, want)
			}
		}
	})
}

// signedAgo gives the URL as it would have been signed some time ago.
func signedAgo(t *testing.T, address string, age time.Duration) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Del("X-Amz-Signature") // the signer sets all others anew
	u.RawQuery = q.Encode()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, u.String(), http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	config := testConfig()
	c, err := config.Credentials.Retrieve(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	signed, _, err := v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true }).
		PresignHTTP(t.Context(), c, request, "UNSIGNED-PAYLOAD", "s3", config.Region, time.Now().Add(-age))
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

func withQuery(t *testing.T, address, name, value string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set(name, value)
	u.RawQuery = q.Encode()
	return u.String()
}

func TestPresignedURLAsksForNoHeader(t *testing.T) {
	b := blob.New(testConfig(), blob.Options{
		Name: "b", Endpoint: "http://127.0.0.1:1", PublicEndpoint: "https://uploads.example.test",
	})
	address, err := b.PresignPut(t.Context(), blob.UploadKey("0d8a6c0e-4d2f-4d43-9f0a-4a8a6f0b9b8e"))
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	if got := q.Get("X-Amz-SignedHeaders"); got != "host" {
		t.Errorf("the client has to send the headers %q, want host alone", got)
	}
	if got := q.Get("X-Amz-Expires"); got != "900" {
		t.Errorf("it is valid for %s s, want 900", got)
	}
	for name := range q {
		if strings.Contains(strings.ToLower(name), "checksum") {
			t.Errorf("it demands a checksum by %s", name)
		}
	}
	if u.Host != "uploads.example.test" {
		t.Errorf("its host is %s, want the public endpoint's", u.Host)
	}
	if id := path.Base(u.Path); id != "0d8a6c0e-4d2f-4d43-9f0a-4a8a6f0b9b8e" {
		t.Errorf("its last segment is %q, want the statusId (contract, section 8)", id)
	}
}

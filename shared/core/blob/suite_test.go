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

	"github.com/gatewright/gatewright/shared/core/blob"
	"github.com/gatewright/gatewright/shared/core/blob/files"
	"github.com/gatewright/gatewright/shared/core/store/embedded"
)

// bucket has the methods that all buckets implement.
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

// testBucket is a bucket under test, with the upload function of its clients.
type testBucket struct {
	bucket
	upload    func(t *testing.T, key string, body []byte)
	s3        bool // the bucket is in S3, which listens at the upload URLs
	singleUse bool // accepts only one upload to each URL
}

// testConfig returns the credentials that local S3 emulators are started with.
func testConfig() aws.Config {
	credential := func(name, fallback string) string {
		if v := os.Getenv(name); v != "" {
			return v
		}
		return fallback
	}
	return aws.Config{Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider(
		credential("AWS_ACCESS_KEY_ID", "local"), credential("AWS_SECRET_ACCESS_KEY", "local-secret"), "")}
}

// eachBucket runs test with a bucket in memory, a bucket in files and a bucket in S3.
func eachBucket(t *testing.T, test func(t *testing.T, b testBucket)) {
	t.Run("memory", func(t *testing.T) {
		m := blob.NewMemory(time.Now)
		test(t, testBucket{bucket: m, upload: func(_ *testing.T, key string, body []byte) { m.Upload(key, body) }})
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
		test(t, testBucket{bucket: b, singleUse: true, upload: func(t *testing.T, key string, body []byte) {
			t.Helper()
			address, err := b.PresignPut(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			w := httptest.NewRecorder()
			if b.Uploads().ServeHTTP(w, httptest.NewRequest(http.MethodPut, address,
				bytes.NewReader(body))); w.Code != http.StatusOK {
				t.Fatalf("PUT to the upload URL: status = %d, want %d", w.Code, http.StatusOK)
			}
		}})
	})
	t.Run("s3", func(t *testing.T) {
		name := fmt.Sprintf("suite-%d", time.Now().UnixNano())
		b := blob.New(testConfig(), blob.Options{Name: name, Endpoint: os.Getenv(endpointVar)})
		for range 2 { // creating the bucket again is not an error
			if err := b.Create(t.Context()); err != nil {
				t.Fatalf("Create() = %v, want nil", err)
			}
		}
		test(t, testBucket{bucket: b, s3: true, upload: func(t *testing.T, key string, body []byte) {
			t.Helper()
			address, err := b.PresignPut(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			if code := send(t, http.MethodPut, address, body); code != http.StatusOK {
				t.Fatalf("PUT to the upload URL: status = %d, want %d", code, http.StatusOK)
			}
		}})
	})
}

// send makes a request as curl -T does: without headers that S3 interprets.
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

// read returns the content and the description of an object of at most 1 MiB.
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
	eachBucket(t, func(t *testing.T, b testBucket) {
		key := blob.ArtifactKey("abc")
		for _, content := range []string{"first", "second"} {
			if err := b.Put(t.Context(), key, strings.NewReader(content)); err != nil {
				t.Fatalf("Put(%s) of the %s content = %v, want nil", key, content, err)
			}
		}
		content, o := read(t, b, key, "")
		if content != "first" {
			t.Errorf("Get(%s) after two Put() = %q, want \"first\"", key, content)
		}
		head, err := b.Head(t.Context(), key)
		if err != nil || head.Size != 5 || head.Key != key || time.Since(head.Modified) > time.Minute {
			t.Errorf("Head(%s) = %+v, %v, want this key, 5 bytes, modified in the last minute", key, head, err)
		}
		if head.ETag == "" || head.ETag != o.ETag {
			t.Errorf("Head(%s) ETag = %q, want the %q of Get()", key, head.ETag, o.ETag)
		}
	})
}

// TestReplaceRequiresETag checks that Replace requires the current ETag,
// and changes nothing if the object has another ETag or is missing.
func TestReplaceRequiresETag(t *testing.T) {
	eachBucket(t, func(t *testing.T, b testBucket) {
		key := blob.ArtifactKey("abc")
		if err := b.Put(t.Context(), key, strings.NewReader("first")); err != nil {
			t.Fatal(err)
		}
		_, first := read(t, b, key, "")
		// The second call has an old ETag. The first call may also return ErrChanged: if its first reply is lost, a retry
		// finds another ETag.
		for range 2 {
			err := b.Replace(t.Context(), key, first.ETag, strings.NewReader("second"))
			content, current := read(t, b, key, "")
			if content != "second" || current.ETag == first.ETag || current.Size != 6 {
				t.Errorf("object after Replace() = %q, %+v, want \"second\" with 6 bytes and another ETag", content, current)
			}
			if err != nil && !errors.Is(err, blob.ErrChanged) {
				t.Errorf("Replace() = %v, want nil or %v", err, blob.ErrChanged)
			}
		}
		if err := b.Replace(t.Context(), key, first.ETag, strings.NewReader("third")); !errors.Is(err, blob.ErrChanged) {
			t.Errorf("Replace() with an old ETag = %v, want %v", err, blob.ErrChanged)
		}
		if content, _ := read(t, b, key, ""); content != "second" {
			t.Errorf("object after a refused Replace() = %q, want \"second\"", content)
		}
		if err := b.Delete(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		if err := b.Replace(t.Context(), key, first.ETag, strings.NewReader("third")); !errors.Is(err, blob.ErrNotFound) {
			t.Errorf("Replace() of a deleted object = %v, want %v", err, blob.ErrNotFound)
		}
		if _, err := b.Head(t.Context(), key); !errors.Is(err, blob.ErrNotFound) {
			t.Errorf("Head() of a deleted object = %v, want %v", err, blob.ErrNotFound)
		}
	})
}

func TestAbsentObjectIsNotFound(t *testing.T) {
	eachBucket(t, func(t *testing.T, b testBucket) {
		if _, _, err := b.Get(t.Context(), "absent", "", 1); !errors.Is(err, blob.ErrNotFound) {
			t.Errorf("Get(absent) = %v, want %v", err, blob.ErrNotFound)
		}
		if _, _, err := b.Get(t.Context(), "absent", "etag", 1); !errors.Is(err, blob.ErrNotFound) {
			t.Errorf("Get(absent) with an ETag = %v, want %v", err, blob.ErrNotFound)
		}
		if _, err := b.Head(t.Context(), "absent"); !errors.Is(err, blob.ErrNotFound) {
			t.Errorf("Head(absent) = %v, want %v", err, blob.ErrNotFound)
		}
		if err := b.Delete(t.Context(), "absent"); err != nil {
			t.Errorf("Delete(absent) = %v, want nil", err)
		}
	})
}

func TestReplacedUploadIsDetected(t *testing.T) {
	eachBucket(t, func(t *testing.T, b testBucket) {
		key := blob.UploadKey("id")
		b.upload(t, key, []byte("first"))
		first, err := b.Head(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		if content, _ := read(t, b, key, first.ETag); content != "first" {
			t.Errorf("Get(%s) with the current ETag = %q, want \"first\"", key, content)
		}
		if b.singleUse { // no upload can replace the first one
			return
		}
		b.upload(t, key, []byte("other"))
		if _, _, err := b.Get(t.Context(), key, first.ETag, 100); !errors.Is(err, blob.ErrChanged) {
			t.Errorf("Get() of a replaced upload = %v, want %v", err, blob.ErrChanged)
		}
	})
}

func TestObjectOverTheLimitIsRefused(t *testing.T) {
	eachBucket(t, func(t *testing.T, b testBucket) {
		if err := b.Put(t.Context(), "ten", strings.NewReader("0123456789")); err != nil {
			t.Fatal(err)
		}
		for limit, want := range map[int64]error{9: blob.ErrTooLarge, 10: nil, 11: nil} {
			body, _, err := b.Get(t.Context(), "ten", "", limit)
			if !errors.Is(err, want) {
				t.Errorf("Get() with a limit of %d = %v, want %v", limit, err, want)
			}
			if err == nil {
				if content, err := io.ReadAll(body); err != nil || len(content) != 10 {
					t.Errorf("Get() with a limit of %d = %q, %v, want 10 bytes", limit, content, err)
				}
				if err := body.Close(); err != nil {
					t.Errorf("Close() after a Get() with a limit of %d = %v, want nil", limit, err)
				}
			}
		}
	})
}

func TestListReturnsPrefixInOrder(t *testing.T) {
	eachBucket(t, func(t *testing.T, b testBucket) {
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
				t.Errorf("List() item = %+v, want %d bytes and an ETag", o, len(o.Key))
			}
			keys = append(keys, o.Key)
		}
		if want := []string{"sources/a", "sources/c"}; !slices.Equal(keys, want) {
			t.Errorf("List(sources/) = %q, want %q", keys, want)
		}
		for range b.List(t.Context(), "sources/") {
			break // ending the iteration early must work
		}
	})
}

func TestCanceledContextStopsCalls(t *testing.T) {
	eachBucket(t, func(t *testing.T, b testBucket) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, _, getErr := b.Get(ctx, "k", "", 1)
		_, headErr := b.Head(ctx, "k")
		var listErr error
		for _, err := range b.List(ctx, "") {
			listErr = err
		}
		for name, err := range map[string]error{
			"Put": b.Put(ctx, "k", strings.NewReader("")), "Get": getErr, "Head": headErr,
			"Delete": b.Delete(ctx, "k"), "List": listErr,
		} {
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%s() with a canceled context = %v, want %v", name, err, context.Canceled)
			}
		}
	})
}

func TestPresignedURLRefusesOtherRequests(t *testing.T) {
	eachBucket(t, func(t *testing.T, b testBucket) {
		if !b.s3 {
			t.Skip("only S3 listens at the URLs of its bucket")
		}
		address, err := b.PresignPut(t.Context(), blob.UploadKey("right"))
		if err != nil {
			t.Fatal(err)
		}
		for name, tc := range map[string]struct{ method, address string }{
			"another method": {http.MethodGet, address},
			"another key":    {http.MethodPut, strings.Replace(address, "right", "wrong", 1)},
			"a later expiry": {http.MethodPut, strings.Replace(address, "X-Amz-Expires=900", "X-Amz-Expires=90000", 1)},
			"no signature":   {http.MethodPut, address[:strings.Index(address, "?")]},
			"an old date":    {http.MethodPut, withQuery(t, address, "X-Amz-Date", "20200101T000000Z")},
			"another access key": {
				http.MethodPut, withQuery(t, address, "X-Amz-Credential", "else/20260101/us-east-1/s3/aws4_request"),
			},
			"another signature": {http.MethodPut, withQuery(t, address, "X-Amz-Signature", strings.Repeat("0", 64))},
		} {
			if code := send(t, tc.method, tc.address, []byte("x")); code < 400 || code >= 500 {
				t.Errorf("request with %s: status = %d, want 4xx", name, code)
			}
		}
		for _, key := range []string{"right", "wrong"} {
			if _, err := b.Head(t.Context(), blob.UploadKey(key)); !errors.Is(err, blob.ErrNotFound) {
				t.Errorf("Head(%s) after refused requests = %v, want %v", key, err, blob.ErrNotFound)
			}
		}
		if code := send(t, http.MethodPut, address, []byte("body")); code != http.StatusOK {
			t.Errorf("PUT to the unchanged URL: status = %d, want %d", code, http.StatusOK)
		}
	})
}

func TestPresignedURLExpires(t *testing.T) {
	eachBucket(t, func(t *testing.T, b testBucket) {
		if !b.s3 {
			t.Skip("only S3 listens at the URLs of its bucket")
		}
		address, err := b.PresignPut(t.Context(), blob.UploadKey("late"))
		if err != nil {
			t.Fatal(err)
		}
		for age, want := range map[time.Duration]int{
			blob.UploadValidity - time.Minute: http.StatusOK, blob.UploadValidity + time.Minute: http.StatusForbidden,
		} {
			if code := send(t, http.MethodPut, signWithAge(t, address, age), []byte("x")); code != want {
				t.Errorf("PUT %v after the URL was signed: status = %d, want %d", age, code, want)
			}
		}
	})
}

// signWithAge returns the URL as if it had been signed some time ago.
func signWithAge(t *testing.T, address string, age time.Duration) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Del("X-Amz-Signature") // the signer sets all other parameters again
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

// withQuery returns the URL with another value of one query parameter.
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

// TestPresignedURLNeedsNoHeaders checks that an upload URL requires no header except Host, and no checksum. It also
// checks the expiry, the host and the last segment of the URL.
func TestPresignedURLNeedsNoHeaders(t *testing.T) {
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
		t.Errorf("PresignPut(): signed headers = %q, want only host", got)
	}
	if got := q.Get("X-Amz-Expires"); got != "900" {
		t.Errorf("PresignPut(): X-Amz-Expires = %s, want 900", got)
	}
	for name := range q {
		if strings.Contains(strings.ToLower(name), "checksum") {
			t.Errorf("PresignPut(): the URL has the parameter %s, want no checksum", name)
		}
	}
	if u.Host != "uploads.example.test" {
		t.Errorf("PresignPut(): host = %s, want the public endpoint uploads.example.test", u.Host)
	}
	if id := path.Base(u.Path); id != "0d8a6c0e-4d2f-4d43-9f0a-4a8a6f0b9b8e" {
		t.Errorf("PresignPut(): last segment of the path = %q, want the statusId (contract, section 8)", id)
	}
}

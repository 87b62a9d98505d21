package blob_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"

	"github.com/gatewright/gatewright/shared/core/blob"
)

func TestUploadID(t *testing.T) {
	tests := []struct {
		key, id string
		ok      bool
	}{
		{blob.UploadKey("0d8a"), "0d8a", true},
		{"uploads/", "", false},
		{"uploads/a/b", "", false},
		{blob.SourceKey("0d8a"), "", false},
		{blob.ArtifactKey("0d8a"), "", false},
		{"", "", false},
	}
	for _, test := range tests {
		if id, ok := blob.UploadID(test.key); ok != test.ok || ok && id != test.id {
			t.Errorf("UploadID(%q) = %q, %t, want %q, %t", test.key, id, ok, test.id, test.ok)
		}
	}
}

// newTestBucket returns a Bucket whose S3 is the handler.
func newTestBucket(t *testing.T, handler http.HandlerFunc) *blob.Bucket {
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	config := testConfig()
	config.Retryer = func() aws.Retryer {
		return retry.NewStandard(func(o *retry.StandardOptions) {
			o.Backoff = retry.BackoffDelayerFunc(func(int, error) (time.Duration, error) { return 0, nil })
		})
	}
	return blob.New(config, blob.Options{Name: "b", Endpoint: server.URL})
}

func TestReaderStopsAtLimit(t *testing.T) {
	b := newTestBucket(t, func(w http.ResponseWriter, _ *http.Request) {
		for range 10 { // chunked: no Content-Length
			_, _ = io.WriteString(w, "0123456789")
			_ = http.NewResponseController(w).Flush()
		}
	})
	body, _, err := b.Get(t.Context(), "k", "", 42)
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	content, err := io.ReadAll(body)
	if !errors.Is(err, blob.ErrTooLarge) || len(content) != 42 {
		t.Errorf("body of Get() with the limit 42: %d bytes, %v, want 42 bytes, %v", len(content), err, blob.ErrTooLarge)
	}
}

func TestBrokenConnectionIsAnError(t *testing.T) {
	b := newTestBucket(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "short")
	})
	body, _, err := b.Get(t.Context(), "k", "", 1000)
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	if _, err := io.ReadAll(body); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("reading from a broken connection: error = %v, want %v", err, io.ErrUnexpectedEOF)
	}
}

func TestPutSucceedsAfterLostReply(t *testing.T) {
	var stored atomic.Bool
	b := newTestBucket(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if stored.Swap(true) {
			w.WriteHeader(http.StatusPreconditionFailed)
			return
		}
		panic(http.ErrAbortHandler) // the object was stored, but the reply is lost
	})
	if err := b.Put(t.Context(), blob.SourceKey("abc"), strings.NewReader("x")); err != nil {
		t.Errorf("Put() after a lost reply = %v, want nil", err)
	}
}

func TestConflictingPutIsRepeated(t *testing.T) {
	var calls atomic.Int32
	b := newTestBucket(t, func(w http.ResponseWriter, _ *http.Request) {
		if calls.Add(1) == 1 {
			w.WriteHeader(http.StatusConflict)
			_, _ = fmt.Fprint(w, `<Error><Code>ConditionalRequestConflict</Code></Error>`)
		}
	})
	if err := b.Put(t.Context(), blob.SourceKey("abc"), strings.NewReader("x")); err != nil || calls.Load() != 2 {
		t.Errorf("Put() with a conflict = %v after %d calls, want success after 2", err, calls.Load())
	}
}

func TestMissingBucketIsNoMissingObject(t *testing.T) {
	b := newTestBucket(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		_, _ = fmt.Fprint(w, `<Error><Code>NoSuchBucket</Code></Error>`)
	})
	if _, _, err := b.Get(t.Context(), "k", "", 1); err == nil || errors.Is(err, blob.ErrNotFound) {
		t.Errorf("Get() without a bucket = %v, want an error other than %v", err, blob.ErrNotFound)
	}
}

package cloud_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/gatewright/gatewright/shared/base/dryrun"
	"github.com/gatewright/gatewright/shared/core/blob"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/runtime/cloud"
)

// TestDryRunOnlyReadsFromAWS checks that a dry run sends no request that changes something, even with a client of the
// SDK, without the packages that usually refuse changes. It also checks that reads are sent, and changes outside of a
// dry run.
func TestDryRunOnlyReadsFromAWS(t *testing.T) {
	var requests atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		w.WriteHeader(http.StatusBadRequest)
	}))
	defer server.Close()
	p, err := cloud.Open(lambdaEnv(map[string]string{"AWS_ENDPOINT_URL": server.URL}), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	ctx, _ := dryrun.Begin(t.Context())
	key := store.Key{PK: "a", SK: "b"}
	for name, err := range map[string]error{
		"a transaction": p.Table.Commit(ctx, store.Delete(key)),
		"a put":         p.Bucket.Put(ctx, blob.SourceKey("1"), strings.NewReader("x")),
		"a deletion":    p.Bucket.Delete(ctx, blob.SourceKey("1")),
	} {
		if !errors.Is(err, dryrun.ErrEffect) {
			t.Errorf("%s in a dry run = %v, want %v", name, err, dryrun.ErrEffect)
		}
	}
	c := cloud.SDKConfig(t, server.URL)
	client := s3.NewFromConfig(c, func(o *s3.Options) { o.UsePathStyle = true })
	if _, err := client.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: new("x")}); !errors.Is(err, dryrun.ErrEffect) {
		t.Errorf("CreateBucket() in a dry run = %v, want %v", err, dryrun.ErrEffect)
	}
	if n := requests.Load(); n != 0 {
		t.Errorf("the dry run sends %d requests, want none", n)
	}
	if _, err := client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: new("x"), Key: new("y")}); errors.Is(err,
		dryrun.ErrEffect) || requests.Load() == 0 {
		t.Errorf("HeadObject() in a dry run = %v after %d requests, want it sent", err, requests.Load())
	}
	before := requests.Load()
	if _, err := client.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: new("x")}); errors.Is(err,
		dryrun.ErrEffect) || requests.Load() == before {
		t.Errorf("CreateBucket() outside of a dry run = %v, want it sent", err)
	}
}

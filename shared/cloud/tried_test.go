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

	"github.com/gatewright/gatewright/shared/blob"
	"github.com/gatewright/gatewright/shared/cloud"
	"github.com/gatewright/gatewright/shared/dryrun"
	"github.com/gatewright/gatewright/shared/store"
)

// TestADryRunReachesAWSToReadAlone asks for each kind of change, past what the
// packages in front of the clients refuse by themselves.
func TestADryRunReachesAWSToReadAlone(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.WriteHeader(http.StatusBadRequest)
	}))
	defer server.Close()
	p, err := cloud.Open(lambda(map[string]string{"AWS_ENDPOINT_URL": server.URL}), io.Discard)
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
			t.Errorf("%s in a dry run: %v", name, err)
		}
	}
	c := cloud.ConfigOf(t, server.URL)
	client := s3.NewFromConfig(c, func(o *s3.Options) { o.UsePathStyle = true })
	if _, err := client.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: new("x")}); !errors.Is(err, dryrun.ErrEffect) {
		t.Errorf("a request that nobody knows: %v", err)
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("%d requests were made", n)
	}
	if _, err := client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: new("x"), Key: new("y")}); errors.Is(err, dryrun.ErrEffect) || asked.Load() == 0 {
		t.Errorf("a look in a dry run: %v after %d requests", err, asked.Load())
	}
	before := asked.Load()
	if _, err := client.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: new("x")}); errors.Is(err, dryrun.ErrEffect) || asked.Load() == before {
		t.Errorf("a change outside of a dry run: %v", err)
	}
}

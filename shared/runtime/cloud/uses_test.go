package cloud_test

import (
	"encoding/json"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/core/blob"
	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/runtime/cloud"
)

// TestUsesAreRecordedAsIAMActions makes each kind of request twice. The file must contain the IAM actions that a role
// needs for these requests, each action with its resource once.
func TestUsesAreRecordedAsIAMActions(t *testing.T) {
	server := httptest.NewServer(&fakeAWS{})
	defer server.Close()
	path := filepath.Join(t.TempDir(), "uses")
	p, err := cloud.Open(lambdaEnv(map[string]string{
		"AWS_ENDPOINT_URL": server.URL, config.VarUsesFile: path, "AWS_LAMBDA_FUNCTION_NAME": "gatewright-dev-consumers",
	}), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	key := store.Key{PK: "a#hidden", SK: "b"}
	for range 2 {
		_, _ = p.Key.Root(ctx)
		_, _ = p.Bucket.Head(ctx, blob.UploadKey("1"))
		_, _ = p.Bucket.PresignPut(ctx, blob.UploadKey("2"))
		_ = p.Bucket.Delete(ctx, blob.SourceKey("3"))
		_, _, _ = p.Bucket.Get(ctx, blob.ArtifactKey("4"), "", 1)
		for _, err := range p.Bucket.List(ctx, "") {
			_ = err // always an error: the server returns no valid list
		}
		_ = p.Table.Get(ctx, key, &struct{}{})
		_ = p.Table.Commit(ctx, store.Put(key, map[string]string{"x": "y"}), store.Delete(store.Key{PK: "b", SK: "c"}),
			store.Check(store.Key{PK: "c#hidden", SK: "d"}, store.Exists()))
		_, _ = p.Table.Keys(ctx, store.Query{PK: "d#hidden"})
		_, _ = p.Table.Keys(ctx, store.Query{Index: store.DueIndex, PK: "e#hidden"})
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(string(content)) {
		var u cloud.Use
		if err := json.Unmarshal([]byte(line), &u); err != nil || u.Function != "gatewright-dev-consumers" {
			t.Fatalf("line = %q, %v, want the function gatewright-dev-consumers", line, err)
		}
		got = append(got, strings.TrimSpace(u.Action+" "+u.Resource+" "+string(u.KeyPrefix)))
	}
	slices.Sort(got)
	want := []string{
		"dynamodb:ConditionCheckItem table/the-table c",
		"dynamodb:DeleteItem table/the-table b",
		"dynamodb:GetItem table/the-table a",
		"dynamodb:GetItem table/the-table root-key",
		"dynamodb:PutItem table/the-table a",
		"dynamodb:PutItem table/the-table root-key",
		"dynamodb:Query table/the-table d",
		"dynamodb:Query table/the-table/index/due",
		"kms:Decrypt arn:aws:kms:eu-west-1:000000000000:key/the-key",
		"kms:GenerateDataKeyWithoutPlaintext arn:aws:kms:eu-west-1:000000000000:key/the-key",
		"s3:DeleteObject the-bucket/" + blob.SourceKey("3"),
		"s3:GetObject the-bucket/" + blob.ArtifactKey("4"),
		"s3:GetObject the-bucket/" + blob.UploadKey("1"),
		"s3:ListBucket the-bucket",
		"s3:PutObject the-bucket/" + blob.UploadKey("2"),
	}
	if !slices.Equal(got, want) {
		t.Errorf("recorded uses =\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

package cloud_test

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/core/seal"
	"github.com/gatewright/gatewright/shared/runtime/cloud"
)

// lambdaEnv returns the environment of a function as the infrastructure and Lambda set it, with changes.
func lambdaEnv(changes map[string]string) func(string) string {
	env := map[string]string{
		config.VarTable:         "the-table",
		config.VarBucket:        "the-bucket",
		config.VarKMSKey:        "arn:aws:kms:eu-west-1:000000000000:key/the-key",
		config.VarDeploymentURL: "https://{deployment}.apis.example.com",
		"AWS_REGION":            "eu-west-1",
		"AWS_ACCESS_KEY_ID":     "an-id",
		"AWS_SECRET_ACCESS_KEY": "a-secret",
		"AWS_SESSION_TOKEN":     "a-token",
	}
	maps.Copy(env, changes)
	return func(name string) string { return env[name] }
}

func TestIncompleteEnvironmentIsRefusedByName(t *testing.T) {
	for _, name := range []string{
		config.VarTable, config.VarBucket, config.VarKMSKey, config.VarDeploymentURL,
		"AWS_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := cloud.Open(lambdaEnv(map[string]string{name: ""}), io.Discard)
			if err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("Open() without %s: error = %v, want one that names it", name, err)
			}
			if err != nil && strings.Contains(err.Error(), "a-secret") {
				t.Errorf("error = %v, want no secret in it", err)
			}
		})
	}
	_, err := cloud.Open(lambdaEnv(map[string]string{"AWS_ENDPOINT_URL": "localhost"}), io.Discard)
	if err == nil || !strings.Contains(err.Error(), "AWS_ENDPOINT_URL") {
		t.Errorf("Open(AWS_ENDPOINT_URL=localhost) error = %v, want one that names the variable", err)
	}
}

// fakeAWS is a server that responds like DynamoDB, KMS and S3, and records its requests.
type fakeAWS struct {
	mu       sync.Mutex
	requests []string
	token    string // session token of the last request
}

func (f *fakeAWS) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	target := r.Header.Get("X-Amz-Target")
	if target == "" {
		target = r.Method + " " + r.URL.Path
	}
	f.requests = append(f.requests, target)
	f.token = r.Header.Get("X-Amz-Security-Token")
	resp := map[string]any{}
	switch {
	case strings.HasSuffix(target, "GenerateDataKeyWithoutPlaintext"):
		resp["CiphertextBlob"] = []byte("wrapped")
	case strings.HasSuffix(target, "Decrypt"):
		resp["Plaintext"] = make([]byte, 32)
	case strings.HasSuffix(target, "GetItem") && len(f.requests) > 2: // the first read finds no root key
		resp["Item"] = map[string]any{"wrapped": map[string]any{"B": []byte("wrapped")}}
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	_ = json.NewEncoder(w).Encode(resp)
}

// TestAllServicesUseTheEndpoint checks that DynamoDB, KMS and S3 are all called
// at AWS_ENDPOINT_URL. Otherwise a test installation could write to a real one.
func TestAllServicesUseTheEndpoint(t *testing.T) {
	emulator := &fakeAWS{}
	server := httptest.NewServer(emulator)
	defer server.Close()
	p, err := cloud.Open(lambdaEnv(map[string]string{"AWS_ENDPOINT_URL": server.URL}), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Key.Root(t.Context()); err != nil {
		t.Errorf("Root() error = %v, want none", err)
	}
	if _, err := p.Bucket.Head(t.Context(), "uploads/x"); err != nil {
		t.Errorf("Head(uploads/x) error = %v, want none", err)
	}
	want := []string{
		"DynamoDB_20120810.GetItem", "TrentService.GenerateDataKeyWithoutPlaintext", "DynamoDB_20120810.TransactWriteItems",
		"DynamoDB_20120810.GetItem", "TrentService.Decrypt", "HEAD /the-bucket/uploads/x",
	}
	if got := strings.Join(emulator.requests, ", "); got != strings.Join(want, ", ") {
		t.Errorf("requests =\n%s\nwant\n%s", got, strings.Join(want, ", "))
	}
	if emulator.token != "a-token" {
		t.Errorf("session token = %q, want a-token", emulator.token)
	}
}

// TestKeyFileIsUsedInsteadOfKMS checks that the root key comes from
// the key file if one is set, as on a laptop, which has no KMS.
func TestKeyFileIsUsedInsteadOfKMS(t *testing.T) {
	path := filepath.Join(t.TempDir(), "root.key")
	emulator := &fakeAWS{}
	server := httptest.NewServer(emulator)
	defer server.Close()
	p, err := cloud.Open(lambdaEnv(map[string]string{
		config.VarKMSKey: "", config.VarKeyFile: path, "AWS_ENDPOINT_URL": server.URL,
	}), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	got, err := p.Key.Root(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if want, err := seal.OpenFile(path).Root(t.Context()); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("Root() differs from the key in the file (%v), want the same", err)
	}
	// The request checks whether the root key was rotated.
	if requests := strings.Join(emulator.requests, ", "); requests != "DynamoDB_20120810.GetItem" {
		t.Errorf("requests = %s, want DynamoDB_20120810.GetItem", requests)
	}
}

// TestUploadAddressesArePublic checks that upload addresses have the public
// endpoint, because clients may need another host name for S3 than functions.
func TestUploadAddressesArePublic(t *testing.T) {
	for name, c := range map[string]struct {
		env  map[string]string
		host string
	}{
		"AWS":         {nil, "the-bucket.s3.eu-west-1.amazonaws.com"},
		"an emulator": {map[string]string{"AWS_ENDPOINT_URL": "http://127.0.0.1:4566"}, "127.0.0.1:4566"},
		"an emulator with a public endpoint": {map[string]string{
			"AWS_ENDPOINT_URL": "http://127.0.0.1:4566", config.VarS3PublicEndpoint: "http://s3.localhost:4566",
		}, "s3.localhost:4566"},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := cloud.Open(lambdaEnv(c.env), io.Discard)
			if err != nil {
				t.Fatal(err)
			}
			address, err := p.Bucket.PresignPut(t.Context(), "uploads/x")
			if err != nil {
				t.Fatal(err)
			}
			u, err := url.Parse(address)
			if err != nil || u.Host != c.host {
				t.Errorf("PresignPut() = %s, %v, want an address with the host %s", address, err, c.host)
			}
		})
	}
}

// TestLogIsJSONLines checks that log lines are JSON objects, whose fields CloudWatch reads.
func TestLogIsJSONLines(t *testing.T) {
	var log strings.Builder
	p, err := cloud.Open(lambdaEnv(nil), &log)
	if err != nil {
		t.Fatal(err)
	}
	p.Log.Info("counted", "count", 2)
	var line struct {
		Msg   string `json:"msg"`
		Count int    `json:"count"`
	}
	if err := json.Unmarshal([]byte(log.String()), &line); err != nil || line.Msg != "counted" || line.Count != 2 {
		t.Errorf("log line = %q, %v, want msg counted and count 2", log.String(), err)
	}
}

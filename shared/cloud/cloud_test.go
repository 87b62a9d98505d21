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

	"github.com/gatewright/gatewright/shared/cloud"
	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/seal"
)

// lambda is the environment of a function as the infrastructure and Lambda set it.
func lambda(changes map[string]string) func(string) string {
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
			_, err := cloud.Open(lambda(map[string]string{name: ""}), io.Discard)
			if err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("error %v, want one that names %s", err, name)
			}
			if err != nil && strings.Contains(err.Error(), "a-secret") {
				t.Errorf("the error holds a secret: %v", err)
			}
		})
	}
	_, err := cloud.Open(lambda(map[string]string{"AWS_ENDPOINT_URL": "localhost"}), io.Discard)
	if err == nil || !strings.Contains(err.Error(), "AWS_ENDPOINT_URL") {
		t.Errorf("error %v, want one that names AWS_ENDPOINT_URL", err)
	}
}

// aws is a server that answers as DynamoDB, KMS and S3 and remembers what it
// was asked.
type aws struct {
	mu    sync.Mutex
	asked []string
	token string
}

func (a *aws) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	target := r.Header.Get("X-Amz-Target")
	if target == "" {
		target = r.Method + " " + r.URL.Path
	}
	a.asked = append(a.asked, target)
	a.token = r.Header.Get("X-Amz-Security-Token")
	answer := map[string]any{}
	switch {
	case strings.HasSuffix(target, "GenerateDataKeyWithoutPlaintext"):
		answer["CiphertextBlob"] = []byte("wrapped")
	case strings.HasSuffix(target, "Decrypt"):
		answer["Plaintext"] = make([]byte, 32)
	case strings.HasSuffix(target, "GetItem") && len(a.asked) > 2:
		answer["Item"] = map[string]any{"wrapped": map[string]any{"B": []byte("wrapped")}}
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	_ = json.NewEncoder(w).Encode(answer)
}

// TestEmulatorIsAskedForEverything has each service asked once: they all have
// to follow AWS_ENDPOINT_URL, or a test installation would write into a real one.
func TestEmulatorIsAskedForEverything(t *testing.T) {
	emulator := &aws{}
	server := httptest.NewServer(emulator)
	defer server.Close()
	p, err := cloud.Open(lambda(map[string]string{"AWS_ENDPOINT_URL": server.URL}), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Key.Root(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := p.Bucket.Head(t.Context(), "uploads/x"); err != nil {
		t.Error(err)
	}
	want := []string{
		"DynamoDB_20120810.GetItem", "TrentService.GenerateDataKeyWithoutPlaintext", "DynamoDB_20120810.TransactWriteItems",
		"DynamoDB_20120810.GetItem", "TrentService.Decrypt", "HEAD /the-bucket/uploads/x",
	}
	if got := strings.Join(emulator.asked, ", "); got != strings.Join(want, ", ") {
		t.Errorf("asked\n%s\nwant\n%s", got, strings.Join(want, ", "))
	}
	if emulator.token != "a-token" {
		t.Error("the role's session token is not sent")
	}
}

// TestKeyFileIsUsedInsteadOfKMS: an installation on a laptop has no KMS.
func TestKeyFileIsUsedInsteadOfKMS(t *testing.T) {
	path := filepath.Join(t.TempDir(), "root.key")
	emulator := &aws{}
	server := httptest.NewServer(emulator)
	defer server.Close()
	p, err := cloud.Open(lambda(map[string]string{
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
		t.Errorf("another key than the file's, %v", err)
	}
	if asked := strings.Join(emulator.asked, ", "); asked != "DynamoDB_20120810.GetItem" { // whether it was rotated
		t.Errorf("asked %s", asked)
	}
}

// TestUploadAddressesArePublic: clients may know the emulator, or S3, by
// another name than functions do.
func TestUploadAddressesArePublic(t *testing.T) {
	for name, c := range map[string]struct {
		env  map[string]string
		host string
	}{
		"aws":      {nil, "the-bucket.s3.eu-west-1.amazonaws.com"},
		"emulator": {map[string]string{"AWS_ENDPOINT_URL": "http://127.0.0.1:4566"}, "127.0.0.1:4566"},
		"public": {map[string]string{
			"AWS_ENDPOINT_URL": "http://127.0.0.1:4566", config.VarS3PublicEndpoint: "http://s3.localhost:4566",
		}, "s3.localhost:4566"},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := cloud.Open(lambda(c.env), io.Discard)
			if err != nil {
				t.Fatal(err)
			}
			address, err := p.Bucket.PresignPut(t.Context(), "uploads/x")
			if err != nil {
				t.Fatal(err)
			}
			u, err := url.Parse(address)
			if err != nil || u.Host != c.host {
				t.Errorf("the address is at %s, want %s", u.Host, c.host)
			}
		})
	}
}

// TestLogIsJSONLines: the log service reads fields of lines that are objects.
func TestLogIsJSONLines(t *testing.T) {
	var log strings.Builder
	p, err := cloud.Open(lambda(nil), &log)
	if err != nil {
		t.Fatal(err)
	}
	p.Log.Info("told", "count", 2)
	var line struct {
		Msg   string `json:"msg"`
		Count int    `json:"count"`
	}
	if err := json.Unmarshal([]byte(log.String()), &line); err != nil || line.Msg != "told" || line.Count != 2 {
		t.Errorf("line %q, error %v", log.String(), err)
	}
}

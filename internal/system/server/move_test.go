package server_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/gatewright/gatewright/local/datadir"
	"github.com/gatewright/gatewright/local/dev/emulator"
	"github.com/gatewright/gatewright/shared/core/blob"
	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
	"github.com/gatewright/gatewright/shared/testing/readme"
)

// TestMoveToAWSAndBack runs the commands of docs/one-server.md for a move, with emulators of AWS: the data of one
// machine move to AWS, and then to another machine.
func TestMoveToAWSAndBack(t *testing.T) {
	t.Parallel()
	otherFolder := t.TempDir()
	steps, err := readme.ReadSteps(filepath.Join(repository, "docs", "one-server.md"), "Move to AWS and back",
		strings.NewReplacer("/elsewhere", otherFolder))
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, filepath.Join(t.TempDir(), "data"), config.VarTLSAddr+"="+config.NoAddr)
	demoKey, acmeKey := s.key(), strings.TrimSpace(s.command("account", "create", "acme"))
	env := append(s.cmd.Env, fmt.Sprintf("PATH=%s%c%s", filepath.Dir(s.cmd.Path), os.PathListSeparator, os.Getenv("PATH")))
	env = append(env, emulatedAWS(t)...)
	if _, err := readme.Run(t.Context(), repository, env, steps); err != nil {
		t.Fatalf("run the documented commands: %v, want no error", err)
	}
	s.stop()

	restarted := serve(t, filepath.Join(otherFolder, "back"), config.VarTLSAddr+"="+config.NoAddr)
	for name, key := range map[string]string{"demo": demoKey, "acme": acmeKey} {
		resp, body, err := ask(t, restarted.client(nil), http.MethodGet, "http://api."+domain+"/v1/who-am-i", key)
		if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(body, name) {
			t.Errorf("GET /v1/who-am-i with the key of %s = %q, error %v, want 200", name, body, err)
		}
	}
	restarted.stop()
}

// emulatedAWS starts DynamoDB, S3 and KMS behind one address, with a new table, bucket and key. It returns the
// environment that selects them.
func emulatedAWS(t *testing.T) []string {
	t.Helper()
	database := storetest.StartDynoxide(t, "").Endpoint
	dir, err := datadir.Open(filepath.Join(t.TempDir(), "aws"))
	if err != nil {
		t.Fatal(err)
	}
	emulatorCredentials, err := emulator.LoadCredentials(dir)
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.Executable() // TestMain turns this binary into the program of the emulators
	if err != nil {
		t.Fatal(err)
	}
	objects, err := emulator.StartS3(t.Context(), emulator.S3Options{
		Dir: dir, Program: program, Credentials: emulatorCredentials, Created: func(events.S3Event) {},
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(objects.Stop)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch target := r.Header.Get("X-Amz-Target"); {
		case strings.HasPrefix(target, "TrentService."):
			serveKMS(w, r, strings.TrimPrefix(target, "TrentService."))
		case target != "":
			forward(database).ServeHTTP(w, r)
		default:
			forward(objects.Endpoint).ServeHTTP(w, r)
		}
	}))
	t.Cleanup(proxy.Close)
	sdk := aws.Config{
		Region: emulator.Region,
		Credentials: credentials.NewStaticCredentialsProvider(emulatorCredentials.AccessKeyID,
			emulatorCredentials.SecretAccessKey, ""),
	}
	if err := store.CreateTable(t.Context(), store.Connect(sdk, proxy.URL), "gatewright-dev-table"); err != nil {
		t.Fatal(err)
	}
	if err := blob.New(sdk, blob.Options{Name: "gatewright-dev-bucket", Endpoint: proxy.URL}).Create(
		t.Context()); err != nil {
		t.Fatal(err)
	}
	return []string{
		"TABLE=gatewright-dev-table", "BUCKET=gatewright-dev-bucket", "KMS_KEY=" + kmsKey,
		"AWS_ENDPOINT_URL=" + proxy.URL, "AWS_REGION=" + emulator.Region,
		"AWS_ACCESS_KEY_ID=" + emulatorCredentials.AccessKeyID,
		"AWS_SECRET_ACCESS_KEY=" + emulatorCredentials.SecretAccessKey,
	}
}

// forward returns a proxy to a URL that does not change the host of requests, so that their signatures stay valid.
func forward(to string) http.Handler {
	target, _ := url.Parse(to)
	return &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host
	}}
}

const kmsKey = "11111111-2222-3333-4444-555555555555"

// serveKMS emulates the operations Encrypt and Decrypt of KMS. A wrapped key contains the plain key, with the ID of the
// KMS key and the encryption context.
func serveKMS(w http.ResponseWriter, r *http.Request, operation string) {
	var in struct {
		KeyID             string            `json:"KeyId"`
		Plaintext         []byte            `json:"Plaintext"`
		CiphertextBlob    []byte            `json:"CiphertextBlob"`
		EncryptionContext map[string]string `json:"EncryptionContext"`
	}
	raw, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(raw, &in)
	}
	wrapping := fmt.Sprint(in.KeyID, in.EncryptionContext, ":")
	out := map[string]any{"KeyId": in.KeyID}
	switch opened, validContext := strings.CutPrefix(string(in.CiphertextBlob), wrapping); {
	case err != nil, in.KeyID != kmsKey, len(in.EncryptionContext) == 0:
		http.Error(w, `{"__type":"NotFoundException"}`, http.StatusBadRequest)
		return
	case operation == "Encrypt":
		out["CiphertextBlob"] = []byte(wrapping + base64.StdEncoding.EncodeToString(in.Plaintext))
	case operation == "Decrypt" && validContext:
		plain, _ := base64.StdEncoding.DecodeString(opened)
		out["Plaintext"] = plain
	default:
		http.Error(w, `{"__type":"InvalidCiphertextException"}`, http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	_ = json.NewEncoder(w).Encode(out)
}

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

	"github.com/gatewright/gatewright/internal/readme"
	"github.com/gatewright/gatewright/local/datadir"
	"github.com/gatewright/gatewright/local/emulator"
	"github.com/gatewright/gatewright/shared/blob"
	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

// TestMoveToAWSAndBack types what docs/one-server.md says of it, over an AWS of emulators: what was on
// one machine is served by another one after it was there.
func TestMoveToAWSAndBack(t *testing.T) {
	t.Parallel()
	elsewhere := t.TempDir()
	steps, err := readme.Page(filepath.Join(repository, "docs", "one-server.md"), "Move to AWS and back", strings.NewReplacer("/elsewhere", elsewhere))
	if err != nil {
		t.Fatal(err)
	}
	s := serving(t, filepath.Join(t.TempDir(), "data"), config.VarTLSAddr+"="+config.NoAddr)
	account, key := s.key(), strings.TrimSpace(s.command("account", "create", "acme"))
	env := append(s.cmd.Env, fmt.Sprintf("PATH=%s%c%s", filepath.Dir(s.cmd.Path), os.PathListSeparator, os.Getenv("PATH")))
	env = append(env, emulatedAWS(t)...)
	if _, err := readme.Run(t.Context(), repository, env, steps); err != nil {
		t.Fatal(err)
	}
	s.stop()

	again := serving(t, filepath.Join(elsewhere, "back"), config.VarTLSAddr+"="+config.NoAddr)
	for name, key := range map[string]string{"demo": account, "acme": key} {
		out, body, err := ask(t, again.client(nil), http.MethodGet, "http://api."+domain+"/v1/who-am-i", key)
		if err != nil || out.StatusCode != http.StatusOK || !strings.Contains(body, name) {
			t.Errorf("the key of %s is answered with %q (%v)", name, body, err)
		}
	}
	again.stop()
}

// emulatedAWS is a DynamoDB, an S3 and a KMS behind one address, with a table, a bucket and a key that were never
// used, and the environment that leads to them.
func emulatedAWS(t *testing.T) []string {
	t.Helper()
	database := storetest.StartDynoxide(t, "").Endpoint
	dir, err := datadir.Open(filepath.Join(t.TempDir(), "aws"))
	if err != nil {
		t.Fatal(err)
	}
	own, err := emulator.LoadCredentials(dir)
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.Executable() // TestMain makes it the emulators' program
	if err != nil {
		t.Fatal(err)
	}
	objects, err := emulator.StartS3(t.Context(), emulator.S3Options{
		Dir: dir, Program: program, Credentials: own, Created: func(events.S3Event) {}, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(objects.Stop)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch target := r.Header.Get("X-Amz-Target"); {
		case strings.HasPrefix(target, "TrentService."):
			answerKMS(w, r, strings.TrimPrefix(target, "TrentService."))
		case target != "":
			pass(database).ServeHTTP(w, r)
		default:
			pass(objects.Endpoint).ServeHTTP(w, r)
		}
	}))
	t.Cleanup(front.Close)
	sdk := aws.Config{Region: emulator.Region, Credentials: credentials.NewStaticCredentialsProvider(own.AccessKeyID, own.SecretAccessKey, "")}
	if err := store.CreateTable(t.Context(), store.Connect(sdk, front.URL), "gatewright-dev-table"); err != nil {
		t.Fatal(err)
	}
	if err := blob.New(sdk, blob.Options{Name: "gatewright-dev-bucket", Endpoint: front.URL}).Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	return []string{
		"TABLE=gatewright-dev-table", "BUCKET=gatewright-dev-bucket", "KMS_KEY=" + kmsKey,
		"AWS_ENDPOINT_URL=" + front.URL, "AWS_REGION=" + emulator.Region, "AWS_ACCESS_KEY_ID=" + own.AccessKeyID, "AWS_SECRET_ACCESS_KEY=" + own.SecretAccessKey,
	}
}

// pass passes requests on as they were signed.
func pass(to string) http.Handler {
	at, _ := url.Parse(to)
	return &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(at)
		r.Out.Host = r.In.Host
	}}
}

const kmsKey = "11111111-2222-3333-4444-555555555555"

// answerKMS wraps a key by saying which KMS key and which encryption context it is wrapped with.
func answerKMS(w http.ResponseWriter, r *http.Request, operation string) {
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
	switch opened, ours := strings.CutPrefix(string(in.CiphertextBlob), wrapping); {
	case err != nil, in.KeyID != kmsKey, len(in.EncryptionContext) == 0:
		http.Error(w, `{"__type":"NotFoundException"}`, http.StatusBadRequest)
		return
	case operation == "Encrypt":
		out["CiphertextBlob"] = []byte(wrapping + base64.StdEncoding.EncodeToString(in.Plaintext))
	case operation == "Decrypt" && ours:
		plain, _ := base64.StdEncoding.DecodeString(opened)
		out["Plaintext"] = plain
	default:
		http.Error(w, `{"__type":"InvalidCiphertextException"}`, http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	_ = json.NewEncoder(w).Encode(out)
}

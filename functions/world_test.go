package functions_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/gatewright/gatewright/functions"
	"github.com/gatewright/gatewright/functions/builder"
	"github.com/gatewright/gatewright/shared/accounts"
	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/blob"
	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/durable"
	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/seal"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

// world is an installation in memory whose clock stands still.
type world struct {
	t       *testing.T
	parts   installation.Parts
	items   *store.Memory
	counts  *counted
	bucket  *blob.Memory
	builder *builder.Handler
	routes  []api.Route
	http    http.Handler
	now     time.Time
}

// fixedKey is a root key for tests.
type fixedKey struct{}

func (fixedKey) Root(context.Context) ([]byte, error) {
	return bytes.Repeat([]byte{7}, seal.KeyBytes), nil
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, items: store.NewMemory(), now: storetest.Epoch}
	w.counts = &counted{Backend: w.items}
	clock := func() time.Time { return w.now }
	w.bucket = blob.NewMemory(clock)
	random := storetest.Random(t)
	w.parts = installation.Parts{
		Config: config.Config{DeploymentURL: "http://{deployment}.gateway.test"},
		Table:  storetest.Over(t, w.counts, storetest.Clock(clock)),
		Bucket: w.bucket, Key: fixedKey{}, Random: random, Now: clock,
		IDs: ids.NewSource(random, clock), Log: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	engine, err := durable.Engine(w.parts)
	if err != nil {
		t.Fatal(err)
	}
	services := functions.NewServices(w.parts)
	w.builder = &builder.Handler{Claims: services.Deployments, Engine: engine, Objects: w.bucket, Log: w.parts.Log}
	for _, g := range functions.Groups() {
		w.routes = append(w.routes, g.Bind(services)...)
	}
	w.restart()
	return w
}

// restart begins request ids anew, so that two worlds with different pasts
// answer the same request with the same bytes.
func (w *world) restart() {
	w.http = api.NewServer(api.Config{
		Authenticator: w.parts.Accounts(), Audit: w.parts.Table, Log: w.parts.Log, Now: w.parts.Now,
		IDs: ids.NewSource(rand.NewChaCha8([32]byte{}), w.parts.Now),
	}, w.routes)
}

// account makes an account and gives its full-access key.
func (w *world) account(name string) string {
	w.t.Helper()
	_, key, err := w.parts.Accounts().Create(w.t.Context(), name)
	if err != nil {
		w.t.Fatal(err)
	}
	return key
}

// key makes a key of an account.
func (w *world) key(account string, spec accounts.Spec) string {
	w.t.Helper()
	_, key, err := w.parts.Accounts().CreateKey(w.t.Context(), account, spec)
	if err != nil {
		w.t.Fatal(err)
	}
	return key
}

// send makes a request and gives the whole answer, headers included.
func (w *world) send(key, method, path, body string) (status int, answer string) {
	w.t.Helper()
	r := httptest.NewRequestWithContext(w.t.Context(), method, path, strings.NewReader(body))
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	out := httptest.NewRecorder()
	w.http.ServeHTTP(out, r)
	dump, err := httputil.DumpResponse(out.Result(), true)
	if err != nil {
		w.t.Fatal(err)
	}
	return out.Code, string(dump)
}

// ask is send for a request that has to succeed; it decodes the answer.
func (w *world) ask(key, method, path, body string) map[string]any {
	w.t.Helper()
	status, answer := w.send(key, method, path, body)
	_, text, _ := strings.Cut(answer, "\r\n\r\n")
	var out map[string]any
	if status >= http.StatusMultipleChoices || text != "" && json.Unmarshal([]byte(text), &out) != nil {
		w.t.Fatalf("%s %s: %s", method, path, answer)
	}
	return out
}

// deploy uploads a small project and builds it.
func (w *world) deploy(key, account, project, branch string) (statusID, deployment string) {
	w.t.Helper()
	issued := w.ask(key, http.MethodPost, "/v1/deployments/sources",
		`{"accountName":"`+account+`","projectName":"`+project+`","branchName":"`+branch+`"}`)
	statusID, _ = issued["deploymentId"].(string)
	object := w.bucket.Upload(blob.UploadKey(statusID), archive(w.t))
	event := events.S3Event{Records: []events.S3EventRecord{{
		EventName: "ObjectCreated:Put", EventTime: w.now,
		S3: events.S3Entity{Object: events.S3Object{Key: blob.UploadKey(statusID), ETag: object.ETag}},
	}}}
	if err := w.builder.Handle(w.t.Context(), event); err != nil {
		w.t.Fatal(err)
	}
	status := w.ask(key, http.MethodGet, "/v1/accounts/"+account+"/projects/"+project+"/deployment-status/"+statusID, "")
	if status["status"] != "SUCCESS" {
		w.t.Fatalf("build: %v", status)
	}
	url, _ := status["url"].(string)
	deployment, _, _ = strings.Cut(strings.TrimPrefix(url, "http://"), ".")
	return statusID, deployment
}

func archive(t *testing.T) []byte {
	t.Helper()
	files := map[string]string{
		"config/routes.oas.json": `{"openapi":"3.1.0","info":{"title":"t","version":"1"},"paths":{"/a":{"get":{"operationId":"a",
			"responses":{"200":{"description":"ok"}},"x-gateway-route":{"corsPolicy":"none","handler":{"export":"urlForwardHandler",
			"module":"$import(@gatewright/runtime)","options":{"baseUrl":"http://upstream.test"}},"policies":{"inbound":[]}}}}}}`,
		"config/policies.json": `{"policies":[],"corsPolicies":[]}`,
	}
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	a := tar.NewWriter(z)
	for _, name := range []string{"config/policies.json", "config/routes.oas.json"} {
		if err := a.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Size: int64(len(files[name])), Mode: 0o644}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(a, files[name]); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

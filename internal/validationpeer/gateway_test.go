package validationpeer_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/dataplane/gateway"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/upstream"
	"github.com/gatewright/gatewright/shared/dataplane/listen"
	"github.com/gatewright/gatewright/shared/format/project"
)

// hosted are the deployments of a gateway, by their hosts.
type hosted map[string]*gateway.Deployment

var _ gateway.Deployments = hosted{}

// Resolve implements gateway.Deployments.
func (h hosted) Resolve(_ context.Context, host string) (*gateway.Deployment, error) {
	if d := h[host]; d != nil {
		return d, nil
	}
	return nil, fault.Missing("deployment")
}

// host returns the host of the description with an index.
func host(description int) string { return fmt.Sprintf("description%d.test", description) }

// policies declares the policy that all routes have.
const policies = `{"policies": [{"name": "validate", "policyType": "request-validation-inbound", "handler": {
	"export": "RequestValidationInboundPolicy", "module": "$import(@gatewright/runtime)"}}]}`

// build compiles a project whose routes are the operations of a description.
func build(t *testing.T, file, upstreamURL string) *project.Artifact {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var document map[string]any
	if err := json.Unmarshal(raw, &document); err != nil {
		t.Fatal(err)
	}
	route := map[string]any{
		"policies": map[string]any{"inbound": []string{"validate"}},
		"handler": map[string]any{
			"export": "urlForwardHandler", "module": "$import(@gatewright/runtime)",
			"options": map[string]any{"baseUrl": upstreamURL},
		},
	}
	for _, item := range document["paths"].(map[string]any) {
		for name, operation := range item.(map[string]any) {
			if name != "parameters" {
				operation.(map[string]any)["x-gateway-route"] = route
			}
		}
	}
	if raw, err = json.Marshal(document); err != nil {
		t.Fatal(err)
	}
	files := project.Files{"config/routes.oas.json": raw, "config/policies.json": []byte(policies)}
	identity := project.Identity{
		AccountID: "a1", Account: "demo", Project: "shop", Branch: "main", Environment: "production",
		Deployment: "shop-main-1234567", BuildID: "0b0a4d5e-6f0a-4b8c-9d1e-2f3a4b5c6d7e",
	}
	a, result, err := project.NewCompiler().Compile(t.Context(), files,
		project.Input{Identity: identity, Catalog: gateway.Catalog{}, Verify: gateway.Verify})
	if err != nil || a == nil {
		t.Fatalf("Compile(%s) = %+v, %v, want no error", file, result.Errors, err)
	}
	return a
}

// connection is a connection to a gateway that serves the descriptions.
type connection struct {
	net.Conn
	address string
	reader  *bufio.Reader
}

// connect starts a gateway whose upstream accepts every request, and connects to it.
func connect(t *testing.T) *connection {
	t.Helper()
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(service.Close)
	deployments := hosted{}
	for i, file := range descriptions {
		deployments[host(i)] = &gateway.Deployment{Digest: file, Artifact: build(t, file, service.URL)}
	}
	source := ids.NewSource(rand.Reader, time.Now)
	client := upstream.New(upstream.Options{Guard: upstream.Guard{AllowPrivate: true}})
	server := listen.New(listen.Options{
		Handler: gateway.New(gateway.Config{
			Deployments: deployments, IDs: source, Now: time.Now, Log: slog.New(slog.DiscardHandler), Upstream: client,
		}),
		Settings: config.DefaultListener(), IDs: source, Log: slog.New(slog.DiscardHandler),
	})
	l, err := listen.Open(t.Context(), "127.0.0.1:0", "the gateway", "NOTHING")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() {
		_ = server.Close()
		client.Close()
	})
	c := &connection{address: l.Addr().String()}
	c.dial(t)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// dial opens a new connection.
func (c *connection) dial(t *testing.T) {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", c.address)
	if err != nil {
		t.Fatal(err)
	}
	c.Conn, c.reader = conn, bufio.NewReader(conn)
}

// send sends a request. It returns why the gateway refuses the request, or nothing if it accepts it.
func (c *connection) send(t *testing.T, r *request) (status int, refusal []string) {
	t.Helper()
	var raw bytes.Buffer
	fmt.Fprintf(&raw, "%s %s HTTP/1.1\r\nHost: %s\r\n", r.method, r.target(), host(r.description))
	for _, field := range r.fields {
		fmt.Fprintf(&raw, "%s: %s\r\n", field[0], field[1])
	}
	if r.hasBody() {
		fmt.Fprintf(&raw, "Content-Length: %d\r\n", len(r.body))
	}
	fmt.Fprintf(&raw, "\r\n%s", r.body)
	if _, err := c.Write(raw.Bytes()); err != nil {
		t.Fatalf("%s: %v", r, err)
	}
	response, err := http.ReadResponse(c.reader, &http.Request{Method: r.method})
	if err != nil {
		t.Fatalf("%s: %v", r, err)
	}
	defer response.Body.Close()
	all, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("%s: %v", r, err)
	}
	if response.Close { // the gateway closes the connection after a message with malformed header fields
		_ = c.Close()
		c.dial(t)
	}
	if response.StatusCode == http.StatusNoContent {
		return response.StatusCode, nil
	}
	var problem struct {
		Detail string
		Errors []struct{ In, Pointer, Detail string }
	}
	if err := json.Unmarshal(all, &problem); err != nil {
		t.Fatalf("%s: status = %d, body = %s: %v", r, response.StatusCode, all, err)
	}
	for _, e := range problem.Errors {
		refusal = append(refusal, fmt.Sprintf("%s %s: %s", e.In, e.Pointer, e.Detail))
	}
	if len(refusal) == 0 {
		refusal = []string{fmt.Sprintf("%d: %s", response.StatusCode, problem.Detail)}
	}
	return response.StatusCode, refusal
}

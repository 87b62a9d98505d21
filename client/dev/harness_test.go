package dev_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatewright/gatewright/client/dev"
)

// syncBuffer is a bytes.Buffer for several goroutines.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// testServer is a running dev server with its project folder.
type testServer struct {
	t        testing.TB
	folder   string
	url      string
	out, err syncBuffer
	stop     context.CancelFunc
	done     chan error
}

// start serves a folder with these files until the test ends.
func start(t testing.TB, files map[string]string, options ...func(*dev.Options)) *testServer {
	t.Helper()
	r := &testServer{t: t, folder: t.TempDir(), done: make(chan error, 1)}
	for name, text := range files {
		r.save(name, text)
	}
	r.run(options...)
	return r
}

func (s *testServer) run(options ...func(*dev.Options)) {
	s.t.Helper()
	ctx, stop := context.WithCancel(s.t.Context())
	s.stop = stop
	ready := make(chan net.Addr, 1)
	o := dev.Options{Folder: s.folder, Addr: "127.0.0.1:0", Out: &s.out, Err: &s.err, Ready: func(a net.Addr) {
		ready <- a
	}}
	for _, change := range options {
		change(&o)
	}
	go func() { s.done <- dev.Run(ctx, o) }()
	select {
	case addr := <-ready:
		s.url = "http://" + addr.String()
	case err := <-s.done:
		s.t.Fatalf("Run() = %v with the messages %s, want a server", err, s.err.String())
	}
	s.t.Cleanup(func() {
		stop()
		<-s.done
	})
}

// save writes a file under another name and then renames it, like many editors.
func (s *testServer) save(name, text string) {
	s.t.Helper()
	path := filepath.Join(s.folder, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path+"~", []byte(text), 0o644); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Rename(path+"~", path); err != nil {
		s.t.Fatal(err)
	}
}

// waitForMessage waits until the messages contain a text, and returns the messages.
func (s *testServer) waitForMessage(text string) string {
	s.t.Helper()
	for range 1000 {
		if output := s.err.String(); strings.Contains(output, text) {
			return output
		}
		time.Sleep(10 * time.Millisecond)
	}
	s.t.Fatalf("messages = %s, want %q", s.err.String(), text)
	return ""
}

// waitForLogLine waits until a log line of a request contains a text, and returns the line.
func (s *testServer) waitForLogLine(text string) string {
	s.t.Helper()
	for range 1000 {
		for line := range strings.Lines(s.out.String()) {
			if strings.Contains(line, text) {
				return line
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	s.t.Fatalf("log lines = %s, want one with %q", s.out.String(), text)
	return ""
}

// shownKey returns a bucket's key from the messages.
func (s *testServer) shownKey(bucket string) string {
	s.t.Helper()
	match := regexp.MustCompile(`consumer dev of the bucket ` + bucket + ` has the key (gwk_\w+)`).FindStringSubmatch(
		s.err.String())
	if match == nil {
		s.t.Fatalf("messages = %s, want a key of the bucket %s", s.err.String(), bucket)
	}
	return match[1]
}

// do sends a request, with a key unless key is "". It returns the status and the body of the response.
func (s *testServer) do(method, path, key string) (int, string) {
	s.t.Helper()
	request, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, http.NoBody)
	if err != nil {
		s.t.Fatal(err)
	}
	if key != "" {
		request.Header.Set("Authorization", "Bearer "+key)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

// waitForResponse repeats a request until the response has this status and contains the given text: a save is served
// within a moment.
func (s *testServer) waitForResponse(path, key string, status int, text string) {
	s.t.Helper()
	var got int
	var body string
	for range 1000 {
		if got, body = s.do(http.MethodGet, path, key); got == status && strings.Contains(body, text) {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	s.t.Fatalf("GET %s = %d %s, want %d with %q; messages: %s", path, got, body, status, text, s.err.String())
}

// newUpstream starts an upstream with a handler, and returns its URL.
func newUpstream(t testing.TB, f http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	return s.URL
}

// route describes an operation in routes.oas.json.
type route struct {
	path, method, upstream string
	inbound, outbound      []string
	extra                  string // additional members of the operation, in JSON
}

// routesFile returns the content of config/routes.oas.json.
func routesFile(routes ...route) string {
	paths := map[string]map[string]any{}
	for _, r := range routes {
		if r.method == "" {
			r.method = "get"
		}
		operation := map[string]any{
			"operationId": r.method + strings.ReplaceAll(r.path, "/", "-"),
			"responses":   map[string]any{"200": map[string]any{"description": "An answer"}},
			"x-gateway-route": map[string]any{
				"corsPolicy": "none",
				"handler": map[string]any{
					"export": "urlForwardHandler", "module": "$import(@gatewright/runtime)",
					"options": map[string]any{"baseUrl": r.upstream},
				},
				"policies": map[string]any{
					"inbound":  append([]string{}, r.inbound...),
					"outbound": append([]string{}, r.outbound...),
				},
			},
		}
		if r.extra != "" {
			var extra map[string]any
			if err := json.Unmarshal([]byte(r.extra), &extra); err != nil {
				panic(err)
			}
			for name, value := range extra {
				operation[name] = value
			}
		}
		if paths[r.path] == nil {
			paths[r.path] = map[string]any{}
		}
		paths[r.path][r.method] = operation
	}
	return toJSON(map[string]any{"openapi": "3.1.0", "info": map[string]any{"title": "A", "version": "1"}, "paths": paths})
}

// policyEntry returns an entry of policies.json.
func policyEntry(name, kind, export, module string, options map[string]any) map[string]any {
	return map[string]any{
		"name": name, "policyType": kind,
		"handler": map[string]any{"export": export, "module": "$import(@gatewright/" + module + ")", "options": options},
	}
}

func policiesFile(all ...map[string]any) string { return toJSON(map[string]any{"policies": all}) }

func toJSON(value any) string {
	data, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		panic(fmt.Sprint(err))
	}
	return string(data)
}

// keyPolicy returns the policy who, which requires a key of the bucket shop.
func keyPolicy() map[string]any {
	return policyEntry("who", "api-key-inbound", "ApiKeyInboundPolicy", "runtime", map[string]any{"bucketName": "shop"})
}

// limitPolicy returns the policy limit, which allows each consumer this number of requests per day.
func limitPolicy(requests int) map[string]any {
	return policyEntry("limit", "rate-limit-inbound", "RateLimitInboundPolicy", "runtime",
		map[string]any{"rateLimitBy": "user", "requestsAllowed": requests, "timeWindowMinutes": 1440, "mode": "strict"})
}

// writef writes a text as response.
func writef(w http.ResponseWriter, format string, args ...any) {
	_, _ = fmt.Fprintf(w, format, args...)
}

// documents sets Options.Document, so that the server writes a JSON document for each request.
func documents(o *dev.Options) {
	out := o.Out
	o.Document = func(text []byte) error {
		_, err := out.Write(append(text, '\n'))
		return err
	}
}

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

// buffer is a bytes.Buffer for several goroutines.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// run is a folder that is served.
type run struct {
	t        testing.TB
	folder   string
	url      string
	out, err buffer
	stop     context.CancelFunc
	ended    chan error
}

// start serves a folder of files until the test ends.
func start(t testing.TB, files map[string]string, options ...func(*dev.Options)) *run {
	t.Helper()
	r := &run{t: t, folder: t.TempDir(), ended: make(chan error, 1)}
	for name, text := range files {
		r.save(name, text)
	}
	r.begin(options...)
	return r
}

func (r *run) begin(options ...func(*dev.Options)) {
	r.t.Helper()
	ctx, stop := context.WithCancel(r.t.Context())
	r.stop = stop
	ready := make(chan net.Addr, 1)
	o := dev.Options{Folder: r.folder, Addr: "127.0.0.1:0", Out: &r.out, Err: &r.err, Ready: func(a net.Addr) { ready <- a }}
	for _, change := range options {
		change(&o)
	}
	go func() { r.ended <- dev.Run(ctx, o) }()
	select {
	case at := <-ready:
		r.url = "http://" + at.String()
	case err := <-r.ended:
		r.t.Fatalf("it ended with %v: %s", err, r.err.String())
	}
	r.t.Cleanup(func() {
		stop()
		<-r.ended
	})
}

// save writes a file as an editor does, by renaming.
func (r *run) save(name, text string) {
	r.t.Helper()
	path := filepath.Join(r.folder, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(path+"~", []byte(text), 0o644); err != nil {
		r.t.Fatal(err)
	}
	if err := os.Rename(path+"~", path); err != nil {
		r.t.Fatal(err)
	}
}

// told waits until a text has been told.
func (r *run) told(text string) string {
	r.t.Helper()
	for range 1000 {
		if all := r.err.String(); strings.Contains(all, text) {
			return all
		}
		time.Sleep(10 * time.Millisecond)
	}
	r.t.Fatalf("%q is not told: %s", text, r.err.String())
	return ""
}

// line waits until a line about a request has a text.
func (r *run) line(text string) string {
	r.t.Helper()
	for range 1000 {
		for line := range strings.Lines(r.out.String()) {
			if strings.Contains(line, text) {
				return line
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	r.t.Fatalf("no line has %q: %s", text, r.out.String())
	return ""
}

// key is the key that was told of a bucket.
func (r *run) key(bucket string) string {
	r.t.Helper()
	found := regexp.MustCompile(`consumer dev of the bucket ` + bucket + ` has the key (gwk_\w+)`).FindStringSubmatch(r.err.String())
	if found == nil {
		r.t.Fatalf("no key of %s is told: %s", bucket, r.err.String())
	}
	return found[1]
}

// ask sends a request, with a key if it is not "", and answers status and body.
func (r *run) ask(method, path, key string) (int, string) {
	r.t.Helper()
	request, err := http.NewRequestWithContext(r.t.Context(), method, r.url+path, http.NoBody)
	if err != nil {
		r.t.Fatal(err)
	}
	if key != "" {
		request.Header.Set("Authorization", "Bearer "+key)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		r.t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

// want asks until an answer has a status and holds a text: a save is served within a moment.
func (r *run) want(path, key string, status int, text string) {
	r.t.Helper()
	var got int
	var body string
	for range 1000 {
		if got, body = r.ask(http.MethodGet, path, key); got == status && strings.Contains(body, text) {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	r.t.Fatalf("%s answers %d %s, not %d with %q; told was %s", path, got, body, status, text, r.err.String())
}

// upstreamOf answers by a function.
func upstreamOf(t testing.TB, f http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	return s.URL
}

// route is an operation of a project.
type route struct {
	path, method, upstream string
	inbound, outbound      []string
	more                   string // members of the operation
}

// routesFile is config/routes.oas.json with some routes.
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
					"export": "urlForwardHandler", "module": "$import(@gatewright/runtime)", "options": map[string]any{"baseUrl": r.upstream},
				},
				"policies": map[string]any{"inbound": append([]string{}, r.inbound...), "outbound": append([]string{}, r.outbound...)},
			},
		}
		if r.more != "" {
			var more map[string]any
			if err := json.Unmarshal([]byte(r.more), &more); err != nil {
				panic(err)
			}
			for name, value := range more {
				operation[name] = value
			}
		}
		if paths[r.path] == nil {
			paths[r.path] = map[string]any{}
		}
		paths[r.path][r.method] = operation
	}
	return text(map[string]any{"openapi": "3.1.0", "info": map[string]any{"title": "A", "version": "1"}, "paths": paths})
}

// policyOf is an entry of policies.json.
func policyOf(name, kind, export, module string, options map[string]any) map[string]any {
	return map[string]any{"name": name, "policyType": kind, "handler": map[string]any{"export": export, "module": "$import(@gatewright/" + module + ")", "options": options}}
}

func policiesFile(all ...map[string]any) string { return text(map[string]any{"policies": all}) }

func text(value any) string {
	data, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		panic(fmt.Sprint(err))
	}
	return string(data)
}

// The policies of these tests.
func keyPolicy() map[string]any {
	return policyOf("who", "api-key-inbound", "ApiKeyInboundPolicy", "runtime", map[string]any{"bucketName": "shop"})
}

func limitPolicy(requests int) map[string]any {
	return policyOf("limit", "rate-limit-inbound", "RateLimitInboundPolicy", "runtime",
		map[string]any{"rateLimitBy": "user", "requestsAllowed": requests, "timeWindowMinutes": 1440, "mode": "strict"})
}

// say answers a text.
func say(w http.ResponseWriter, format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) }

// documents has each request be a JSON document on a line.
func documents(o *dev.Options) {
	out := o.Out
	o.Document = func(text []byte) error {
		_, err := out.Write(append(text, '\n'))
		return err
	}
}

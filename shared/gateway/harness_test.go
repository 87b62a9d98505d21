package gateway_test

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatewright/gatewright/internal/deadline"
	sharedconfig "github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/gateway"
	"github.com/gatewright/gatewright/shared/gateway/policy"
	"github.com/gatewright/gatewright/shared/gateway/upstream"
	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/listen"
	"github.com/gatewright/gatewright/shared/project"
)

const buildID = "0b0a4d5e-6f0a-4b8c-9d1e-2f3a4b5c6d7e"

// house is a gateway over fakes, behind the product's listener, with one deployment
// at the host "shop.test".
type house struct {
	URL         string
	server      *listen.Server
	gateway     *gateway.Gateway
	deployments fakeDeployments
	keys        *fakeKeys
	allowances  *fakeAllowances
	log         *syncBuffer
	ids         *ids.Source
}

// setting changes what a house is made of.
type setting func(*gateway.Config, *upstream.Options)

func newHouse(t testing.TB, a *project.Artifact, settings ...setting) *house {
	t.Helper()
	return houseBehind(t, sharedconfig.DefaultListener(), a, settings...)
}

// impatientHouse refuses bodies that stall after 200 ms. It is for tests of bodies that never arrive: on a slow machine it takes any
// other body that arrives in parts for one of them.
func impatientHouse(t testing.TB, a *project.Artifact, settings ...setting) *house {
	t.Helper()
	bounds := sharedconfig.DefaultListener()
	bounds.BodyTimeout = 200 * time.Millisecond
	return houseBehind(t, bounds, a, settings...)
}

// houseBehind is a house whose listener has the bounds.
func houseBehind(t testing.TB, bounds sharedconfig.Listener, a *project.Artifact, settings ...setting) *house {
	t.Helper()
	h := &house{
		deployments: fakeDeployments{"shop.test": {Digest: "one", Artifact: a}},
		keys:        &fakeKeys{},
		allowances:  &fakeAllowances{left: map[string]int64{}},
		log:         &syncBuffer{},
	}
	config := gateway.Config{
		Deployments: h.deployments,
		Keys:        policy.NewKeyCache(h.keys, 1024, [32]byte{1}, time.Now),
		Allowances:  h.allowances,
		IDs:         ids.NewSource(rand.Reader, time.Now),
		Now:         time.Now,
		Log:         slog.New(slog.NewTextHandler(h.log, nil)),
	}
	options := upstream.Options{Guard: upstream.Guard{AllowPrivate: true}, Standard: overStandard(t)}
	for _, set := range settings {
		set(&config, &options)
	}
	h.ids = ids.NewSource(rand.Reader, time.Now)
	config.Upstream = upstream.New(options)
	h.gateway = gateway.New(config)
	l, err := listen.On(t.Context(), "127.0.0.1:0", "the gateway", "NOTHING")
	if err != nil {
		t.Fatal(err)
	}
	bounds.StandardHTTP = overStandard(t)
	h.URL = "http://" + l.Addr().String()
	h.server = listen.New(listen.Options{Handler: h.gateway, Settings: bounds, IDs: config.IDs, Log: slog.New(slog.DiscardHandler)})
	go func() { _ = h.server.Serve(l) }()
	t.Cleanup(func() {
		h.Close()
		config.Upstream.Close()
	})
	return h
}

// Close waits until all requests are answered.
func (h *house) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second) // connections without a request are not waited for
	defer cancel()
	if h.server.Shutdown(ctx) != nil {
		_ = h.server.Close()
	}
}

// artifact makes an artifact of routes that all have their methods and paths in
// one text, "GET /todos/{id}".
func artifact(routes ...project.Route) *project.Artifact {
	return &project.Artifact{
		Format: project.ArtifactFormat,
		Identity: project.Identity{
			AccountID: "a1", Account: "demo", Project: "shop", Branch: "main", Environment: "production",
			Deployment: "shop-main-1234567", BuildID: buildID,
		},
		Routes:   routes,
		Policies: map[string]project.Policy{},
	}
}

func route(methodAndPath string, h project.Component, inbound ...string) project.Route {
	method, path, _ := strings.Cut(methodAndPath, " ")
	return project.Route{
		OperationID: methodAndPath, Method: method, Path: path, PathMode: project.OpenAPIPath,
		Source:  project.Source{File: "config/routes.oas.json", Pointer: "/paths/~1x/" + strings.ToLower(method)},
		Handler: h, Inbound: inbound, CORSPolicy: "none",
	}
}

func component(export string, options any) project.Component {
	raw, err := json.Marshal(options)
	if err != nil {
		panic(err)
	}
	return project.Component{Export: export, Module: "$import(@gatewright/runtime)", Options: raw}
}

func forward(base string) project.Component {
	return component("urlForwardHandler", map[string]any{"baseUrl": base})
}

func rewrite(pattern string) project.Component {
	return component("urlRewriteHandler", map[string]any{"rewritePattern": pattern})
}

func declare(a *project.Artifact, name, policyType string, options any) {
	a.Policies[name] = project.Policy{Name: name, Type: policyType, Handler: component("x", options)}
}

// do sends a request to the house as a client of shop.test.
func (h *house) do(t testing.TB, method, target string, set ...func(*http.Request)) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, h.URL+target, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = "shop.test"
	for _, f := range set {
		f(r)
	}
	response, err := (&http.Transport{DisableKeepAlives: true, DisableCompression: true}).RoundTrip(r)
	if err != nil {
		t.Fatalf("%s %s: %v", method, target, err)
	}
	t.Cleanup(func() { _ = response.Body.Close() })
	return response
}

func header(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Add(name, value) }
}

func host(name string) func(*http.Request) { return func(r *http.Request) { r.Host = name } }

func body(t testing.TB, r *http.Response) string {
	t.Helper()
	all, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(all)
}

// problemOf reads a problem document and checks what all of them have.
func problemOf(t testing.TB, r *http.Response) problemDocument {
	t.Helper()
	if got := r.Header.Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("content type %q", got)
	}
	var p problemDocument
	if err := json.Unmarshal([]byte(body(t, r)), &p); err != nil {
		t.Fatalf("decode a problem: %v", err)
	}
	if p.Status != r.StatusCode || p.Trace.RequestID != r.Header.Get("X-Request-Id") || p.Trace.RequestID == "" {
		t.Errorf("status %d in %d, request id %q in %q", p.Status, r.StatusCode, p.Trace.RequestID, r.Header.Get("X-Request-Id"))
	}
	if _, err := time.Parse("2006-01-02T15:04:05.000Z", p.Trace.Timestamp); err != nil {
		t.Errorf("timestamp: %v", err)
	}
	return p
}

type problemDocument struct {
	Type, Title, Detail, Instance string
	Status                        int
	Trace                         struct{ RequestID, Timestamp, BuildID string }
}

// raw speaks bytes with a server.
func raw(t testing.TB, address, request string) (*bufio.Reader, net.Conn) {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(address, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(deadline.Long())); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	return bufio.NewReader(conn), conn
}

// serve starts an upstream.
func serve(t testing.TB, f http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	return s
}

// rawUpstream answers each connection by f, which speaks bytes.
func rawUpstream(t testing.TB, f func(r *bufio.Reader, conn net.Conn)) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				f(bufio.NewReader(conn), conn)
			}()
		}
	}()
	return "http://" + listener.Addr().String()
}

// say writes what a test's upstream answers.
func say(w io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) }

type fakeDeployments map[string]*gateway.Deployment

func (f fakeDeployments) Resolve(_ context.Context, host string) (*gateway.Deployment, error) {
	if host == "broken.test" {
		return nil, io.ErrUnexpectedEOF
	}
	if d := f[host]; d != nil {
		return d, nil
	}
	return nil, fault.Missing("deployment")
}

// fakeKeys knows keys by bucket and text.
type fakeKeys struct {
	mu    sync.Mutex
	known map[string]policy.Identity // by "bucket key"
	calls int
	err   error
	last  policy.BucketRef
}

func (f *fakeKeys) Verify(_ context.Context, in policy.BucketRef, key string) (policy.Identity, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls++
	f.last = in
	if f.err != nil {
		return policy.Identity{}, f.err
	}
	if id, ok := f.known[in.Name+in.ID+" "+key]; ok {
		return id, nil
	}
	return policy.Identity{}, fault.New(fault.Unauthenticated, "Authorization Failed")
}

// fakeAllowances counts down without windows.
type fakeAllowances struct {
	mu    sync.Mutex
	left  map[string]int64
	asked []policy.Allowance
	err   error
}

func (f *fakeAllowances) Take(_ context.Context, a policy.Allowance) (policy.Decision, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, a)
	if f.err != nil {
		return policy.Decision{}, f.err
	}
	used := f.left[a.Name]
	f.left[a.Name]++
	if used < a.Limit {
		return policy.Decision{Admitted: true, Remaining: a.Limit - used - 1, Ends: 1500 * time.Millisecond}, nil
	}
	return policy.Decision{Ends: 1500 * time.Millisecond}, nil
}

type syncBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

func trustLoopback(c *gateway.Config, _ *upstream.Options) { c.TrustedProxies = loopback }

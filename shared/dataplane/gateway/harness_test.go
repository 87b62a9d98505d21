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

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/base/ids"
	sharedconfig "github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/dataplane/gateway"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/policy"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/upstream"
	"github.com/gatewright/gatewright/shared/dataplane/listen"
	"github.com/gatewright/gatewright/shared/format/project"
	"github.com/gatewright/gatewright/shared/testing/deadline"
)

const buildID = "0b0a4d5e-6f0a-4b8c-9d1e-2f3a4b5c6d7e"

// fixture is a gateway with fake dependencies and the product's listener. It has one deployment, at the host
// "shop.test".
type fixture struct {
	URL         string
	server      *listen.Server
	gateway     *gateway.Gateway
	deployments fakeDeployments
	keys        *fakeKeys
	allowances  *fakeAllowances
	log         *syncBuffer
	ids         *ids.Source // for a second listener of a test
}

// setting changes the configuration of a fixture.
type setting func(*gateway.Config, *upstream.Options)

// newFixture returns a fixture whose listener has the default settings.
func newFixture(t testing.TB, a *project.Artifact, settings ...setting) *fixture {
	t.Helper()
	return newFixtureWithLimits(t, sharedconfig.DefaultListener(), a, settings...)
}

// newShortTimeoutFixture returns a fixture that refuses bodies that stall for 200 ms. Use it only for bodies that never
// arrive: on a slow machine, bodies that arrive in parts can stall for longer.
func newShortTimeoutFixture(t testing.TB, a *project.Artifact, settings ...setting) *fixture {
	t.Helper()
	listenerSettings := sharedconfig.DefaultListener()
	listenerSettings.BodyTimeout = 200 * time.Millisecond
	return newFixtureWithLimits(t, listenerSettings, a, settings...)
}

// newFixtureWithLimits returns a fixture whose listener has listenerSettings.
func newFixtureWithLimits(
	t testing.TB, listenerSettings sharedconfig.Listener, a *project.Artifact, settings ...setting,
) *fixture {
	t.Helper()
	h := &fixture{
		deployments: fakeDeployments{"shop.test": {Digest: "one", Artifact: a}},
		keys:        &fakeKeys{},
		allowances:  &fakeAllowances{used: map[string]int64{}},
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
	options := upstream.Options{Guard: upstream.Guard{AllowPrivate: true}, Standard: isStandardRun(t)}
	for _, set := range settings {
		set(&config, &options)
	}
	h.ids = ids.NewSource(rand.Reader, time.Now)
	config.Upstream = upstream.New(options)
	h.gateway = gateway.New(config)
	l, err := listen.Open(t.Context(), "127.0.0.1:0", "the gateway", "NOTHING")
	if err != nil {
		t.Fatal(err)
	}
	listenerSettings.StandardHTTP = isStandardRun(t)
	h.URL = "http://" + l.Addr().String()
	h.server = listen.New(listen.Options{
		Handler: h.gateway, Settings: listenerSettings, IDs: config.IDs,
		Log: slog.New(slog.DiscardHandler),
	})
	go func() { _ = h.server.Serve(l) }()
	t.Cleanup(func() {
		h.Close()
		config.Upstream.Close()
	})
	return h
}

// Close shuts the listener down, and waits up to five seconds until all requests have responses. Then it closes the
// remaining connections.
func (fx *fixture) Close() {
	// Shutdown can wait for connections without a request, so limit its time.
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if fx.server.Shutdown(ctx) != nil {
		_ = fx.server.Close()
	}
}

// artifact returns an artifact with these routes.
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

// route returns a route with a handler, inbound policies and no CORS policy. Its operation ID is methodAndPath.
func route(methodAndPath string, h project.Component, inbound ...string) project.Route {
	method, path, _ := strings.Cut(methodAndPath, " ")
	return project.Route{
		OperationID: methodAndPath, Method: method, Path: path, PathMode: project.OpenAPIPath,
		Source:  project.Source{File: "config/routes.oas.json", Pointer: "/paths/~1x/" + strings.ToLower(method)},
		Handler: h, Inbound: inbound, CORSPolicy: "none",
	}
}

// component returns a component of the runtime module with these options.
func component(export string, options any) project.Component {
	raw, err := json.Marshal(options)
	if err != nil {
		panic(err)
	}
	return project.Component{Export: export, Module: "$import(@gatewright/runtime)", Options: raw}
}

// forward returns a handler that sends requests to base, followed by the request's path.
func forward(base string) project.Component {
	return component("urlForwardHandler", map[string]any{"baseUrl": base})
}

// rewrite returns a handler that sends requests to the address of a rewrite pattern.
func rewrite(pattern string) project.Component {
	return component("urlRewriteHandler", map[string]any{"rewritePattern": pattern})
}

// declare adds a policy to an artifact.
func declare(a *project.Artifact, name, policyType string, options any) {
	a.Policies[name] = project.Policy{Name: name, Type: policyType, Handler: component("x", options)}
}

// do sends a request to the fixture on a new connection. The host is shop.test. modifiers can change the request.
func (fx *fixture) do(t testing.TB, method, target string, modifiers ...func(*http.Request)) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, fx.URL+target, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = "shop.test"
	for _, modify := range modifiers {
		modify(r)
	}
	response, err := (&http.Transport{DisableKeepAlives: true, DisableCompression: true}).RoundTrip(r)
	if err != nil {
		t.Fatalf("%s %s: error = %v, want a response", method, target, err)
	}
	t.Cleanup(func() { _ = response.Body.Close() })
	return response
}

// header returns a function that adds a field to a request.
func header(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Add(name, value) }
}

func host(name string) func(*http.Request) { return func(r *http.Request) { r.Host = name } }

// body reads the body of a response. It fails the test if the body breaks off.
func body(t testing.TB, r *http.Response) string {
	t.Helper()
	all, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatalf("ReadAll(body of the response): error = %v, want the complete body", err)
	}
	return string(all)
}

// problemOf reads a problem document, and checks its content type, status, request ID and timestamp.
func problemOf(t testing.TB, r *http.Response) problemDocument {
	t.Helper()
	if got := r.Header.Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("problem: Content-Type = %q, want application/problem+json", got)
	}
	var p problemDocument
	text := body(t, r)
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		t.Fatalf("response with status %d: body = %s: %v, want a problem", r.StatusCode, text, err)
	}
	if p.Status != r.StatusCode || p.Trace.RequestID != r.Header.Get("X-Request-Id") || p.Trace.RequestID == "" {
		t.Errorf("problem: status = %d, request ID = %q, want those of the response, %d and %q, and an ID",
			p.Status, p.Trace.RequestID, r.StatusCode, r.Header.Get("X-Request-Id"))
	}
	if _, err := time.Parse("2006-01-02T15:04:05.000Z", p.Trace.Timestamp); err != nil {
		t.Errorf("problem: timestamp = %q: %v, want a time in UTC with milliseconds", p.Trace.Timestamp, err)
	}
	return p
}

type problemDocument struct {
	Type, Title, Detail, Instance string
	Status                        int
	Trace                         struct{ RequestID, Timestamp, BuildID string }
}

// sendRaw sends the bytes of request to the server at the address or URL. It returns a reader of the new connection,
// and the connection.
func sendRaw(t testing.TB, address, request string) (*bufio.Reader, net.Conn) {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(address, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(deadline.Timeout())); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	return bufio.NewReader(conn), conn
}

// readSwitch reads a response with status 101. It fails the test if the response has another status.
func readSwitch(t testing.TB, r *bufio.Reader) *http.Response {
	t.Helper()
	response, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatalf("ReadResponse() of a request with Upgrade: error = %v, want a response", err)
	}
	if response.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("response to a request with Upgrade: status = %d, want 101", response.StatusCode)
	}
	return response
}

// serve starts an upstream.
func serve(t testing.TB, f http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	return s
}

// rawUpstream starts an upstream that calls f for each connection and then closes it. It returns the upstream's URL.
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

// writef writes a part of an upstream's response.
func writef(w io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) }

// fakeDeployments implements gateway.Deployments with deployments by host. The lookup of broken.test fails.
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

// fakeKeys implements policy.Keys with known keys. If err is not nil, Verify returns err.
type fakeKeys struct {
	mu    sync.Mutex
	known map[string]policy.KeyOwner // by the bucket's name or ID, a space, and the key
	calls int
	err   error
	// lastBucket is the bucket of the last call of Verify.
	lastBucket policy.BucketRef
}

func (f *fakeKeys) Verify(_ context.Context, in policy.BucketRef, key string) (policy.KeyOwner, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls++
	f.lastBucket = in
	if f.err != nil {
		return policy.KeyOwner{}, f.err
	}
	if id, ok := f.known[in.Name+in.ID+" "+key]; ok {
		return id, nil
	}
	return policy.KeyOwner{}, fault.New(fault.Unauthenticated, "Authorization Failed")
}

// fakeAllowances implements policy.Allowances. It counts the calls of Take for each allowance, and its windows do not
// end. If err is not nil, Take returns err and counts nothing.
type fakeAllowances struct {
	mu    sync.Mutex
	used  map[string]int64   // by the allowance's name
	taken []policy.Allowance // the arguments of all calls of Take
	err   error
}

func (f *fakeAllowances) Take(_ context.Context, a policy.Allowance) (policy.Decision, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.taken = append(f.taken, a)
	if f.err != nil {
		return policy.Decision{}, f.err
	}
	used := f.used[a.Name]
	f.used[a.Name]++
	if used < a.Limit {
		return policy.Decision{Admitted: true, Remaining: a.Limit - used - 1, ResetAfter: 1500 * time.Millisecond}, nil
	}
	return policy.Decision{ResetAfter: 1500 * time.Millisecond}, nil
}

// syncBuffer collects text. It is safe for concurrent use.
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

// trustLoopback makes the gateway trust the forwarding header fields of clients on this machine.
func trustLoopback(c *gateway.Config, _ *upstream.Options) { c.TrustedProxies = loopback }

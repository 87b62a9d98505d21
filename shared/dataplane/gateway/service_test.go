package gateway_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/gatewright/gatewright/shared/dataplane/gateway"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/upstream"
	"github.com/gatewright/gatewright/shared/format/credential"
	"github.com/gatewright/gatewright/shared/format/project"
	"github.com/gatewright/gatewright/shared/format/tunnel"
)

// fakeServices implements upstream.Services. It records the requests and calls handler.
type fakeServices struct {
	mu      sync.Mutex
	calls   []string
	handler func(r *http.Request) (*http.Response, error)
}

// RoundTrip implements upstream.Services.
func (f *fakeServices) RoundTrip(r *http.Request, accountID, service string, c tunnel.Caller) (*http.Response, error) {
	f.mu.Lock()
	f.calls = append(f.calls, fmt.Sprintf("%s %s for %s %s: %s %s", accountID, service, c.Project, c.Environment, r.Method,
		r.URL.RequestURI()))
	f.mu.Unlock()
	return f.handler(r)
}

// takeCalls removes and returns the recorded requests.
func (f *fakeServices) takeCalls() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := f.calls
	f.calls = nil
	return out
}

// apply is a setting that makes a fixture use these services.
func (f *fakeServices) apply(_ *gateway.Config, o *upstream.Options) { o.Services = f }

// proxyServices returns services that forward requests to a server.
func proxyServices(t *testing.T, serverURL string) *fakeServices {
	t.Helper()
	target, err := url.Parse(serverURL)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &fakeServices{handler: func(r *http.Request) (*http.Response, error) {
		r.URL.Host = target.Host
		return transport.RoundTrip(r)
	}}
}

// failingServices returns services whose calls fail with err.
func failingServices(err error) *fakeServices {
	return &fakeServices{handler: func(*http.Request) (*http.Response, error) { return nil, err }}
}

// newResponse returns a response of unknown length, as upstream.Services returns it.
func newResponse(status int, header http.Header, body io.Reader) *http.Response {
	return &http.Response{
		StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: header, Body: io.NopCloser(body),
		ContentLength: -1,
	}
}

func TestServiceIsCalledByExactNameAndEnvironment(t *testing.T) {
	services := proxyServices(t, serve(t, echo).URL)
	a := artifact(
		route("GET /todos/{id}", forward("service://Stock/v1")),
		route("GET /small/{id}", forward("service://stock")),
		route("GET /old/{id}", rewrite("SERVICE://Stock-2/new?id=${params.id}")),
		route("GET /named", rewrite("service://${env.SERVICE}/${query.q}")),
	)
	a.Variables = map[string]string{"SERVICE": "ORDERS"}
	h := newFixture(t, a, services.apply)
	// deployAt adds a deployment at host, whose identity differs from that of shop.test by change.
	deployAt := func(host string, change func(*project.Identity)) {
		other := *a
		change(&other.Identity)
		h.deployments[host] = &gateway.Deployment{Digest: host, Artifact: &other}
	}
	deployAt("preview.test", func(i *project.Identity) { i.Environment = "preview" })
	deployAt("copy.test", func(i *project.Identity) { i.Environment = "development" })
	deployAt("staging.test", func(i *project.Identity) { i.Environment = "staging" })
	deployAt("theirs.test", func(i *project.Identity) { i.AccountID, i.Project = "a2", "theirs" })
	for _, tt := range []struct{ host, target, want string }{
		{"shop.test", "/todos/7?a=b&c", "a1 Stock for shop production: GET /v1/todos/7?a=b&c"},
		{"shop.test", "/small/7", "a1 stock for shop production: GET /small/7"},
		{"shop.test", "/old/1%2F2?q", "a1 Stock-2 for shop production: GET /new?id=1%2F2&q"},
		{"shop.test", "/named?q=a%2Fb", "a1 ORDERS for shop production: GET /a%2Fb?q=a%2Fb"},
		{"preview.test", "/todos/7", "a1 Stock for shop preview: GET /v1/todos/7"},
		{"copy.test", "/todos/7", "a1 Stock for shop working-copy: GET /v1/todos/7"},
		{"staging.test", "/todos/7", "a1 Stock for  : GET /v1/todos/7"}, // a kind of environment that is unknown
		{"theirs.test", "/todos/7", "a2 Stock for theirs production: GET /v1/todos/7"},
	} {
		response := h.do(t, "GET", tt.target, host(tt.host))
		if got := services.takeCalls(); response.StatusCode != http.StatusOK || !slices.Equal(got, []string{tt.want}) {
			t.Errorf("GET %s%s: status = %d, service calls = %q, want %q", tt.host, tt.target, response.StatusCode, got, tt.want)
		}
	}
}

func TestServiceFailuresAreProblems(t *testing.T) {
	tunnelErr := func(f tunnel.Failure) error { return fmt.Errorf("find it: %w", &tunnel.Error{Failure: f}) }
	var noServices setting = func(*gateway.Config, *upstream.Options) {}
	response := func(status int, header http.Header) setting {
		return (&fakeServices{handler: func(*http.Request) (*http.Response, error) {
			return newResponse(status, header, strings.NewReader("x")), nil
		}}).apply
	}
	for _, tt := range []struct {
		name     string
		services setting
		status   int
		detail   string
	}{
		{"no relay", noServices, 502, "This installation has no relay"},
		{
			"busy agents", failingServices(fmt.Errorf("ask: %w", tunnel.ErrBusy)).apply, 503,
			"The connections of the tunnel's agents carry as many requests as they can",
		},
		{
			"no agent", failingServices(fmt.Errorf("ask: %w", tunnel.ErrNoAgent)).apply, 503,
			"No agent of the service's tunnel is connected. Start one",
		},
		{"an unknown service", failingServices(tunnelErr(tunnel.UnknownService)).apply, 502, "has a service of this name"},
		{
			"a service that is not for the project", failingServices(tunnelErr(tunnel.NotAllowed)).apply, 502,
			"not for this environment of the project",
		},
		{
			"an unreachable service", failingServices(tunnelErr(tunnel.Unreachable)).apply, 502, "agent can't reach the service",
		},
		{"a late response", failingServices(tunnelErr(tunnel.TimedOut)).apply, 504, "did not answer in time"},
		{
			"an unusable response", failingServices(tunnelErr(tunnel.Unusable)).apply, 502,
			"service's answer can't be passed on",
		},
		{
			"a failure that this release does not know", failingServices(tunnelErr("tired")).apply, 502,
			"agent can't reach the service",
		},
		{
			"a broken connection", failingServices(fmt.Errorf("%w: EOF", tunnel.ErrBroken)).apply, 502,
			"may have got the request",
		},
		{"a look-up that fails", failingServices(errors.New("the table is down")).apply, 503, "can't be asked now"},
		{"a look-up that times out", failingServices(context.DeadlineExceeded).apply, 503, "can't be asked now"},
		{
			"an unreachable relay", failingServices(&url.Error{Op: "Get", Err: io.ErrUnexpectedEOF}).apply, 503,
			"can't be asked now",
		},
		{"an invalid status", response(999, nil), 502, "does not follow HTTP"},
		{"an unexpected switch", response(101, http.Header{"Upgrade": {"websocket"}}), 502, "did not ask for"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newFixture(t, artifact(route("GET /x", forward("service://Stock")),
				route("POST /x", forward("service://Stock"))), tt.services)
			for _, method := range []string{"GET", "POST"} {
				p := problemOf(t, h.do(t, method, "/x?token=s3cret", withBody(method)))
				if p.Status != tt.status || !strings.Contains(p.Detail, tt.detail) {
					t.Errorf("%s /x: problem = %d %q, want %d %q", method, p.Status, p.Detail, tt.status, tt.detail)
				}
				if p.Trace.BuildID != buildID {
					t.Errorf("%s /x: build ID of the problem = %q, want %q", method, p.Trace.BuildID, buildID)
				}
			}
			if !strings.Contains(h.log.String(), "request failed") || strings.Contains(h.log.String(), "s3cret") {
				t.Errorf("log after a failed service request = %s, want \"request failed\" and no query", h.log.String())
			}
		})
	}
}

// withBody returns a function that adds a body if the method is POST.
func withBody(method string) func(*http.Request) {
	return func(r *http.Request) {
		if method == http.MethodPost {
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader("body")), -1
		}
	}
}

// TestServiceNameIsNeverResolved checks that the name of a service is not looked up in DNS, with and without services.
func TestServiceNameIsNeverResolved(t *testing.T) {
	a := artifact(route("GET /x", forward("service://stock")), route("POST /x", forward("service://stock")))
	for name, services := range map[string]setting{
		"no services": func(*gateway.Config, *upstream.Options) {},
		"no agent":    failingServices(tunnel.ErrNoAgent).apply,
	} {
		var lookups atomic.Int32
		h := newFixture(t, a, services, func(_ *gateway.Config, o *upstream.Options) {
			o.Resolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
				lookups.Add(1)
				return nil, net.ErrClosed
			}}
		})
		for _, method := range []string{"GET", "POST"} {
			p := problemOf(t, h.do(t, method, "/x", withBody(method)))
			if lookups.Load() > 0 || !strings.Contains(p.Detail, "tunnel") {
				t.Errorf("%s, %s: problem = %d %q, look-ups = %d, want one about the tunnel and 0",
					name, method, p.Status, p.Detail, lookups.Load())
			}
		}
	}
}

// TestServiceHasTheRouteTimeout checks that a request to a service gets a 504 after the timeout of its route. If
// Services does not report when the request was written, the request gets a 504 after the time limit for a part of the
// body, at the latest.
func TestServiceHasTheRouteTimeout(t *testing.T) {
	for name, written := range map[string]bool{"write reported": true, "write not reported": false} {
		t.Run(name, func(t *testing.T) {
			services := &fakeServices{handler: func(r *http.Request) (*http.Response, error) {
				if r.Body != nil {
					_, _ = io.Copy(io.Discard, r.Body)
				}
				if trace := httptrace.ContextClientTrace(r.Context()); written {
					trace.WroteRequest(httptrace.WroteRequestInfo{})
				}
				<-r.Context().Done()
				return nil, context.Cause(r.Context())
			}}
			short := component("urlForwardHandler", map[string]any{"baseUrl": "service://Stock", "timeoutSeconds": 0.1})
			h := newFixture(t, artifact(route("GET /x", short), route("POST /x", short)), services.apply,
				func(_ *gateway.Config, o *upstream.Options) {
					if !written { // then the time limit for a part of the body applies
						o.ResponseTimeout = 100 * time.Millisecond
					}
				})
			upgrading := func(r *http.Request) { r.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}} }
			for name, c := range map[string]struct {
				method string
				modify func(*http.Request)
			}{
				"without a body": {"GET", withBody("GET")}, "with a body": {"POST", withBody("POST")},
				"a switch": {"GET", upgrading},
			} {
				p := problemOf(t, h.do(t, c.method, "/x", c.modify))
				if p.Status != http.StatusGatewayTimeout || !strings.Contains(p.Detail, "did not answer in time") {
					t.Errorf("%s: problem = %d %q, want 504 and \"did not answer in time\"", name, p.Status, p.Detail)
				}
				if calls := services.takeCalls(); len(calls) != 1 {
					t.Errorf("%s: service calls = %q, want one", name, calls)
				}
			}
		})
	}
}

// TestServiceRedirectsAreForwarded checks that the redirect of a service is forwarded and not followed,
// and that a redirect to a service is not followed: a project can call only services that its routes name.
func TestServiceRedirectsAreForwarded(t *testing.T) {
	services := &fakeServices{handler: func(*http.Request) (*http.Response, error) {
		return newResponse(http.StatusFound, http.Header{"Location": {"http://10.0.0.1/x"}}, strings.NewReader("")), nil
	}}
	backend := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "service://Stock/x")
		w.WriteHeader(http.StatusFound)
	})
	h := newFixture(t, artifact(
		route("GET /service", forward("service://Stock")),
		route("GET /follow", component("urlForwardHandler", map[string]any{"baseUrl": backend.URL, "followRedirects": true})),
	), services.apply)
	for path, want := range map[string]struct {
		location string
		calls    int
	}{"/service": {"http://10.0.0.1/x", 1}, "/follow": {"service://Stock/x", 0}} {
		response := h.do(t, "GET", path)
		if n := len(services.takeCalls()); response.StatusCode != http.StatusFound ||
			response.Header.Get("Location") != want.location || n != want.calls {
			t.Errorf("GET %s: status = %d, Location = %s, service calls = %d, want 302 to %s and %d",
				path, response.StatusCode, response.Header.Get("Location"), n, want.location, want.calls)
		}
	}
}

// TestServiceHeadersAreFiltered checks that headers are filtered in both directions, including unannounced trailers.
func TestServiceHeadersAreFiltered(t *testing.T) {
	var got http.Header
	services := &fakeServices{}
	services.handler = func(r *http.Request) (*http.Response, error) {
		got = r.Header.Clone()
		clear(r.Header) // Services is allowed to change the header
		response := newResponse(http.StatusOK, http.Header{
			"Connection": {"x-listed"}, "X-Listed": {"1"}, "Keep-Alive": {"1"}, "Alt-Svc": {"h3"}, "X-Kept": {"1"},
			"Content-Length": {"2"},
		}, nil)
		response.ContentLength = 2
		response.Body = &endedBody{strings.NewReader("ok"), func() {
			response.Trailer = http.Header{"Set-Cookie": {"a=1"}, "X-Listed": {"1"}, "Connection": {"close"}, "X-Sum": {"7"}}
		}}
		return response, nil
	}
	a := artifact(route("GET /x", forward("service://Stock"), "key"))
	declare(a, "key", "api-key-inbound", map[string]any{"allowUnauthenticatedRequests": true})
	h := newFixture(t, a, services.apply)
	response := h.do(t, "GET", "/x", header("Authorization", "Bearer "+newKey(credential.ConsumerKey)),
		header("Connection", "X-Mine"), header("X-Mine", "1"),
		header("X-Forwarded-Host", "evil.test"), header("Via", "1.1 x"), header("Gatewright-Tunnel-Project", "theirs"))
	if text := body(t, response); text != "ok" || response.StatusCode != http.StatusOK {
		t.Errorf("GET /x: status = %d, body = %q, want 200 ok", response.StatusCode, text)
	}
	for name, want := range map[string]string{
		"Authorization": "", "X-Mine": "", "Connection": "", "X-Forwarded-Host": "shop.test", "Via": "1.1 x",
		"X-Request-Id": response.Header.Get("X-Request-Id"),
	} {
		if got.Get(name) != want {
			t.Errorf("the service got %s: %q, want %q", name, got[name], want)
		}
	}
	if via := got["Via"]; len(via) != 2 || via[1] != "1.1 gatewright" {
		t.Errorf("Via at the service = %q, want the client's and 1.1 gatewright", via)
	}
	all := response.Header.Clone()
	maps.Copy(all, response.Trailer)
	for _, name := range []string{"X-Listed", "Keep-Alive", "Alt-Svc", "Set-Cookie"} {
		if _, exists := all[name]; exists {
			t.Errorf("the client got %s = %q, want it removed", name, all[name])
		}
	}
	if all.Get("X-Kept") != "1" {
		t.Errorf("GET /x: header and trailer = %v, want X-Kept 1", all)
	}
}

// TestServiceSwitchesProtocols checks that a service can switch to
// another protocol, even if Services changes the request's header.
func TestServiceSwitchesProtocols(t *testing.T) {
	services := &fakeServices{handler: func(r *http.Request) (*http.Response, error) {
		clear(r.Header)
		client, service := net.Pipe()
		go func() {
			_, _ = io.Copy(service, service)
			_ = service.Close()
		}()
		response := newResponse(http.StatusSwitchingProtocols, http.Header{"Upgrade": {"websocket"}}, nil)
		response.Body = client
		return response, nil
	}}
	h := newFixture(t, artifact(route("GET /x", forward("service://Stock"))), services.apply)
	r, conn := sendRaw(t, h.URL, "GET /x HTTP/1.1\r\nHost: shop.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	if got := readSwitch(t, r).Header.Get("Connection"); got != "Upgrade" {
		t.Fatalf("GET /x with Upgrade: Connection of the response = %q, want Upgrade", got)
	}
	writef(conn, "hello")
	got := make([]byte, 5)
	if _, err := io.ReadFull(r, got); err != nil || string(got) != "hello" {
		t.Errorf("GET /x with Upgrade: data of the switched connection = %q, %v, want %q", got, err, "hello")
	}
}

// endedBody is a body that calls onEOF at its end.
type endedBody struct {
	io.Reader
	onEOF func()
}

func (b *endedBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		b.onEOF()
	}
	return n, err
}

func (b *endedBody) Close() error { return nil }

// TestTruncatedServiceResponseIsAborted checks that the client's response breaks off if the service's response does.
func TestTruncatedServiceResponseIsAborted(t *testing.T) {
	services := &fakeServices{handler: func(*http.Request) (*http.Response, error) {
		return newResponse(http.StatusOK, http.Header{},
			io.MultiReader(strings.NewReader("some"), iotest.ErrReader(tunnel.ErrBroken))), nil
	}}
	h := newFixture(t, artifact(route("GET /x", forward("service://Stock"))), services.apply)
	response := h.do(t, "GET", "/x")
	if all, err := io.ReadAll(response.Body); err == nil || string(all) != "some" {
		t.Errorf("ReadAll(truncated response) = %q, %v, want %q and an error", all, err, "some")
	}
	if text := h.log.String(); !strings.Contains(text, "response broke off") {
		t.Errorf("log after a truncated response = %s, want \"response broke off\"", text)
	}
}

// TestClientErrorIsNotReportedAsServiceError checks that a malformed
// or stalled body of the client is reported as the client's fault.
func TestClientErrorIsNotReportedAsServiceError(t *testing.T) {
	services := &fakeServices{handler: func(r *http.Request) (*http.Response, error) {
		_, err := io.Copy(io.Discard, r.Body)
		return nil, err
	}}
	h := newShortTimeoutFixture(t, artifact(route("POST /x", forward("service://Stock"))), services.apply)
	for name, c := range map[string]struct {
		request string
		status  int
	}{
		"malformed chunks": {
			"POST /x HTTP/1.1\r\nHost: shop.test\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", http.StatusBadRequest,
		},
		"a stalled body": {"POST /x HTTP/1.1\r\nHost: shop.test\r\nContent-Length: 9\r\n\r\nbody", http.StatusRequestTimeout},
	} {
		r, _ := sendRaw(t, h.URL, c.request)
		response, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatalf("%s: ReadResponse() error = %v, want a response", name, err)
		}
		if p := problemOf(t, response); p.Status != c.status {
			t.Errorf("%s: problem = %d %q, want %d", name, p.Status, p.Detail, c.status)
		}
	}
}

// TestLargeBodiesStreamThroughATunnel checks that a large body streams
// unchanged through a tunnel in both directions at the same time.
func TestLargeBodiesStreamThroughATunnel(t *testing.T) {
	const size = 32 << 20
	backend := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		_, _ = io.Copy(w, r.Body)
	})
	h := newFixture(t, artifact(route("POST /x", forward("service://Stock"))), tunnelTo(t, backend.URL))
	sent, got := sha256.New(), sha256.New()
	response := h.do(t, "POST", "/x", func(r *http.Request) {
		r.Body, r.ContentLength = io.NopCloser(io.TeeReader(io.LimitReader(rand.NewChaCha8([32]byte{1}), size), sent)), size
	})
	if n, err := io.Copy(got, response.Body); err != nil || n != size || !bytes.Equal(sent.Sum(nil), got.Sum(nil)) {
		t.Errorf("Copy(response of POST /x) = %d, %v, same checksum: %t, want %d and true",
			n, err, bytes.Equal(sent.Sum(nil), got.Sum(nil)), size)
	}
}

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

	"github.com/gatewright/gatewright/shared/credential"
	"github.com/gatewright/gatewright/shared/gateway"
	"github.com/gatewright/gatewright/shared/gateway/upstream"
	"github.com/gatewright/gatewright/shared/project"
	"github.com/gatewright/gatewright/shared/tunnel"
)

// fakeServices note what they are asked, and answer as a test says.
type fakeServices struct {
	mu     sync.Mutex
	asked  []string
	answer func(r *http.Request) (*http.Response, error)
}

// RoundTrip implements upstream.Services.
func (f *fakeServices) RoundTrip(r *http.Request, accountID, service string, c tunnel.Caller) (*http.Response, error) {
	f.mu.Lock()
	f.asked = append(f.asked, fmt.Sprintf("%s %s for %s %s: %s %s", accountID, service, c.Project, c.Environment, r.Method, r.URL.RequestURI()))
	f.mu.Unlock()
	return f.answer(r)
}

// taken are the requests since it was asked last.
func (f *fakeServices) taken() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := f.asked
	f.asked = nil
	return out
}

// with gives a house these services.
func (f *fakeServices) with(_ *gateway.Config, o *upstream.Options) { o.Services = f }

// to has them answer as a server does.
func to(t *testing.T, serverURL string) *fakeServices {
	t.Helper()
	at, err := url.Parse(serverURL)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &fakeServices{answer: func(r *http.Request) (*http.Response, error) {
		r.URL.Host = at.Host
		return transport.RoundTrip(r)
	}}
}

// failing has them fail.
func failing(err error) *fakeServices {
	return &fakeServices{answer: func(*http.Request) (*http.Response, error) { return nil, err }}
}

// answered is a response of theirs.
func answered(status int, header http.Header, body io.Reader) *http.Response {
	return &http.Response{
		StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: header, Body: io.NopCloser(body), ContentLength: -1,
	}
}

func TestServiceIsAskedByItsExactNameAsItsProjectsEnvironment(t *testing.T) {
	services := to(t, serve(t, echo).URL)
	a := artifact(
		route("GET /todos/{id}", forward("service://Stock/v1")),
		route("GET /small/{id}", forward("service://stock")),
		route("GET /old/{id}", rewrite("SERVICE://Stock-2/new?id=${params.id}")),
		route("GET /named", rewrite("service://${env.SERVICE}/${query.q}")),
	)
	a.Variables = map[string]string{"SERVICE": "ORDERS"}
	h := newHouse(t, a, services.with)
	of := func(host string, change func(*project.Identity)) {
		other := *a
		change(&other.Identity)
		h.deployments[host] = &gateway.Deployment{Digest: host, Artifact: &other}
	}
	of("preview.test", func(i *project.Identity) { i.Environment = "preview" })
	of("copy.test", func(i *project.Identity) { i.Environment = "development" })
	of("odd.test", func(i *project.Identity) { i.Environment = "staging" })
	of("theirs.test", func(i *project.Identity) { i.AccountID, i.Project = "a2", "theirs" })
	for _, tt := range []struct{ host, target, want string }{
		{"shop.test", "/todos/7?a=b&c", "a1 Stock for shop production: GET /v1/todos/7?a=b&c"},
		{"shop.test", "/small/7", "a1 stock for shop production: GET /small/7"},
		{"shop.test", "/old/1%2F2?q", "a1 Stock-2 for shop production: GET /new?id=1%2F2&q"},
		{"shop.test", "/named?q=a%2Fb", "a1 ORDERS for shop production: GET /a%2Fb?q=a%2Fb"},
		{"preview.test", "/todos/7", "a1 Stock for shop preview: GET /v1/todos/7"},
		{"copy.test", "/todos/7", "a1 Stock for shop working-copy: GET /v1/todos/7"},
		{"odd.test", "/todos/7", "a1 Stock for  : GET /v1/todos/7"},
		{"theirs.test", "/todos/7", "a2 Stock for theirs production: GET /v1/todos/7"},
	} {
		response := h.do(t, "GET", tt.target, host(tt.host))
		if got := services.taken(); response.StatusCode != http.StatusOK || !slices.Equal(got, []string{tt.want}) {
			t.Errorf("%s%s: %d, they are asked %q, want %q", tt.host, tt.target, response.StatusCode, got, tt.want)
		}
	}
}

func TestFailuresOfServicesAreProblems(t *testing.T) {
	of := func(f tunnel.Failure) error { return fmt.Errorf("find it: %w", &tunnel.Error{Failure: f}) }
	var none setting = func(*gateway.Config, *upstream.Options) {}
	response := func(status int, header http.Header) setting {
		return (&fakeServices{answer: func(*http.Request) (*http.Response, error) {
			return answered(status, header, strings.NewReader("x")), nil
		}}).with
	}
	for _, tt := range []struct {
		name     string
		services setting
		status   int
		detail   string
	}{
		{"no relay", none, 502, "This installation has no relay"},
		{"busy agents", failing(fmt.Errorf("ask: %w", tunnel.ErrBusy)).with, 503, "The connections of the tunnel's agents carry as many requests as they can"},
		{"no agent", failing(fmt.Errorf("ask: %w", tunnel.ErrNoAgent)).with, 503, "No agent of the service's tunnel is connected. Start one"},
		{"no such service", failing(of(tunnel.UnknownService)).with, 502, "has a service of this name"},
		{"not for the project", failing(of(tunnel.NotAllowed)).with, 502, "not for this environment of the project"},
		{"down", failing(of(tunnel.Unreachable)).with, 502, "agent can't reach the service"},
		{"late", failing(of(tunnel.Late)).with, 504, "did not answer in time"},
		{"an answer of no use", failing(of(tunnel.Unusable)).with, 502, "service's answer can't be passed on"},
		{"a failure of later agents", failing(of("tired")).with, 502, "agent can't reach the service"},
		{"broken", failing(fmt.Errorf("%w: EOF", tunnel.ErrBroken)).with, 502, "may have got the request"},
		{"nobody knows", failing(errors.New("the table is down")).with, 503, "can't be asked now"},
		{"nobody knows in time", failing(context.DeadlineExceeded).with, 503, "can't be asked now"},
		{"no relay to be found", failing(&url.Error{Op: "Get", Err: io.ErrUnexpectedEOF}).with, 503, "can't be asked now"},
		{"an odd status", response(999, nil), 502, "does not follow HTTP"},
		{"an odd switch", response(101, http.Header{"Upgrade": {"websocket"}}), 502, "did not ask for"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHouse(t, artifact(route("GET /x", forward("service://Stock")), route("POST /x", forward("service://Stock"))), tt.services)
			for _, method := range []string{"GET", "POST"} {
				p := problemOf(t, h.do(t, method, "/x?token=s3cret", withBody(method)))
				if p.Status != tt.status || !strings.Contains(p.Detail, tt.detail) || p.Trace.BuildID != buildID {
					t.Errorf("%s: got %d %q, want %d %q", method, p.Status, p.Detail, tt.status, tt.detail)
				}
			}
			if !strings.Contains(h.log.String(), "request failed") || strings.Contains(h.log.String(), "s3cret") {
				t.Errorf("log: %s", h.log.String())
			}
		})
	}
}

// withBody gives a POST one.
func withBody(method string) func(*http.Request) {
	return func(r *http.Request) {
		if method == http.MethodPost {
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader("body")), -1
		}
	}
}

// TestServiceIsNeverLookedForInTheNetwork, whatever it is called, and whether there is
// anybody to ask or not.
func TestServiceIsNeverLookedForInTheNetwork(t *testing.T) {
	a := artifact(route("GET /x", forward("service://stock")), route("POST /x", forward("service://stock")))
	for name, services := range map[string]setting{
		"nobody carries": func(*gateway.Config, *upstream.Options) {}, "nobody is there": failing(tunnel.ErrNoAgent).with,
	} {
		var lookups atomic.Int32
		h := newHouse(t, a, services, func(_ *gateway.Config, o *upstream.Options) {
			o.Resolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
				lookups.Add(1)
				return nil, net.ErrClosed
			}}
		})
		for _, method := range []string{"GET", "POST"} {
			p := problemOf(t, h.do(t, method, "/x", withBody(method)))
			if lookups.Load() > 0 || !strings.Contains(p.Detail, "tunnel") {
				t.Errorf("%s, %s: %d %s after %d look-ups", name, method, p.Status, p.Detail, lookups.Load())
			}
		}
	}
}

// TestServiceHasTheTimeOfItsRoute, whether or not it is told when the request was written.
func TestServiceHasTheTimeOfItsRoute(t *testing.T) {
	for name, written := range map[string]bool{"told": true, "not told": false} {
		t.Run(name, func(t *testing.T) {
			services := &fakeServices{answer: func(r *http.Request) (*http.Response, error) {
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
			h := newHouse(t, artifact(route("GET /x", short), route("POST /x", short)), services.with, func(_ *gateway.Config, o *upstream.Options) {
				if !written { // then it has the time in which some of a body is taken
					o.ResponseTimeout = 100 * time.Millisecond
				}
			})
			upgrading := func(r *http.Request) { r.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}} }
			for name, c := range map[string]struct {
				method string
				set    func(*http.Request)
			}{"without a body": {"GET", withBody("GET")}, "with a body": {"POST", withBody("POST")}, "a switch": {"GET", upgrading}} {
				p := problemOf(t, h.do(t, c.method, "/x", c.set))
				if p.Status != http.StatusGatewayTimeout || !strings.Contains(p.Detail, "did not answer in time") || len(services.taken()) != 1 {
					t.Errorf("%s: %d %s", name, p.Status, p.Detail)
				}
			}
		})
	}
}

// TestRedirectsOfServicesPass and none leads to a service: what a project may ask is what it
// has written.
func TestRedirectsOfServicesPass(t *testing.T) {
	services := &fakeServices{answer: func(*http.Request) (*http.Response, error) {
		return answered(http.StatusFound, http.Header{"Location": {"http://10.0.0.1/x"}}, strings.NewReader("")), nil
	}}
	up := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "service://Stock/x")
		w.WriteHeader(http.StatusFound)
	})
	h := newHouse(t, artifact(
		route("GET /service", forward("service://Stock")),
		route("GET /follow", component("urlForwardHandler", map[string]any{"baseUrl": up.URL, "followRedirects": true})),
	), services.with)
	for path, want := range map[string]struct {
		location string
		asked    int
	}{"/service": {"http://10.0.0.1/x", 1}, "/follow": {"service://Stock/x", 0}} {
		response := h.do(t, "GET", path)
		if n := len(services.taken()); response.StatusCode != http.StatusFound || response.Header.Get("Location") != want.location || n != want.asked {
			t.Errorf("%s: %d to %s, and services are asked %d times", path, response.StatusCode, response.Header.Get("Location"), n)
		}
	}
}

// TestHeadersOfServicesAreThoseOfAnyUpstream in both directions, trailers that are not
// announced included.
func TestHeadersOfServicesAreThoseOfAnyUpstream(t *testing.T) {
	var got http.Header
	services := &fakeServices{}
	services.answer = func(r *http.Request) (*http.Response, error) {
		got = r.Header.Clone()
		clear(r.Header) // it is theirs
		response := answered(http.StatusOK, http.Header{
			"Connection": {"x-listed"}, "X-Listed": {"1"}, "Keep-Alive": {"1"}, "Alt-Svc": {"h3"}, "X-Kept": {"1"}, "Content-Length": {"2"},
		}, nil)
		response.ContentLength = 2
		response.Body = &ended{strings.NewReader("ok"), func() {
			response.Trailer = http.Header{"Set-Cookie": {"a=1"}, "X-Listed": {"1"}, "Connection": {"close"}, "X-Sum": {"7"}}
		}}
		return response, nil
	}
	a := artifact(route("GET /x", forward("service://Stock"), "key"))
	declare(a, "key", "api-key-inbound", map[string]any{"allowUnauthenticatedRequests": true})
	h := newHouse(t, a, services.with)
	response := h.do(t, "GET", "/x", header("Authorization", "Bearer "+newKey(credential.ConsumerKey)), header("Connection", "X-Mine"), header("X-Mine", "1"),
		header("X-Forwarded-Host", "evil.test"), header("Via", "1.1 x"), header("Gatewright-Tunnel-Project", "theirs"))
	if text := body(t, response); text != "ok" || response.StatusCode != http.StatusOK {
		t.Errorf("got %d %q", response.StatusCode, text)
	}
	for name, want := range map[string]string{
		"Authorization": "", "X-Mine": "", "Connection": "", "X-Forwarded-Host": "shop.test", "Via": "1.1 x", "X-Request-Id": response.Header.Get("X-Request-Id"),
	} {
		if got.Get(name) != want {
			t.Errorf("the service got %s: %q, want %q", name, got[name], want)
		}
	}
	if via := got["Via"]; len(via) != 2 || via[1] != "1.1 gatewright" {
		t.Errorf("the service got Via: %q", via)
	}
	all := response.Header.Clone()
	maps.Copy(all, response.Trailer)
	for _, name := range []string{"X-Listed", "Keep-Alive", "Alt-Svc", "Set-Cookie"} {
		if _, there := all[name]; there {
			t.Errorf("the client got %s: %q", name, all[name])
		}
	}
	if all.Get("X-Kept") != "1" {
		t.Errorf("the client got %v", all)
	}
}

// TestServiceSwitchesProtocols, also where what carries the request has done as it likes with
// the header.
func TestServiceSwitchesProtocols(t *testing.T) {
	services := &fakeServices{answer: func(r *http.Request) (*http.Response, error) {
		clear(r.Header)
		client, service := net.Pipe()
		go func() {
			_, _ = io.Copy(service, service)
			_ = service.Close()
		}()
		response := answered(http.StatusSwitchingProtocols, http.Header{"Upgrade": {"websocket"}}, nil)
		response.Body = client
		return response, nil
	}}
	h := newHouse(t, artifact(route("GET /x", forward("service://Stock"))), services.with)
	r, conn := raw(t, h.URL, "GET /x HTTP/1.1\r\nHost: shop.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	response, err := http.ReadResponse(r, nil)
	if err != nil || response.StatusCode != http.StatusSwitchingProtocols || response.Header.Get("Connection") != "Upgrade" {
		t.Fatalf("got %+v, %v", response, err)
	}
	say(conn, "hello")
	got := make([]byte, 5)
	if _, err := io.ReadFull(r, got); err != nil || string(got) != "hello" {
		t.Errorf("got %q, %v", got, err)
	}
}

// ended is a body that does something at its end.
type ended struct {
	io.Reader
	at func()
}

func (b *ended) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		b.at()
	}
	return n, err
}

func (b *ended) Close() error { return nil }

// TestServiceThatBreaksOffBreaksTheAnswerOff: what has come is no whole answer.
func TestServiceThatBreaksOffBreaksTheAnswerOff(t *testing.T) {
	services := &fakeServices{answer: func(*http.Request) (*http.Response, error) {
		return answered(http.StatusOK, http.Header{}, io.MultiReader(strings.NewReader("some"), iotest.ErrReader(tunnel.ErrBroken))), nil
	}}
	h := newHouse(t, artifact(route("GET /x", forward("service://Stock"))), services.with)
	response := h.do(t, "GET", "/x")
	if all, err := io.ReadAll(response.Body); err == nil || string(all) != "some" {
		t.Errorf("the client got %q, %v", all, err)
	}
	if text := h.log.String(); !strings.Contains(text, "response broke off") {
		t.Errorf("log: %s", text)
	}
}

// TestClientsFaultIsNotTheServices: a body that ends early is told of as with any upstream.
func TestClientsFaultIsNotTheServices(t *testing.T) {
	services := &fakeServices{answer: func(r *http.Request) (*http.Response, error) {
		_, err := io.Copy(io.Discard, r.Body)
		return nil, err
	}}
	h := impatientHouse(t, artifact(route("POST /x", forward("service://Stock"))), services.with)
	for name, c := range map[string]struct {
		request string
		status  int
	}{
		"odd chunks": {"POST /x HTTP/1.1\r\nHost: shop.test\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", http.StatusBadRequest},
		"stalled":    {"POST /x HTTP/1.1\r\nHost: shop.test\r\nContent-Length: 9\r\n\r\nbody", http.StatusRequestTimeout},
	} {
		r, _ := raw(t, h.URL, c.request)
		response, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		if p := problemOf(t, response); p.Status != c.status {
			t.Errorf("%s: %d %s", name, p.Status, p.Detail)
		}
	}
}

// TestLargeBodiesPassThroughATunnelAsTheyCome, both ways at once, and as they were.
func TestLargeBodiesPassThroughATunnelAsTheyCome(t *testing.T) {
	const size = 32 << 20
	up := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		_, _ = io.Copy(w, r.Body)
	})
	h := newHouse(t, artifact(route("POST /x", forward("service://Stock"))), tunnelTo(t, up.URL))
	sent, got := sha256.New(), sha256.New()
	response := h.do(t, "POST", "/x", func(r *http.Request) {
		r.Body, r.ContentLength = io.NopCloser(io.TeeReader(io.LimitReader(rand.NewChaCha8([32]byte{1}), size), sent)), size
	})
	if n, err := io.Copy(got, response.Body); err != nil || n != size || !bytes.Equal(sent.Sum(nil), got.Sum(nil)) {
		t.Errorf("the client got %d bytes, %v", n, err)
	}
}

package gateway_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gatewright/gatewright/shared/dataplane/gateway"
	"github.com/gatewright/gatewright/shared/format/project"
)

// echo responds with a description of the request.
func echo(w http.ResponseWriter, r *http.Request) {
	sent, _ := io.ReadAll(r.Body)
	w.Header().Set("X-Upstream", "yes")
	writef(w, "%s %s %s %s", r.Method, r.Host, r.RequestURI, sent)
}

func TestARequestIsForwardedAndRewritten(t *testing.T) {
	backend := serve(t, echo)
	address := strings.TrimPrefix(backend.URL, "http://")
	h := newFixture(t, artifact(
		route("GET /todos/{id}", forward(backend.URL+"/v1")),
		route("POST /todos", forward(backend.URL)),
		route("GET /old/{id}/{name}", rewrite(backend.URL+"/new/${params.name}?id=${params.id}")),
		route("GET /graph",
			component("urlRewriteHandler", map[string]any{"baseUrl": backend.URL + "/graphql", "forwardSearch": false})),
	))
	for _, test := range []struct{ method, target, body, want string }{
		{"GET", "/todos/7?a=b&c", "", "GET " + address + " /v1/todos/7?a=b&c "},
		{"GET", "/todos/feature%2Fx%20y", "", "GET " + address + " /v1/todos/feature%2Fx%20y "},
		{"GET", "/a/../todos/7", "", "GET " + address + " /v1/todos/7 "},
		{"GET", "/todos/%2e%2e/todos/7", "", "GET " + address + " /v1/todos/7 "},
		{"POST", "/todos", "milk", "POST " + address + " /todos milk"},
		{"GET", "/old/1%2F2/x", "", "GET " + address + " /new/x?id=1%2F2 "},
		{"GET", "/old/1/x?q=1", "", "GET " + address + " /new/x?id=1&q=1 "},
		{"GET", "/graph?q=1", "", "GET " + address + " /graphql "},
	} {
		response := h.do(t, test.method, test.target, func(r *http.Request) {
			if test.body != "" {
				r.Body, r.ContentLength = io.NopCloser(strings.NewReader(test.body)), int64(len(test.body))
			}
		})
		if got := body(t, response); got != test.want || response.StatusCode != http.StatusOK {
			t.Errorf("%s %s: status = %d, body = %q, want 200 %q", test.method, test.target, response.StatusCode, got, test.want)
		}
		if response.Header.Get("X-Upstream") != "yes" {
			t.Errorf("%s %s: X-Upstream = %q, want yes", test.method, test.target, response.Header.Get("X-Upstream"))
		}
	}
}

func TestHEADUsesTheGETRoute(t *testing.T) {
	backend := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Method", r.Method)
		w.Header().Set("Content-Length", "12")
	})
	h := newFixture(t, artifact(route("GET /x", forward(backend.URL))))
	response := h.do(t, "HEAD", "/x")
	if response.StatusCode != http.StatusOK || response.Header.Get("X-Method") != "HEAD" || response.ContentLength != 12 {
		t.Errorf("HEAD /x: status = %d, X-Method = %q, length = %d, want 200, HEAD and 12",
			response.StatusCode, response.Header.Get("X-Method"), response.ContentLength)
	}
	if response := h.do(t, "HEAD", "/nothing"); response.StatusCode != http.StatusNotFound {
		t.Errorf("HEAD /nothing: status = %d, want 404", response.StatusCode)
	}
}

// TestUnmatchedRequestsGetAProblem checks the problems for a path or a method without a route, for a host without a
// deployment, and for a host whose lookup fails.
func TestUnmatchedRequestsGetAProblem(t *testing.T) {
	h := newFixture(t, artifact(route("GET /x", forward("http://127.0.0.1:1")),
		route("PUT /x", forward("http://127.0.0.1:1"))))
	for _, test := range []struct {
		method, target, host string
		status               int
		allow, build         string
	}{
		{"GET", "/nothing", "shop.test", 404, "", buildID},
		{"GET", "/", "shop.test", 404, "", buildID},
		{"GET", "/x/", "shop.test", 404, "", buildID},
		{"DELETE", "/x", "shop.test", 405, "GET, HEAD, OPTIONS, PUT", buildID},
		{"GET", "/x", "other.test", 404, "", ""},
		{"GET", "/x", "broken.test", 503, "", ""},
		{"GET", "/__gatewright/nothing", "shop.test", 404, "", buildID},
		{"GET", "/__gatewright", "shop.test", 404, "", buildID},
	} {
		response := h.do(t, test.method, test.target, host(test.host))
		p := problemOf(t, response)
		want := problemDocument{
			Type: fmt.Sprintf("https://httpproblems.com/http-status/%d", test.status), Title: http.StatusText(test.status),
			Status: test.status, Detail: p.Detail, Instance: test.target, Trace: p.Trace,
		}
		if diff := cmp.Diff(want, p); diff != "" || p.Trace.BuildID != test.build {
			t.Errorf("%s %s at %s: build = %q, want %q; problem (-want +got):\n%s",
				test.method, test.target, test.host, p.Trace.BuildID, test.build, diff)
		}
		if p.Detail == "" {
			t.Errorf("%s %s at %s: the problem has no detail, want one", test.method, test.target, test.host)
		}
		if got := response.Header.Get("Allow"); got != test.allow {
			t.Errorf("%s %s: Allow = %q, want %q", test.method, test.target, got, test.allow)
		}
	}
}

func TestHostNamesAreComparedWithoutCasePortAndDot(t *testing.T) {
	h := newFixture(t, artifact(route("GET /x", forward("http://127.0.0.1:1"))))
	for _, name := range []string{"shop.test:9001", "SHOP.test", "shop.test.", "Shop.Test.:80"} {
		if p := problemOf(t, h.do(t, "GET", "/none", host(name))); p.Trace.BuildID != buildID {
			t.Errorf("GET /none at %s: build ID = %q, want %q, that of shop.test", name, p.Trace.BuildID, buildID)
		}
	}
}

// TestReservedRoutesExistAtEveryDeployment checks the gateway's own routes at a deployment without routes. The
// route /__gatewright/ping must exist even at a host without a deployment.
func TestReservedRoutesExistAtEveryDeployment(t *testing.T) {
	h := newFixture(t, artifact())
	response := h.do(t, "GET", "/__gatewright/ping", host("10.0.0.1"))
	if got := body(t, response); response.StatusCode != http.StatusOK || got != `{"status":"ok"}` {
		t.Errorf("GET /__gatewright/ping at 10.0.0.1: status = %d, body = %s, want 200 and status ok",
			response.StatusCode, got)
	}
	response = h.do(t, "GET", "/__gatewright/build")
	if got, want := body(t, response), `{"buildId":"`+buildID+`","deployment":"shop-main-1234567"}`; got != want {
		t.Errorf("GET /__gatewright/build: body = %s, want %s", got, want)
	}
}

// TestInvalidDeploymentReportsItsError checks that a deployment that cannot be served responds with 500, and that the
// error is logged once. The route /__gatewright/build must be served.
func TestInvalidDeploymentReportsItsError(t *testing.T) {
	invalid := artifact(route("GET /x", forward("${env.UPSTREAM}")))
	old := artifact()
	old.Format = project.OldestFormat - 1
	for name, a := range map[string]*project.Artifact{"an address without a value": invalid, "an old format": old} {
		t.Run(name, func(t *testing.T) {
			h := newFixture(t, a)
			for range 2 {
				response := h.do(t, "GET", "/x")
				p := problemOf(t, response)
				if response.StatusCode != http.StatusInternalServerError || p.Title != "Gateway Initialization Error" ||
					p.Trace.BuildID != buildID {
					t.Errorf("GET /x: status = %d, title = %q, build = %q, want 500, Gateway Initialization Error and %q",
						response.StatusCode, p.Title, p.Trace.BuildID, buildID)
				}
			}
			if n := strings.Count(h.log.String(), "deployment can't be served"); n != 1 {
				t.Errorf("log lines about the deployment after two requests = %d, want 1", n)
			}
			if response := h.do(t, "GET", "/__gatewright/build"); response.StatusCode != http.StatusOK {
				t.Errorf("GET /__gatewright/build: status = %d, want 200", response.StatusCode)
			}
		})
	}
}

// TestDeploymentOfNewerReleaseIsRetryable checks that a gateway that can't read the artifact of a
// newer release responds with 503: during an update, other gateways can serve the repeated request.
func TestDeploymentOfNewerReleaseIsRetryable(t *testing.T) {
	next := artifact()
	next.Format = project.ArtifactFormat + 1
	h := newFixture(t, next)
	response := h.do(t, "GET", "/x")
	if p := problemOf(t, response); response.StatusCode != http.StatusServiceUnavailable ||
		!strings.Contains(p.Detail, "newer release") {
		t.Errorf("GET /x in a newer format: status = %d, detail = %q, want 503 about a newer release",
			response.StatusCode, p.Detail)
	}
}

func TestPanicFailsOnlyTheRequest(t *testing.T) {
	a := artifact(route("GET /x", forward("http://127.0.0.1:1"), "limit"), route("GET /y", forward(serve(t, echo).URL)))
	declare(a, "limit", "rate-limit-inbound", map[string]any{
		"rateLimitBy": "all", "requestsAllowed": 1,
		"timeWindowMinutes": 1,
	})
	h := newFixture(t, a)
	h.allowances.used = nil // so that Take panics
	if p := problemOf(t, h.do(t, "GET", "/x")); p.Status != 500 {
		t.Errorf("GET /x with a panic: status = %d, want 500", p.Status)
	}
	if !strings.Contains(h.log.String(), "request panicked") {
		t.Errorf("log after GET /x with a panic = %s, want \"request panicked\"", h.log)
	}
	if response := h.do(t, "GET", "/y"); response.StatusCode != http.StatusOK {
		t.Errorf("GET /y after the panic: status = %d, want 200", response.StatusCode)
	}
}

func TestNewDeploymentIsServedImmediately(t *testing.T) {
	first, second := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		writef(w, "one")
	}), serve(t, func(w http.ResponseWriter, _ *http.Request) { writef(w, "two") })
	h := newFixture(t, artifact(route("GET /x", forward(first.URL))))
	if got := body(t, h.do(t, "GET", "/x")); got != "one" {
		t.Fatalf("GET /x at the first deployment: body = %q, want %q", got, "one")
	}
	h.deployments["shop.test"] = &gateway.Deployment{
		Digest:   "two",
		Artifact: artifact(route("GET /x", forward(second.URL))),
	}
	if got := body(t, h.do(t, "GET", "/x")); got != "two" {
		t.Errorf("GET /x at the second deployment: body = %q, want %q", got, "two")
	}
}

func TestRequestIDComesFromTrustedProxiesOnly(t *testing.T) {
	backend := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Request-Id", "upstream's own")
		writef(w, "%s", r.Header.Get("X-Request-Id"))
	})
	a := artifact(route("GET /x", forward(backend.URL)))
	uuid := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	const clientID = "6f1c3f5e-1b1a-4a3c-8f55-0d7a8a5f9a10"
	for _, test := range []struct {
		name, sent string
		settings   []setting
		wantKept   bool
	}{
		{"an empty value", "", nil, false},
		{"an untrusted client's", clientID, nil, false},
		{"a trusted proxy's", clientID, []setting{trustLoopback}, true},
		{"a value of a trusted proxy that is no UUID", "x\"y", []setting{trustLoopback}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := newFixture(t, a, test.settings...)
			response := h.do(t, "GET", "/x", header("X-Request-Id", test.sent))
			id := response.Header.Get("X-Request-Id")
			if test.wantKept && id != clientID || !test.wantKept && (!uuid.MatchString(id) || id == clientID) {
				t.Errorf("X-Request-Id of the response = %q, want the client's: %t (if false, a new UUID)", id, test.wantKept)
			}
			if got := body(t, response); got != id {
				t.Errorf("X-Request-Id at the upstream = %q, want that of the response, %q", got, id)
			}
		})
	}
}

// TestTraceContextContinuesWithOwnSpan checks that a valid Traceparent is continued with another span, and that an
// invalid or repeated Traceparent is replaced with a new trace without Tracestate.
func TestTraceContextContinuesWithOwnSpan(t *testing.T) {
	backend := serve(t, func(w http.ResponseWriter, r *http.Request) {
		writef(w, "%s", strings.Join(r.Header["Traceparent"], ",")+"|"+strings.Join(r.Header["Tracestate"], ","))
	})
	h := newFixture(t, artifact(route("GET /x", forward(backend.URL))))
	const trace, span = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	newTrace := regexp.MustCompile(`^00-[0-9a-f]{32}-[0-9a-f]{16}-00\|$`)
	continued := regexp.MustCompile(`^00-` + trace + `-[0-9a-f]{16}-01\|a=1,b=2$`)
	for parent, want := range map[string]*regexp.Regexp{
		"00-" + trace + "-" + span + "-01":                    continued,
		"01-" + trace + "-" + span + "-01-more":               continued,
		"":                                                    newTrace,
		"00-" + trace + "-" + span + "-01-more":               newTrace,
		"01-" + trace + "-" + span + "-01more":                newTrace,
		"ff-" + trace + "-" + span + "-01":                    newTrace,
		"00-" + strings.Repeat("0", 32) + "-" + span + "-01":  newTrace,
		"00-" + trace + "-" + strings.Repeat("0", 16) + "-01": newTrace,
		"00-" + strings.ToUpper(trace) + "-" + span + "-01":   newTrace,
		"00-" + trace + "-" + span:                            newTrace,
		strings.Repeat("x", 55):                               newTrace,
	} {
		got := body(t, h.do(t, "GET", "/x", header("Traceparent", parent), header("Tracestate", "a=1"),
			header("Tracestate", "b=2")))
		if !want.MatchString(got) || strings.Contains(got, span) {
			t.Errorf("Traceparent %s: the upstream got %s, want a match of %s with another span", parent, got, want)
		}
	}
	twice := body(t, h.do(t, "GET", "/x", header("Traceparent", "00-"+trace+"-"+span+"-01"),
		header("Traceparent", "00-"+trace+"-"+span+"-01")))
	if !newTrace.MatchString(twice) {
		t.Errorf("two Traceparents: the upstream got %s, want a new trace", twice)
	}
}

func TestForwardingHeadersAreTrustedFromProxiesOnly(t *testing.T) {
	backend := serve(t, func(w http.ResponseWriter, r *http.Request) {
		for _, name := range []string{
			"X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Port",
			"X-Real-Ip", "Forwarded",
		} {
			writef(w, "%s: %s\n", name, strings.Join(r.Header[name], "|"))
		}
	})
	a := artifact(route("GET /x", forward(backend.URL)))
	send := []func(*http.Request){
		header("X-Forwarded-For", "6.6.6.6, 203.0.113.7"), header("X-Forwarded-Proto", "https"),
		header("X-Forwarded-Host", "evil.test"),
		header("X-Forwarded-Port", "1"), header("X-Real-Ip", "6.6.6.6"), header("Forwarded", "for=6.6.6.6"),
	}
	untrusted := "X-Forwarded-For: 127.0.0.1\nX-Forwarded-Host: shop.test\nX-Forwarded-Proto: " +
		"http\nX-Forwarded-Port: \nX-Real-Ip: \nForwarded: \n"
	if got := body(t, newFixture(t, a).do(t, "GET", "/x", send...)); got != untrusted {
		t.Errorf("forwarding headers from an untrusted peer (-want +got):\n%s", cmp.Diff(untrusted, got))
	}
	trusted := "X-Forwarded-For: 6.6.6.6, 203.0.113.7, 127.0.0.1\nX-Forwarded-Host: shop.test\nX-Forwarded-Proto: " +
		"https\nX-Forwarded-Port: \nX-Real-Ip: \n" +
		"Forwarded: for=6.6.6.6, for=127.0.0.1;host=\"shop.test\";proto=https\n"
	if got := body(t, newFixture(t, a, trustLoopback).do(t, "GET", "/x", send...)); got != trusted {
		t.Errorf("forwarding headers from a trusted proxy (-want +got):\n%s", cmp.Diff(trusted, got))
	}
}

func TestEveryOperationOfGitHubIsServedByItsRoute(t *testing.T) {
	file := filepath.Join("..", "..", "..", "local", "dev", "node_modules", "@octokit", "openapi", "generated",
		"api.github.com.json")
	rawDocument, err := os.ReadFile(file)
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("ReadFile(GitHub's OpenAPI document): %v, want it installed by npm ci --prefix local/dev", err)
		}
		t.Skip("GitHub's OpenAPI document is not installed: npm ci --prefix local/dev")
	}
	var document struct {
		Paths map[string]map[string]struct {
			OperationID string `json:"operationId"`
		} `json:"paths"`
	}
	if err := json.Unmarshal(rawDocument, &document); err != nil {
		t.Fatal(err)
	}
	backend := serve(t, func(w http.ResponseWriter, r *http.Request) { writef(w, "%s", r.URL.Path) })
	a := artifact()
	for path, methods := range document.Paths {
		for method, operation := range methods {
			r := route(strings.ToUpper(method)+" "+path, rewrite(backend.URL+"/"+operation.OperationID))
			r.OperationID = operation.OperationID
			a.Routes = append(a.Routes, r)
		}
	}
	slices.SortFunc(a.Routes, func(a, b project.Route) int { return strings.Compare(a.OperationID, b.OperationID) })
	if len(a.Routes) != 1223 {
		t.Fatalf("%d operations, want 1223", len(a.Routes))
	}
	if problems := gateway.Verify(t.Context(), a); len(problems) > 0 {
		t.Fatalf("Verify() = %v, want no problems", problems)
	}
	h := newFixture(t, a)
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	params := regexp.MustCompile(`\{[^}]+\}`)
	var pathPatterns []*regexp.Regexp
	for path := range document.Paths {
		pathPatterns = append(pathPatterns, regexp.MustCompile("^"+params.ReplaceAllString(path, "[^/]+")+"$"))
	}
	ambiguous := 0
	for _, r := range a.Routes {
		// Use a value with an encoded slash, unless the decoded path matches
		// another path of the document: then the gateway would refuse the request.
		value := "v%2F1"
		decodedPath := params.ReplaceAllString(r.Path, "v/1")
		if decodedPath != r.Path && slices.ContainsFunc(pathPatterns, func(pattern *regexp.Regexp) bool {
			return pattern.MatchString(decodedPath)
		}) {
			value = "v%201"
			ambiguous++
		}
		request, err := http.NewRequestWithContext(t.Context(), r.Method, h.URL+params.ReplaceAllString(r.Path, value),
			http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		request.Host = "shop.test"
		response, err := transport.RoundTrip(request)
		if err != nil {
			t.Fatalf("%s %s: error = %v, want a response", r.Method, r.Path, err)
		}
		got, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || string(got) != "/"+r.OperationID {
			t.Errorf("%s %s: operation = %s, %v, want /%s", r.Method, r.Path, got, err, r.OperationID)
		}
	}
	if ambiguous == 0 || ambiguous > 100 {
		t.Errorf("%d operations of %d can't have a slash in a parameter, want 1 to 100", ambiguous, len(a.Routes))
	}
}

package gateway_test

import (
	"bufio"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/format/project"
)

// newPathFixture returns a fixture with routes at openPaths, and with routes that require a key. The route GET /query
// writes a parameter of the query into the path at the upstream. All routes have the same upstream. For an open path
// that begins with /rewritten/, the path at the upstream begins with /v1/ instead.
func newPathFixture(t *testing.T, mode project.PathMode, openPaths ...string) *fixture {
	t.Helper()
	backend := serve(t, func(w http.ResponseWriter, r *http.Request) { w.Header().Set("X-Line", r.RequestURI) })
	routes := []project.Route{route("GET /query", component("urlRewriteHandler", map[string]any{
		"rewritePattern": backend.URL + "/users/${query.id}/public", "forwardSearch": false,
	}))}
	for _, path := range openPaths {
		h := forward(backend.URL)
		if rest, isRewritten := strings.CutPrefix(path, "/rewritten/"); isRewritten {
			h = rewrite(backend.URL + "/v1/" + strings.ReplaceAll(rest, "{", "${params."))
		}
		routes = append(routes, route("GET "+path, h))
	}
	routes = append(routes,
		route("GET /admin", forward(backend.URL), "key"), route("POST /v1/admin/users", forward(backend.URL), "key"))
	if mode == project.URLPattern {
		routes = append([]project.Route{
			route("GET /admin/*", forward(backend.URL), "key"),
			route("GET /admin", forward(backend.URL), "key"),
		}, routes...)
	} else {
		routes = append(routes, route("GET /v1/admin/{x}", forward(backend.URL), "key"))
	}
	for i := range routes {
		routes[i].PathMode = mode
	}
	a := artifact(routes...)
	declare(a, "key", "api-key-inbound", map[string]any{"bucketName": "b"})
	return newFixture(t, a)
}

// spelling is the target of a request, with the expected status and the expected target at the upstream.
type spelling struct {
	target         string
	status         int
	upstreamTarget string
}

// templateSpellings returns targets for routes with OpenAPI paths.
func templateSpellings() []spelling {
	return []spelling{
		{"/v1/..%2Fadmin", 400, ""},
		{"/v1/..%2fadmin", 400, ""},
		{"/v1/%2e%2e%2Fadmin", 400, ""},
		{"/v1/..%5Cadmin", 400, ""},
		{`/v1/..\admin`, 400, ""},
		{"/v1/..;%2Fadmin", 400, ""},
		{"/v1/..;a", 400, ""},
		{"/v1/x%00", 400, ""},
		{"/v1/x%0d%0aHost:%20x", 400, ""},
		{"/v1/%c0%ae%c0%ae", 400, ""},
		{"/rewritten/..%2Fadmin", 400, ""},
		{"/rewritten/..;a", 400, ""},
		{"/v1/admin%2Fusers", 400, ""},
		{`/v1/admin\users`, 400, ""},
		{"/v1/admin;a%2Fusers", 400, ""},
		{"/%2Fadmin", 400, ""},
		{"/admin;a=b", 400, ""},
		{"/admin%3Ba", 400, ""},
		{"/%61dmin", 401, ""},
		{"//admin", 401, ""},
		{"/v1/..//admin", 401, ""},
		{"/x/%2e%2e/admin", 401, ""},
		{"http://shop.test//admin", 401, ""},
		{"/v1/%61dmin//%75sers", 405, ""}, // this path has only a route for POST
		{"/v1/%61dmin//%78", 401, ""},
		{"/admin%2F", 400, ""},
		{"/admin%2f%2F", 400, ""},
		{"/admin%5C", 400, ""},
		{`/admin\`, 400, ""},
		{"/admin%2F;a", 400, ""},
		{"/admin;%2F", 400, ""},
		{"/admin/", 404, ""},
		{"/other%2F", 200, "/other%2F"},
		{`/v1/a"%2Fb`, 200, "/v1/a%22%2Fb"}, // no route has the path "/v1/a/b"
		{`/v1/admin%2F"`, 400, ""},
		{"/v1/%252e%252e%252Fadmin", 200, "/v1/%252e%252e%252Fadmin"},
		{"/v1/feature%2fx", 200, "/v1/feature%2Fx"},
		{"/rewritten/feature%2fx", 200, "/v1/feature%2Fx"},
	}
}

// patternSpellings returns targets for routes with URL patterns.
func patternSpellings() []spelling {
	return []spelling{
		{"/%61dmin", 401, ""},
		{"/%61dmin/x", 401, ""},
		{"//admin/x", 401, ""},
		{"/admin//x", 401, ""},
		{"/x/../admin/x", 401, ""},
		{"/admin%2Fx", 400, ""},
		{`/admin\x`, 400, ""},
		{"/admin%5cx", 400, ""},
		{"/admin;/x", 400, ""},
		{"/admin%2F", 400, ""},
		{"/admin%5C", 400, ""},
		{"/x/..%2Fadmin/x", 400, ""},
		{"/x/..;/admin/x", 400, ""},
		{"/x%00", 400, ""},
		{`/a"/b%2Fc`, 200, "/a%22/b%2Fc"},
		{"/~x/%7e/caf%c3%a9", 200, "/~x/~/caf%C3%A9"},
		{"/query?id=7", 200, "/users/7/public"},
		{"/query?id=a%2Fb", 200, "/users/a%2Fb/public"},
		{"/query?id=..%2Fadmin", 400, ""},
		{"/query?id=x%2F..%2F..%2Fadmin", 400, ""},
		{"/query?id=..%5Cadmin", 400, ""},
		{"/query?id=..;", 400, ""},
		{"/query?id=..%3Ba", 400, ""},
		{"/query?id=%2e%2e", 400, ""},
		{"/query?id=%00", 400, ""},
		{"/query?id=", 400, ""},
		{"/query?id=%252e%252e", 200, "/users/%252e%252e/public"},
		{"http:admin", 400, ""},
		{"http://shop.test", 200, "/"},
	}
}

// TestPathSpellingsCannotBypassKeyCheck checks that no spelling of a path of a route with a key is served by an open
// route, and that invalid paths are refused. Other paths with unusual spellings must be served.
func TestPathSpellingsCannotBypassKeyCheck(t *testing.T) {
	templates := newPathFixture(t, project.OpenAPIPath, "/v1/{name}", "/rewritten/{name}", "/{any}")
	patterns := newPathFixture(t, project.URLPattern, "/*")
	for h, spellings := range map[*fixture][]spelling{templates: templateSpellings(), patterns: patternSpellings()} {
		for _, test := range spellings {
			w := &wire{t: t, address: h.URL}
			for _, method := range []string{"GET", "HEAD"} {
				status, got := w.send(method, test.target)
				if status != test.status || got != test.upstreamTarget && status == http.StatusOK {
					t.Errorf("%s %s: status = %d, target at the upstream = %s, want %d and %s",
						method, test.target, status, got, test.status, test.upstreamTarget)
				}
			}
		}
	}
}

// TestRefusedPathSaysWhatToDo checks the details of the problems for refused paths, and that these are not logged. It
// also checks the CORS headers for an ambiguous path, and its responses without a request to the upstream.
func TestRefusedPathSaysWhatToDo(t *testing.T) {
	h := newPathFixture(t, project.OpenAPIPath, "/{any}")
	for target, want := range map[string]string{
		"/..%2Fadmin": "Resolve the \".\"",
		"/x%00":       "Take control characters",
		"/%C0%AE":     "Write ASCII",
		"/%2Fadmin":   `send a slash, a backslash or a ";" that is data in the query or the body`,
	} {
		response := h.do(t, "GET", target)
		p := problemOf(t, response)
		if p.Status != 400 || !strings.Contains(p.Detail, want) {
			t.Errorf("GET %s: problem = %d %q, want 400 with %q", target, p.Status, p.Detail, want)
		}
		if p.Instance != target {
			t.Errorf("GET %s: instance of the problem = %q, want the target", target, p.Instance)
		}
	}
	if h.log.String() != "" {
		t.Errorf("log after client errors = %s, want no lines", h.log)
	}
	// The refusal of an ambiguous path has the CORS headers of the route, so that a page of another origin can read it.
	a := h.deployments["shop.test"].Artifact
	a.Routes[1].CORSPolicy = "anything-goes"
	h = newFixture(t, a)
	response := h.do(t, "GET", "/%2Fadmin", header("Origin", "https://page.test"))
	if response.StatusCode != http.StatusBadRequest || response.Header.Get("Access-Control-Allow-Origin") != "*" {
		t.Errorf("GET /%%2Fadmin: status = %d, header = %v, want 400 with CORS headers", response.StatusCode, response.Header)
	}
	// Responses without an upstream request do not depend on the ambiguity: OPTIONS, and a method without a route.
	for method, want := range map[string]int{"OPTIONS": 204, "DELETE": 405} {
		if got := h.do(t, method, "/%2Fadmin").StatusCode; got != want {
			t.Errorf("%s /%%2Fadmin: status = %d, want %d", method, got, want)
		}
	}
}

// TestMissingMethodDoesNotFallBackToOtherRoute checks that a method without a route
// at a path with a key is not served by an open route that also matches the path.
func TestMissingMethodDoesNotFallBackToOtherRoute(t *testing.T) {
	backend := serve(t, echo)
	for mode, paths := range map[project.PathMode][]string{
		project.OpenAPIPath: {
			"GET /admin", "POST /admin", "GET /admin/{x}", "GET /{name}", "DELETE /{name}",
			"DELETE /{name}/{x}", "DELETE /other/{x}",
		},
		project.URLPattern: {"GET /admin", "POST /admin", "GET /admin/*", "GET /*", "DELETE /*"},
	} {
		var routes []project.Route
		for i, path := range paths {
			r := route(path, forward(backend.URL))
			if i < 3 { // the routes at /admin and below
				r = route(path, forward(backend.URL), "key")
			}
			r.PathMode = mode
			routes = append(routes, r)
		}
		a := artifact(routes...)
		declare(a, "key", "api-key-inbound", map[string]any{"bucketName": "b"})
		h := newFixture(t, a)
		for _, test := range []struct {
			method, path string
			want         int
			allow        string
		}{
			{"DELETE", "/admin", 405, "GET, HEAD, OPTIONS, POST"},
			{"DELETE", "/%61dmin", 405, "GET, HEAD, OPTIONS, POST"},
			{"DELETE", "/admin/x", 405, "GET, HEAD, OPTIONS"},
			{"DELETE", "/admin%2Fx", 400, ""},
			{"DELETE", "/admin%2F", 400, ""},
			{"OPTIONS", "/admin", 204, "GET, HEAD, OPTIONS, POST"},
			{"HEAD", "/admin", 401, ""},
			{"DELETE", "/other", 200, ""},
			{"DELETE", "/other/x", 200, ""},
			{"PUT", "/other", 405, "DELETE, GET, HEAD, OPTIONS"},
		} {
			response := h.do(t, test.method, test.path)
			if response.StatusCode != test.want || response.Header.Get("Allow") != test.allow {
				t.Errorf("%s, %s %s: status = %d, Allow = %q, want %d, %q",
					mode, test.method, test.path, response.StatusCode, response.Header.Get("Allow"), test.want, test.allow)
			}
		}
	}
}

// TestTargetFormsHaveTheSamePath checks request URLs in the forms that HTTP/2 and events of Lambda have.
func TestTargetFormsHaveTheSamePath(t *testing.T) {
	h := newPathFixture(t, project.OpenAPIPath, "/v1/{name}")
	for target, want := range map[string]int{
		"https://shop.test/v1/a%2F\"": 200,
		"https://shop.test//%61dmin":  401,
		"https://shop.test/v1/..%2Fx": 400,
		"*":                           400,
	} {
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)
		u, err := url.Parse(target)
		if err != nil {
			t.Fatal(err)
		}
		r.URL, r.Host, r.RequestURI = u, "shop.test", ""
		w := httptest.NewRecorder()
		h.gateway.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("request for %s: status = %d, want %d", target, w.Code, want)
		}
	}
}

// TestPreservedPathsAreForwardedUnchanged checks that a project that preserves paths sends them upstream as the client
// has written them, except that invalid bytes are escaped. A path with dot segments or control characters is not
// served.
func TestPreservedPathsAreForwardedUnchanged(t *testing.T) {
	lines := make(chan string, 1)
	backend := rawUpstream(t, func(r *bufio.Reader, conn net.Conn) {
		line, _ := r.ReadString('\n')
		lines <- line
		writef(conn, "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
	})
	a := artifact(
		route("GET /v1/{name}", forward(backend+"//base")), route("GET /admin/{x}", forward(backend), "key"),
		route("GET /p/{name}", rewrite(backend+"/u/${pathname}")),
		route("GET /q/{name}", rewrite(backend+"/u/${params.name}?at=${pathname}")),
	)
	a.PathNormalization = project.PreservePaths
	declare(a, "key", "api-key-inbound", map[string]any{"bucketName": "b"})
	h := newFixture(t, a)
	for _, test := range []struct {
		target string
		status int
		line   string
	}{
		{"/v1/%61%2fb", 204, "/base/v1/%61%2fb"},
		{"//v1//x", 204, "/base//v1//x"},
		{"/v1/\"é;v=1", 204, "/base/v1/%22%C3%A9;v=1"},
		{"/p/%61//", 404, ""},
		{"/p//%7e", 204, "/u/p//%7e"},
		{"/q/%7e", 204, "/u/~?at=%2Fq%2F~"},
		{"/%61dmin//x", 401, ""},
		{"/x/../v1/y", 400, ""},
		{"/x/../q/y", 400, ""},
		{"/v1/%2e%2e", 404, ""},
		{"/v1/%2e/y", 400, ""},
		{"/v1/..%2Fy", 400, ""},
		{"/v1/..;a", 400, ""},
		{"/v1/%00", 400, ""},
	} {
		status, _ := (&wire{t: t, address: h.URL}).send("GET", test.target)
		if status != test.status {
			t.Errorf("GET %s: status = %d, want %d", test.target, status, test.status)
		}
		if status == http.StatusNoContent {
			if line := <-lines; line != "GET "+test.line+" HTTP/1.1\r\n" {
				t.Errorf("GET %s: the upstream got %q, want the target %s", test.target, line, test.line)
			}
		}
	}
}

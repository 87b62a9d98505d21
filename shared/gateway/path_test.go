package gateway_test

import (
	"bufio"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/project"
)

// pathHouse has an open route and one that asks for a key, which is at the same
// upstream; rewritten is at it by other paths.
func pathHouse(t *testing.T, mode project.PathMode, open ...string) *house {
	t.Helper()
	up := serve(t, func(w http.ResponseWriter, r *http.Request) { w.Header().Set("X-Line", r.RequestURI) })
	routes := []project.Route{route("GET /query", component("urlRewriteHandler", map[string]any{
		"rewritePattern": up.URL + "/users/${query.id}/public", "forwardSearch": false,
	}))}
	for _, path := range open {
		h := forward(up.URL)
		if rest, isRewritten := strings.CutPrefix(path, "/rewritten/"); isRewritten {
			h = rewrite(up.URL + "/v1/" + strings.ReplaceAll(rest, "{", "${params."))
		}
		routes = append(routes, route("GET "+path, h))
	}
	routes = append(routes,
		route("GET /admin", forward(up.URL), "key"), route("POST /v1/admin/users", forward(up.URL), "key"))
	if mode == project.URLPattern {
		routes = append([]project.Route{route("GET /admin/*", forward(up.URL), "key"), route("GET /admin", forward(up.URL), "key")}, routes...)
	} else {
		routes = append(routes, route("GET /v1/admin/{x}", forward(up.URL), "key"))
	}
	for i := range routes {
		routes[i].PathMode = mode
	}
	a := artifact(routes...)
	declare(a, "key", "api-key-inbound", map[string]any{"bucketName": "b"})
	return newHouse(t, a)
}

func TestNoSpellingOfAPathWalksRoundAKeyCheck(t *testing.T) {
	templates := pathHouse(t, project.OpenAPIPath, "/v1/{name}", "/rewritten/{name}", "/{any}")
	patterns := pathHouse(t, project.URLPattern, "/*")
	for _, test := range []struct {
		h      *house
		target string
		status int
		line   string // what the upstream is asked for
	}{
		{templates, "/v1/..%2Fadmin", 400, ""},
		{templates, "/v1/..%2fadmin", 400, ""},
		{templates, "/v1/%2e%2e%2Fadmin", 400, ""},
		{templates, "/v1/..%5Cadmin", 400, ""},
		{templates, `/v1/..\admin`, 400, ""},
		{templates, "/v1/..;%2Fadmin", 400, ""},
		{templates, "/v1/..;a", 400, ""},
		{templates, "/v1/x%00", 400, ""},
		{templates, "/v1/x%0d%0aHost:%20x", 400, ""},
		{templates, "/v1/%c0%ae%c0%ae", 400, ""},
		{templates, "/rewritten/..%2Fadmin", 400, ""},
		{templates, "/rewritten/..;a", 400, ""},
		{templates, "/v1/admin%2Fusers", 400, ""},
		{templates, `/v1/admin\users`, 400, ""},
		{templates, "/v1/admin;a%2Fusers", 400, ""},
		{templates, "/%2Fadmin", 400, ""},
		{templates, "/admin;a=b", 400, ""},
		{templates, "/admin%3Ba", 400, ""},
		{templates, "/%61dmin", 401, ""},
		{templates, "//admin", 401, ""},
		{templates, "/v1/..//admin", 401, ""},
		{templates, "/x/%2e%2e/admin", 401, ""},
		{templates, "http://shop.test//admin", 401, ""},
		{templates, "/v1/%61dmin//%75sers", 405, ""}, // a POST alone
		{templates, "/v1/%61dmin//%78", 401, ""},
		{templates, "/admin%2F", 400, ""},
		{templates, "/admin%2f%2F", 400, ""},
		{templates, "/admin%5C", 400, ""},
		{templates, `/admin\`, 400, ""},
		{templates, "/admin%2F;a", 400, ""},
		{templates, "/admin;%2F", 400, ""},
		{templates, "/admin/", 404, ""},
		{templates, "/other%2F", 200, "/other%2F"},
		{templates, `/v1/a"%2Fb`, 200, "/v1/a%22%2Fb"}, // "/v1/a/b" is no route's
		{templates, `/v1/admin%2F"`, 400, ""},
		{templates, "/v1/%252e%252e%252Fadmin", 200, "/v1/%252e%252e%252Fadmin"},
		{templates, "/v1/feature%2fx", 200, "/v1/feature%2Fx"},
		{templates, "/rewritten/feature%2fx", 200, "/v1/feature%2Fx"},
		{patterns, "/%61dmin", 401, ""},
		{patterns, "/%61dmin/x", 401, ""},
		{patterns, "//admin/x", 401, ""},
		{patterns, "/admin//x", 401, ""},
		{patterns, "/x/../admin/x", 401, ""},
		{patterns, "/admin%2Fx", 400, ""},
		{patterns, `/admin\x`, 400, ""},
		{patterns, "/admin%5cx", 400, ""},
		{patterns, "/admin;/x", 400, ""},
		{patterns, "/admin%2F", 400, ""},
		{patterns, "/admin%5C", 400, ""},
		{patterns, "/x/..%2Fadmin/x", 400, ""},
		{patterns, "/x/..;/admin/x", 400, ""},
		{patterns, "/x%00", 400, ""},
		{patterns, `/a"/b%2Fc`, 200, "/a%22/b%2Fc"},
		{patterns, "/~x/%7e/caf%c3%a9", 200, "/~x/~/caf%C3%A9"},
		{patterns, "/query?id=7", 200, "/users/7/public"},
		{patterns, "/query?id=a%2Fb", 200, "/users/a%2Fb/public"},
		{patterns, "/query?id=..%2Fadmin", 400, ""},
		{patterns, "/query?id=x%2F..%2F..%2Fadmin", 400, ""},
		{patterns, "/query?id=..%5Cadmin", 400, ""},
		{patterns, "/query?id=..;", 400, ""},
		{patterns, "/query?id=..%3Ba", 400, ""},
		{patterns, "/query?id=%2e%2e", 400, ""},
		{patterns, "/query?id=%00", 400, ""},
		{patterns, "/query?id=", 400, ""},
		{patterns, "/query?id=%252e%252e", 200, "/users/%252e%252e/public"},
		{patterns, "http:admin", 400, ""},
		{patterns, "http://shop.test", 200, "/"},
	} {
		w := &wire{t: t, address: test.h.URL}
		for _, method := range []string{"GET", "HEAD"} {
			status, line := w.ask(method, test.target)
			if status != test.status || line != test.line && status == http.StatusOK {
				t.Errorf("%s %s: got %d %s, want %d %s", method, test.target, status, line, test.status, test.line)
			}
		}
	}
}

func TestARefusedPathSaysWhatToDo(t *testing.T) {
	h := pathHouse(t, project.OpenAPIPath, "/{any}")
	for target, want := range map[string]string{
		"/..%2Fadmin": "Resolve the \".\"",
		"/x%00":       "Take control characters",
		"/%C0%AE":     "Write ASCII",
		"/%2Fadmin":   `send a slash, a backslash or a ";" that is data in the query or the body`,
	} {
		response := h.do(t, "GET", target)
		p := problemOf(t, response)
		if p.Status != 400 || !strings.Contains(p.Detail, want) || p.Instance != target {
			t.Errorf("%s: got %+v, want it to say %q", target, p, want)
		}
	}
	if h.log.String() != "" {
		t.Errorf("a client's mistake is no line of the log: %s", h.log)
	}
	// What reads in two ways has a route, and a page of another origin may read why.
	a := h.deployments["shop.test"].Artifact
	a.Routes[1].CORSPolicy = "anything-goes"
	h = newHouse(t, a)
	response := h.do(t, "GET", "/%2Fadmin", header("Origin", "https://page.test"))
	if response.StatusCode != http.StatusBadRequest || response.Header.Get("Access-Control-Allow-Origin") != "*" {
		t.Errorf("got %d %v", response.StatusCode, response.Header)
	}
	// OPTIONS and other methods tell of the path as it stands, and send nothing on.
	for method, want := range map[string]int{"OPTIONS": 204, "DELETE": 405} {
		if got := h.do(t, method, "/%2Fadmin").StatusCode; got != want {
			t.Errorf("%s: got %d, want %d", method, got, want)
		}
	}
}

// TestAMethodThatAPathLacksIsFoundNowhereElse: an open route beside a path that
// asks for a key would serve it to an upstream that knows the path.
func TestAMethodThatAPathLacksIsFoundNowhereElse(t *testing.T) {
	up := serve(t, echo)
	for mode, paths := range map[project.PathMode][]string{
		project.OpenAPIPath: {"GET /admin", "POST /admin", "GET /admin/{x}", "GET /{name}", "DELETE /{name}", "DELETE /{name}/{x}", "DELETE /other/{x}"},
		project.URLPattern:  {"GET /admin", "POST /admin", "GET /admin/*", "GET /*", "DELETE /*"},
	} {
		var routes []project.Route
		for i, path := range paths {
			r := route(path, forward(up.URL))
			if i < 3 {
				r = route(path, forward(up.URL), "key")
			}
			r.PathMode = mode
			routes = append(routes, r)
		}
		a := artifact(routes...)
		declare(a, "key", "api-key-inbound", map[string]any{"bucketName": "b"})
		h := newHouse(t, a)
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
				t.Errorf("%s, %s %s: got %d, Allow %q, want %d, %q", mode, test.method, test.path, response.StatusCode, response.Header.Get("Allow"), test.want, test.allow)
			}
		}
	}
}

// TestAPathInAnyFormOfTargetIsTheSame has the forms that no socket brings: of
// HTTP/2, and of events.
func TestAPathInAnyFormOfTargetIsTheSame(t *testing.T) {
	h := pathHouse(t, project.OpenAPIPath, "/v1/{name}")
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
			t.Errorf("%s: got %d, want %d", target, w.Code, want)
		}
	}
}

func TestPreservedPathsGoUpstreamAsTheyWereWritten(t *testing.T) {
	lines := make(chan string, 1)
	up := rawUpstream(t, func(r *bufio.Reader, conn net.Conn) {
		line, _ := r.ReadString('\n')
		lines <- line
		say(conn, "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
	})
	a := artifact(
		route("GET /v1/{name}", forward(up+"//base")), route("GET /admin/{x}", forward(up), "key"),
		route("GET /p/{name}", rewrite(up+"/u/${pathname}")), route("GET /q/{name}", rewrite(up+"/u/${params.name}?at=${pathname}")),
	)
	a.PathNormalisation = project.PreservePaths
	declare(a, "key", "api-key-inbound", map[string]any{"bucketName": "b"})
	h := newHouse(t, a)
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
		status, _ := (&wire{t: t, address: h.URL}).ask("GET", test.target)
		if status != test.status {
			t.Errorf("%s: got %d, want %d", test.target, status, test.status)
		}
		if status == http.StatusNoContent {
			if line := <-lines; line != "GET "+test.line+" HTTP/1.1\r\n" {
				t.Errorf("%s: the upstream got %q, want %s", test.target, line, test.line)
			}
		}
	}
}

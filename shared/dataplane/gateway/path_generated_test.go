package gateway_test

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/format/project"
	"github.com/gatewright/gatewright/shared/testing/deadline"
)

// pathReader interprets the path of a request like an upstream, and returns
// its decoded segments. Implementations do not use the gateway's code.
type pathReader func(target string) ([]string, error)

// nginx decodes byte by byte. At the same time, it merges slashes and resolves dot segments
// (ngx_http_parse_complex_uri).
func nginx(target string) ([]string, error) {
	decoded, err := url.PathUnescape(target)
	if err != nil {
		return nil, err
	}
	var out []byte
	closeSegment := func() {
		at := strings.LastIndexByte(string(out), '/')
		switch string(out[at+1:]) {
		case ".":
			out = out[:at+1]
		case "..":
			if at > 0 {
				at = strings.LastIndexByte(string(out[:at]), '/')
			}
			out = out[:at+1]
		}
	}
	for _, c := range []byte(decoded) {
		if c == '/' {
			if len(out) > 0 {
				closeSegment()
			}
			if len(out) > 0 && out[len(out)-1] == '/' {
				continue
			}
		}
		out = append(out, c)
	}
	closeSegment()
	return strings.Split(string(out[1:]), "/"), nil
}

// tomcat removes path parameters, decodes, treats backslashes as slashes, and
// normalizes by replacements (CoyoteAdapter, with encoded slashes allowed).
func tomcat(target string) ([]string, error) {
	var b strings.Builder
	inParameter := false
	for _, c := range []byte(target) {
		inParameter = c == ';' || inParameter && c != '/'
		if !inParameter {
			b.WriteByte(c)
		}
	}
	decoded, err := url.PathUnescape(b.String())
	if err != nil {
		return nil, err
	}
	text := strings.ReplaceAll(decoded, `\`, "/")
	if strings.HasSuffix(text, "/.") || strings.HasSuffix(text, "/..") {
		text += "/"
	}
	for strings.Contains(text, "//") {
		text = strings.ReplaceAll(text, "//", "/")
	}
	for strings.Contains(text, "/./") {
		text = strings.ReplaceAll(text, "/./", "/")
	}
	for {
		at := strings.Index(text, "/../")
		if at < 0 {
			break
		}
		text = text[:max(0, strings.LastIndexByte(text[:at], '/'))] + text[at+3:]
	}
	return strings.Split(text[1:], "/"), nil
}

// mux decodes and cleans the path, like net/http.ServeMux with the decoded path of url.Parse.
func mux(target string) ([]string, error) {
	decoded, err := url.PathUnescape(target)
	if err != nil {
		return nil, err
	}
	clean := path.Clean(decoded)
	if last := decoded[strings.LastIndexByte(decoded, '/')+1:]; clean != "/" &&
		(last == "" || last == "." || last == "..") {
		clean += "/"
	}
	return strings.Split(clean[1:], "/"), nil
}

// matrix is like mux, then removes the path parameters of the decoded path, and cleans the path again.
func matrix(target string) ([]string, error) {
	segments, err := mux(target)
	for i, segment := range segments {
		segments[i], _, _ = strings.Cut(segment, ";")
	}
	if len(segments) > 0 {
		return mux("/" + (&url.URL{Path: strings.Join(segments, "/")}).EscapedPath())
	}
	return segments, err
}

// express decodes each segment. It does not clean the path.
func express(target string) ([]string, error) {
	segments := strings.Split(target[1:], "/")
	for i, segment := range segments {
		decoded, err := url.PathUnescape(segment)
		if err != nil {
			return nil, err
		}
		segments[i] = decoded
	}
	return segments, nil
}

var (
	normalizing = map[string]pathReader{"nginx": nginx, "tomcat": tomcat, "mux": mux, "matrix": matrix}
	everyServer = map[string]pathReader{"nginx": nginx, "tomcat": tomcat, "mux": mux, "matrix": matrix, "express": express}
)

// ignoringTrailingSlash returns a pathReader that returns the segments of read(target), but ignores a slash at the end.
func ignoringTrailingSlash(read pathReader) pathReader {
	return func(target string) ([]string, error) {
		segments, err := read(target)
		if last := len(segments) - 1; last > 0 && segments[last] == "" {
			segments = segments[:last]
		}
		return segments, err
	}
}

// servedPath returns the path in a table that matches segments, with any method, or "" for none. If several
// templates match, the template that is most literal from the left takes precedence. If several URL
// patterns match, the first pattern takes precedence.
func servedPath(table, segments []string) string {
	best, bestRank := "", ""
	for _, entry := range table {
		_, template, _ := strings.Cut(entry, " ")
		want := strings.Split(template[1:], "/")
		rank := ""
		for n, part := range want {
			if part == "*" && n < len(segments) {
				rank += "0"
				want = append(slices.Clone(want[:n]), segments[n:]...)
				break
			}
			param := strings.HasPrefix(part, "{") || strings.HasPrefix(part, ":")
			if n >= len(segments) || !param && part != segments[n] || param && segments[n] == "" {
				rank = ""
				break
			}
			if param {
				rank += "1"
			} else {
				rank += "2"
			}
		}
		isPattern := strings.ContainsAny(template, "*:")
		if rank == "" || len(want) != len(segments) || best != "" && (isPattern || rank <= bestRank) {
			continue
		}
		best, bestRank = template, rank
	}
	return best
}

// pieces has the parts of generated paths. Most parts are ambiguous.
var pieces = []string{
	"/", "/", "/", "/", "//", ".", "..", "/../", "/./", "%2e", "%2E", ".%2e", "%2F", "%2f", "%5C", `\`, ";", "..;", ";v=1",
	"%3B", "%00", "%25", "%252e", "%252F",
	`"`, "{", "}", "|", "%22", "$", "%24", "é", "%C3%A9", "%c3%a9", "a", "x", "users", "users", "admin", "admin",
	"%61dmin", "adm%69n", "v1", "v1", "%761", "keys",
}

// trailing has texts that some upstreams interpret as a slash at the end of a path. Many of these upstreams ignore such
// a slash.
var trailing = []string{"%2F", "%2f", "%5C", `\`, "%2F%2F", "%2F;", ";%2F", "%2F%3Bx", "%3B%5c"}

// generateTarget returns the target of a request. Its path consists of one to seven pieces, and ends with a text of
// trailing in one of four targets.
func generateTarget(r *rand.Rand) string {
	target := "/"
	for range 1 + r.IntN(7) {
		target += pieces[r.IntN(len(pieces))]
	}
	if r.IntN(4) == 0 {
		target += trailing[r.IntN(len(trailing))]
	}
	return target
}

// wire sends requests one after the other on one connection. It opens another one if the server has closed it.
type wire struct {
	t       *testing.T
	address string
	reader  *bufio.Reader
	conn    net.Conn
}

// send sends a request. It returns the status, and the response's body with the value of the field X-Line appended. The
// upstreams of these tests repeat the request's target in the body or in X-Line.
func (w *wire) send(method, target string) (status int, body string) {
	w.t.Helper()
	if w.conn == nil {
		w.reader, w.conn = sendRaw(w.t, w.address, "")
	}
	// The deadline of sendRaw is for one request, and the connection has thousands.
	if err := w.conn.SetDeadline(time.Now().Add(deadline.Timeout())); err != nil {
		w.t.Fatal(err)
	}
	writef(w.conn, "%s %s HTTP/1.1\r\nHost: shop.test\r\n\r\n", method, target)
	response, err := http.ReadResponse(w.reader, &http.Request{Method: method})
	if err != nil {
		w.t.Fatalf("%s %s: error = %v, want a response", method, target, err)
	}
	defer func() { _ = response.Body.Close() }()
	all, err := io.ReadAll(response.Body)
	if err != nil {
		w.t.Fatalf("ReadAll(body of %s %s) error = %v, want nil", method, target, err)
	}
	if response.Close {
		_ = w.conn.Close()
		w.conn = nil
	}
	return response.StatusCode, string(all) + response.Header.Get("X-Line")
}

// TestRouteMatchesTheUpstreamsInterpretation sends generated paths through the gateway. If a route serves
// a path, no kind of upstream must interpret the path that it receives as the path of another route.
// Upstreams that normalize paths must not interpret the client's path as the path of another route either.
func TestRouteMatchesTheUpstreamsInterpretation(t *testing.T) {
	const perCase = 6000
	for _, test := range []struct {
		name  string
		mode  project.PathMode
		table []string
	}{
		{"templates", project.OpenAPIPath, []string{
			"GET /v1/{name}", "GET /v1/admin", "GET /v1/{name}/keys", "GET /v1/admin/{id}", "GET /{any}", "GET /admin",
			"GET /{a}/{b}/{c}",
			"HEAD /{any}/{other}", "HEAD /admin", "GET /v1/", "GET /users/$/{x}", "POST /users/admin", "POST /x",
			"POST /{a}/keys",
		}},
		{"URL patterns", project.URLPattern, []string{
			"GET /admin", "GET /admin/*", "GET /v1/:name", "GET /v1/admin/*",
			"HEAD /users/*", "GET /*",
		}},
		{
			"URL patterns with escapes and double slashes", project.URLPattern,
			[]string{"GET /%61dmin", "GET //admin/*", "GET /users/%24/*", "GET /caf%c3%a9/*", "GET /*"},
		},
		{"rewritten", project.OpenAPIPath, []string{
			"GET /v1/{name}", "GET /v1/admin", "GET /{name}/{other}", "GET /admin/{id}", "GET /{name}", "GET /admin",
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			backend := serve(t, func(w http.ResponseWriter, r *http.Request) { w.Header().Set("X-Line", r.RequestURI) })
			var routes []project.Route
			for i, entry := range test.table {
				h := forward(backend.URL + fmt.Sprintf("?route=%d", i))
				if test.name == "rewritten" {
					_, template, _ := strings.Cut(entry, " ")
					h = rewrite(backend.URL + strings.ReplaceAll(template, "{", "${params.") + fmt.Sprintf("?route=%d", i))
				}
				r := route(entry, h)
				r.PathMode = test.mode
				routes = append(routes, r)
			}
			h := newFixture(t, artifact(routes...))
			table := canonicalTable(test.table)
			w := &wire{t: t, address: h.URL}
			random := rand.New(rand.NewPCG(7, uint64(len(test.table)))) // so that each run has the same paths
			served, refused := 0, 0
			for range perCase {
				method, target := "GET", generateTarget(random)
				if n := random.IntN(10); n < 3 {
					method = []string{"HEAD", "HEAD", "POST"}[n]
				}
				status, upstreamTarget := w.send(method, target)
				switch status {
				case http.StatusBadRequest:
					refused++
					continue
				case http.StatusNotFound, http.StatusMethodNotAllowed:
					continue
				case http.StatusOK:
					served++
				default:
					t.Fatalf("%s %s: status = %d, target at the upstream = %s, want 200, 400, 404 or 405",
						method, target, status, upstreamTarget)
				}
				arrived, number, _ := strings.Cut(upstreamTarget, "?route=")
				for name, read := range everyServer {
					checkServed(t, method+" "+target, arrived, name, read, table, number)
					if !strings.HasSuffix(arrived, "/") {
						checkServed(t, method+" "+target, arrived, name+", which takes /a/ for /a",
							ignoringTrailingSlash(read), table, number)
					}
				}
				for name, read := range normalizing {
					checkServed(t, method+" "+target, target, name, read, table, number)
				}
			}
			t.Logf("of %d paths %d were served, %d refused", perCase, served, refused)
			if served < perCase/8 || refused > perCase*3/4 {
				t.Errorf("of %d paths %d served and %d refused, want at least %d served and at most %d refused",
					perCase, served, refused, perCase/8, perCase*3/4)
			}
		})
	}
}

// checkServed fails the test if the upstream serves another route of the table than the gateway. arrived is the path
// that arrived at the upstream, name is the name of the upstream, and read interprets paths as the upstream does.
// number is the index of the gateway's route in the table.
func checkServed(t *testing.T, target, arrived, name string, read pathReader, table []string, number string) {
	t.Helper()
	segments, err := read(strings.ReplaceAll(arrived, "é", "%C3%A9"))
	if err != nil {
		t.Fatalf("%s: %s parses %s with %v, want no error", target, name, arrived, err)
	}
	n, err := strconv.Atoi(number)
	if err != nil {
		t.Fatal(err)
	}
	_, chosen, _ := strings.Cut(table[n], " ")
	if other := servedPath(table, segments); other != "" && other != chosen {
		t.Errorf("%s: route = %s, want %s, which %s serves for %s", target, chosen, other, name, arrived)
	}
}

// canonicalTable replaces the unusual spellings of the tables in TestRouteMatchesTheUpstreamsInterpretation with
// canonical ones.
func canonicalTable(table []string) []string {
	spelled := strings.NewReplacer("%61", "a", "//", "/", "%24", "$", "%c3%a9", "é")
	var out []string
	for _, entry := range table {
		out = append(out, spelled.Replace(entry))
	}
	return out
}

// TestUnambiguousPathsAreServed checks that paths with unusual but unambiguous characters are served, and how they are
// spelled at the upstream.
func TestUnambiguousPathsAreServed(t *testing.T) {
	backend := serve(t, echo)
	h := newFixture(t, artifact(route("GET /v1/{name}", forward(backend.URL)),
		route("GET /v1/{name}/keys/{id}", forward(backend.URL)), route("GET /v1/admin", forward(backend.URL))))
	w := &wire{t: t, address: h.URL}
	for target, want := range map[string]string{
		"/v1/feature%2Fx":         "/v1/feature%2Fx",
		"/v1/a%2fb%2fc":           "/v1/a%2Fb%2Fc",
		"/v1/lat=5;lon=6":         "/v1/lat=5;lon=6",
		"/v1/a%5Cb":               "/v1/a%5Cb",
		"/v1/.well-known":         "/v1/.well-known",
		"/v1/...":                 "/v1/...",
		"/v1/a..b":                "/v1/a..b",
		"/v1/caf%c3%a9":           "/v1/caf%C3%A9",
		"/v1/%24bulk":             "/v1/%24bulk",
		"/v1/100%25":              "/v1/100%25",
		"/v1/%252e%252e%252fa":    "/v1/%252e%252e%252fa",
		"/v1/\"quoted\"%2Fx":      "/v1/%22quoted%22%2Fx",
		"/v1/{x}|^`":              "/v1/%7Bx%7D%7C%5E%60",
		"/v1/a%20b":               "/v1/a%20b",
		"/v1/x/keys/%E9":          "/v1/x/keys/%E9",
		"/v1/x/keys/7?q=%2F..%2F": "/v1/x/keys/7?q=%2F..%2F",
	} {
		if status, line := w.send("GET", target); status != http.StatusOK || !strings.HasSuffix(line, " "+want+" ") {
			t.Errorf("GET %s: status = %d, line = %q, want the upstream to get %s", target, status, line, want)
		}
	}
}

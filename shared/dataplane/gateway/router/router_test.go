package router

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gatewright/gatewright/shared/format/project"
)

// newRouter returns a router with a GET route for each path. A route's number is the index of its path.
func newRouter(t *testing.T, mode project.PathMode, paths ...string) *Router {
	t.Helper()
	var r Router
	for i, path := range paths {
		if err := r.Add("GET", path, mode, i); err != nil {
			t.Fatalf("Add(%s) = %v, want no error", path, err)
		}
	}
	return &r
}

// describeMatch returns the template that a path matches, followed by the parameters, or "-" if the path matches no
// template.
func describeMatch(r *Router, paths []string, path string) string {
	var m Match
	i, ok := r.Find("GET", path, &m)
	if !ok {
		return "-"
	}
	names := m.Names()
	slices.Sort(names)
	out := paths[i]
	for _, name := range names {
		raw, _ := m.Raw(name)
		out += " " + name + "=" + raw
	}
	return out
}

func TestOpenAPITemplatesMatchSegmentBySegment(t *testing.T) {
	paths := []string{
		"/",
		"/todos",
		"/todos/{id}",
		"/todos/done",
		"/todos/{id}/notes/{note}",
		"/todos/done/{what}",
		"/files/{name}.{ext}",
		"/files/{name}.tar.{ext}",
		"/files/{name}",
		"/compare/{base}...{head}",
		"/v{version}/ping",
		"/branches/{branch}/variables/",
		"/caf%C3%A9",
		"/a b",
		"/$bulk",
	}
	r := newRouter(t, project.OpenAPIPath, paths...)
	for path, want := range map[string]string{
		"/":                                    "/",
		"/todos":                               "/todos",
		"/todos/":                              "-",
		"/todos/7":                             "/todos/{id} id=7",
		"/todos/done":                          "/todos/done",
		"/todos/%64one":                        "/todos/done",
		"/todos/Done":                          "/todos/{id} id=Done",
		"/todos/done/notes/3":                  "/todos/{id}/notes/{note} id=done note=3",
		"/todos/done/it":                       "/todos/done/{what} what=it",
		"/todos/feature%2Fx":                   "/todos/{id} id=feature%2Fx",
		"/todos/a/b":                           "-",
		"/files/a.txt":                         "/files/{name}.{ext} ext=txt name=a",
		"/files/a.b.txt":                       "/files/{name}.{ext} ext=b.txt name=a",
		"/files/a.tar.gz":                      "/files/{name}.tar.{ext} ext=gz name=a",
		"/files/.txt":                          "/files/{name} name=.txt",
		"/files/a.":                            "/files/{name} name=a.",
		"/files/plain":                         "/files/{name} name=plain",
		"/compare/main...dev":                  "/compare/{base}...{head} base=main head=dev",
		"/compare/main....dev":                 "/compare/{base}...{head} base=main head=.dev",
		"/compare/main..dev":                   "-",
		"/v2/ping":                             "/v{version}/ping version=2",
		"/v/ping":                              "-",
		"/branches/feature%2Fx/variables/":     "/branches/{branch}/variables/ branch=feature%2Fx",
		"/branches/feature%2Fx/variables":      "-",
		"/branches/feature/x/variables/":       "-",
		"/branches//variables/":                "-",
		"/caf%C3%A9":                           "/caf%C3%A9",
		"/a%20b":                               "/a b",
		"/$bulk":                               "/$bulk",
		"/%24bulk":                             "/$bulk",
		"//todos":                              "-",
		"":                                     "-",
		"*":                                    "-",
		"/" + strings.Repeat("todos/", 10_000): "-",
	} {
		if got := describeMatch(r, paths, path); got != want {
			t.Errorf("Find(%.60s) = %s, want %s", path, got, want)
		}
	}
}

func TestParameterValuesAreUnescaped(t *testing.T) {
	var m Match
	if _, ok := newRouter(t, project.OpenAPIPath, "/{branch}").Find("GET", "/feature%2Fx%20y", &m); !ok {
		t.Fatalf("Find(GET /feature%%2Fx%%20y) = no match, want /{branch}")
	}
	if got := m.Value("branch"); got != "feature/x y" {
		t.Errorf("Value(branch) = %q, want %q", got, "feature/x y")
	}
	if got := m.Value("other"); got != "" {
		t.Errorf("Value(other) = %q, want %q", got, "")
	}
}

func TestMethodsHaveSeparateRoutes(t *testing.T) {
	var r Router
	for i, route := range []string{"POST /todos/done", "GET /todos/{id}", "DELETE /todos/{other}", "GET /todos"} {
		method, path, _ := strings.Cut(route, " ")
		if err := r.Add(method, path, project.OpenAPIPath, i); err != nil {
			t.Fatal(err)
		}
	}
	var m Match
	if i, ok := r.Find("GET", "/todos/done", &m); ok || m.Names() != nil {
		t.Errorf("Find(GET /todos/done) = %d, %t with the parameters %v, want no match and no parameters", i, ok, m.Names())
	}
	if i, ok := r.Find("POST", "/todos/done", &m); !ok || i != 0 {
		t.Errorf("Find(POST /todos/done) = %d, %t, want 0, true", i, ok)
	}
	if i, ok := r.Find("DELETE", "/todos/3", &m); !ok || i != 2 || m.Value("other") != "3" {
		t.Errorf("Find(DELETE /todos/3) = %d, %t with other=%q, want 2, true with 3", i, ok, m.Value("other"))
	}
	if i, ok := r.Find("HEAD", "/todos/3", &m); !ok || i != 1 || m.Value("id") != "3" {
		t.Errorf("Find(HEAD /todos/3) = %d, %t with id=%q, want 1, true with 3, as for GET", i, ok, m.Value("id"))
	}
	for path, want := range map[string][]string{
		"/todos/done": {"POST"}, "/todos/3": {"DELETE", "GET"},
		"/todos": {"GET"},
	} {
		if got := r.Allowed(path); !slices.Equal(got, want) {
			t.Errorf("Allowed(%s) = %v, want %v", path, got, want)
		}
	}
	if got := r.Allowed("/nothing"); got != nil {
		t.Errorf("Allowed(/nothing) = %v, want nil", got)
	}
}

func TestTheFirstOfTwoEqualDeclarationsWins(t *testing.T) {
	r := newRouter(t, project.OpenAPIPath, "/a/{x}", "/a/{y}")
	var m Match
	if i, _ := r.Find("GET", "/a/1", &m); i != 0 || m.Value("x") != "1" {
		t.Errorf("Find(GET /a/1) = %d with x=%q, want 0 with 1", i, m.Value("x"))
	}
}

// TestEmptySegmentsMatchNothing checks that no parameter matches an empty text, and that a segment does not match if it
// lacks the literal part of the template's segment.
func TestEmptySegmentsMatchNothing(t *testing.T) {
	for _, test := range []struct{ template, path, want string }{
		{"/{any}", "//x", "-"},
		{"/{any}/{other}", "/x/", "-"},
		{"/only/{name}.json", "/only/x", "-"},
		{"/only/v{name}", "/only/x", "-"},
		{"/only/{name}.json", "/only/.json", "-"},
	} {
		if got := describeMatch(newRouter(t, project.OpenAPIPath, test.template), []string{test.template},
			test.path); got != test.want {
			t.Errorf("Find(%s) with the template %s = %s, want %s", test.path, test.template, got, test.want)
		}
	}
}

func TestFirstOfEquallyLiteralTemplatesWins(t *testing.T) {
	paths := []string{"/x/{a}b{c}", "/x/{a}d{c}"}
	got := describeMatch(newRouter(t, project.OpenAPIPath, paths...), paths, "/x/1b2d3")
	if got != "/x/{a}b{c} a=1 c=2d3" {
		t.Errorf("Find(/x/1b2d3) = %s, want /x/{a}b{c} a=1 c=2d3", got)
	}
}

func TestPathCanHaveSixteenParameters(t *testing.T) {
	path := ""
	for i := range maxParams {
		path += fmt.Sprintf("/{p%d}", i)
	}
	if got := describeMatch(newRouter(t, project.OpenAPIPath, path), []string{path},
		strings.Repeat("/x", maxParams)); !strings.HasPrefix(got, path) {
		t.Errorf("Find(path with %d parameters) = %s, want %s", maxParams, got, path)
	}
}

func TestAmbiguousPathsAreDetected(t *testing.T) {
	var r Router
	for i, route := range []string{
		"GET /v1/{name}", "GET /v1/{name}/keys", "POST /v1/{name}/{other}", "HEAD /{any}",
		"GET /admin",
	} {
		method, path, _ := strings.Cut(route, " ")
		if err := r.Add(method, path, project.OpenAPIPath, i); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		method, path string
		want         bool
	}{
		{"GET", "/v1/x", false},
		{"GET", "/v1/x%2Fkeys", true},
		{"GET", "/v1/x;a%2Fb/keys", false}, // every interpretation with a route has the same route
		{"GET", "/v1/x%2Fother", true},     // /v1/x/other has only a POST route: a GET would be a 405
		{"GET", "/v1/x%20y", false},
		{"HEAD", "/v1/x%2Fkeys", true}, // HEAD uses the route of GET
		{"HEAD", "/admin%2F..x", false},
		{"HEAD", "/admin%2F", true}, // many upstreams treat /admin/ as /admin
		{"HEAD", "/other%2F", false},
	} {
		var m Match
		_, ok := r.Find(test.method, test.path, &m)
		if got := ok && r.IsAmbiguous(test.path); got != test.want {
			t.Errorf("Find(%[1]s %[2]s) finds a route and IsAmbiguous(%[2]s) = %[3]t, want %[4]t", test.method, test.path, got,
				test.want)
		}
	}
}

func TestInvalidPathsAreRefused(t *testing.T) {
	many := ""
	for i := range maxParams + 1 {
		many += fmt.Sprintf("/{p%d}", i)
	}
	for _, test := range []struct {
		path string
		mode project.PathMode
		want string
	}{
		{"todos", project.OpenAPIPath, "start the path"},
		{"", project.OpenAPIPath, "start the path"},
		{"/a?b=c", project.OpenAPIPath, "end the path"},
		{"/{", project.OpenAPIPath, "close each"},
		{"/{a/b}", project.OpenAPIPath, "close each"},
		{"/a}", project.OpenAPIPath, "close each"},
		{"/{{a}}", project.OpenAPIPath, "close each"},
		{"/{}", project.OpenAPIPath, "a name"},
		{"/{a}{b}", project.OpenAPIPath, "between {a} and {b}"},
		{"/{a}/{a}", project.OpenAPIPath, "once only"},
		{"/100%", project.OpenAPIPath, "%25"},
		{"/a/../b", project.OpenAPIPath, `"." and ".."`},
		{"/a/%2e/b", project.OpenAPIPath, `"." and ".."`},
		{"/..%2Fb", project.OpenAPIPath, "encoded slash"},
		{"/..;{v}", project.OpenAPIPath, "encoded slash"},
		{"/a%00", project.OpenAPIPath, "control"},
		{"/%C0%AE", project.OpenAPIPath, "overlong"},
		{"/__gatewright", project.OpenAPIPath, "belongs to the gateway"},
		{"/__gatewright/x", project.OpenAPIPath, "belongs to the gateway"},
		{"/%5F_gatewright//x", project.OpenAPIPath, "belongs to the gateway"},
		{"/100%", project.URLPattern, "%25"},
		{"/a/../b", project.URLPattern, `"." and ".."`},
		{"/a/%2e/b", project.URLPattern, `"." and ".."`},
		{"/a\\.\\./b\\", project.URLPattern, "URL Pattern"},
		{"/..%2F:b", project.URLPattern, "encoded slash"},
		{"/a%00", project.URLPattern, "control"},
		{"/:a(%61)", project.URLPattern, "regular expression"},
		{"/:a(x%c3)", project.URLPattern, "regular expression"},
		{"/\\_\\_gatewright/*", project.URLPattern, "belongs to the gateway"},
		{many, project.OpenAPIPath, "at most 16"},
		{"/(", project.URLPattern, "URL Pattern"},
		{"/:a/:a", project.URLPattern, "URL Pattern"},
		{"/(?<=a)b", project.URLPattern, "URL Pattern"},
		{"books", project.URLPattern, "start the URL pattern"},
		{"/a", "glob", "path mode"},
	} {
		var r Router
		err := r.Add("GET", test.path, test.mode, 0)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("Add(%s, %s) = %v, want an error with %q", test.path, test.mode, err, test.want)
		} else if strings.HasPrefix(err.Error(), "correct") {
			t.Errorf("Add(%s) = %v, want no \"correct\" at the start, since the caller adds it", test.path, err)
		}
	}
}

func TestHasParam(t *testing.T) {
	for _, test := range []struct {
		path, name string
		mode       project.PathMode
		want       bool
	}{
		{"/a/{id}", "id", project.OpenAPIPath, true},
		{"/a/{id}", "i", project.OpenAPIPath, false},
		{"/a/{b}...{c}", "c", project.OpenAPIPath, true},
		{"/a/:id/x", "id", project.URLPattern, true},
		{"/a/:idx", "id", project.URLPattern, false},
		{"/a/:idx/:id", "id", project.URLPattern, true},
		{"/a/*", "0", project.URLPattern, true},
		{"/a/*", "1", project.URLPattern, false},
		{"/*/(\\d+)", "1", project.URLPattern, true},
		{"/*/(\\d+)", "2", project.URLPattern, false},
		{"/a/*", "-1", project.URLPattern, false},
	} {
		if got := HasParam(test.path, test.mode, test.name); got != test.want {
			t.Errorf("HasParam(%s, %s) = %t, want %t", test.path, test.name, got, test.want)
		}
	}
}

// TestFilledTemplateIsFound checks that a path made from a template finds this
// template or a more literal one, with any other templates in the router.
func TestFilledTemplateIsFound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		segment := rapid.SampledFrom([]string{"a", "b", "c", "{p}", "x{p}", "{p}.json", "{p}...{q}"})
		paths := rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) string {
			path := ""
			for i := range rapid.IntRange(1, 4).Draw(t, "depth") {
				s := segment.Draw(t, "segment")
				s = strings.ReplaceAll(s, "{p}", fmt.Sprintf("{p%d}", i))
				path += "/" + strings.ReplaceAll(s, "{q}", fmt.Sprintf("{q%d}", i))
			}
			return path
		}), 1, 12, rapid.ID).Draw(t, "paths")
		var r Router
		for i, path := range paths {
			if err := r.Add("GET", path, project.OpenAPIPath, i); err != nil {
				t.Fatalf("Add(%s) = %v, want no error", path, err)
			}
		}
		i := rapid.IntRange(0, len(paths)-1).Draw(t, "template")
		value := rapid.StringMatching(`[a-z%]{1,6}`)
		path := param.ReplaceAllStringFunc(paths[i], func(string) string { return url.PathEscape(value.Draw(t, "value")) })
		var m Match
		got, ok := r.Find("GET", path, &m)
		if !ok {
			t.Fatalf("Find(%s) = no match, want the template %s", path, paths[i])
		}
		// regexpOf and rank check the result independently of the router.
		if !regexpOf(paths[got]).MatchString(path) {
			t.Fatalf("Find(%s) = %s, want a template that matches", path, paths[got])
		}
		if rank(paths[got]) < rank(paths[i]) {
			t.Fatalf("Find(%s) = %s, want no template less literal than %s", path, paths[got], paths[i])
		}
		for _, name := range m.Names() {
			if raw, _ := m.Raw(name); raw == "" || strings.Contains(raw, "/") {
				t.Fatalf("Raw(%s) in %s = %q, want a value without slashes", name, path, raw)
			}
		}
	})
}

// param matches a parameter of a template.
var param = regexp.MustCompile(`\{[^}]+\}`)

func regexpOf(template string) *regexp.Regexp {
	var b strings.Builder
	end := 0 // of the previous parameter
	for _, at := range param.FindAllStringIndex(template, -1) {
		b.WriteString(regexp.QuoteMeta(template[end:at[0]]) + `[^/]+`)
		end = at[1]
	}
	return regexp.MustCompile("^" + b.String() + regexp.QuoteMeta(template[end:]) + "$")
}

// rank returns a string that is greater for more literal templates. It orders templates of the same depth: the leftmost
// segment that differs decides. A literal ranks above a mixed segment, and a mixed segment with more literal bytes
// ranks above others.
func rank(template string) string {
	var b strings.Builder
	for segment := range strings.SplitSeq(template[1:], "/") {
		literal := len(param.ReplaceAllString(segment, ""))
		if !strings.Contains(segment, "{") {
			literal = 99
		}
		fmt.Fprintf(&b, "%02d", literal)
	}
	return b.String()
}

func TestEveryOperationOfGitHubIsFound(t *testing.T) {
	type operation struct{ method, path string }
	var operations []operation
	for path, methods := range github(t) {
		for method := range methods {
			if slices.Contains([]string{"get", "put", "post", "delete", "patch", "head", "options", "trace"}, method) {
				operations = append(operations, operation{strings.ToUpper(method), path})
			}
		}
	}
	if len(operations) != 1223 {
		t.Fatalf("operations in the description of GitHub's API = %d, want 1223", len(operations))
	}
	slices.SortFunc(operations, func(a, b operation) int { return strings.Compare(a.path+a.method, b.path+b.method) })
	var r Router
	for i, o := range operations {
		if err := r.Add(o.method, o.path, project.OpenAPIPath, i); err != nil {
			t.Fatalf("Add(%s) = %v, want no error", o.path, err)
		}
	}
	for i, o := range operations {
		want := map[string]string{}
		path := param.ReplaceAllStringFunc(o.path, func(name string) string {
			value := fmt.Sprintf("v%d%%2F%s", len(want), strings.Trim(name, "{}"))
			want[strings.Trim(name, "{}")] = value
			return value
		})
		var m Match
		got, ok := r.Find(o.method, path, &m)
		if !ok || got != i {
			t.Errorf("Find(%s %s) = %d, %t, want %d", o.method, path, got, ok, i)
			continue
		}
		params := map[string]string{}
		for _, name := range m.Names() {
			params[name], _ = m.Raw(name)
		}
		if !maps.Equal(params, want) {
			t.Errorf("Find(%s %s): parameters = %v, want %v", o.method, path, params, want)
		}
	}
}

// github returns the methods of each path in the description of GitHub's API.
func github(tb testing.TB) map[string]map[string]json.RawMessage {
	tb.Helper()
	file := filepath.Join("..", "..", "..", "..", "local", "dev", "node_modules", "@octokit", "openapi", "generated",
		"api.github.com.json")
	raw, err := os.ReadFile(file)
	if err != nil {
		if os.Getenv("CI") != "" {
			tb.Fatalf("ReadFile(GitHub's description): %v, want it installed by npm ci --prefix local/dev", err)
		}
		tb.Skip("the GitHub description is not installed: npm ci --prefix local/dev")
	}
	var document struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	if err := json.Unmarshal(raw, &document); err != nil {
		tb.Fatal(err)
	}
	return document.Paths
}

func FuzzFindNeverPanics(f *testing.F) {
	var r Router
	for i, path := range []string{"/", "/a/{b}", "/a/{b}...{c}", "/a/x{b}y{c}z", "/a/b"} {
		if err := r.Add("GET", path, project.OpenAPIPath, i); err != nil {
			f.Fatal(err)
		}
	}
	if err := r.Add("GET", "/p/:x(\\d+)/*", project.URLPattern, 9); err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{"/", "/a/b", "/a/1...2", "/a/x1y2z", "/%", "/a/%zz", "/p/1/x", "/a/%2e%2e"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, path string) {
		var m Match
		_, _ = r.Find("GET", path, &m)
		_ = r.IsAmbiguous(path)
	})
}

func BenchmarkFind(b *testing.B) {
	var r Router
	i := 0
	for path, methods := range github(b) {
		for method := range methods {
			if err := r.Add(strings.ToUpper(method), path, project.OpenAPIPath, i); err != nil {
				b.Fatal(err)
			}
			i++
		}
	}
	b.ReportAllocs()
	var m Match
	for b.Loop() {
		if _, ok := r.Find("GET", "/repos/octo/hello/compare/main...dev", &m); !ok {
			b.Fatal("Find() = no match, want one")
		}
	}
}

package expression

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gatewright/gatewright/shared/dataplane/gateway/pipeline"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/router"
	"github.com/gatewright/gatewright/shared/format/project"
)

// exchange returns the exchange of a GET request for target (path?query). The argument template is the path of the
// request's route.
func exchange(t testing.TB, template string, mode project.PathMode, target string) *pipeline.Exchange {
	t.Helper()
	path, rawQuery, _ := strings.Cut(target, "?")
	var r router.Router
	if err := r.Add("GET", template, mode, 0); err != nil {
		t.Fatal(err)
	}
	x := &pipeline.Exchange{
		Method: "GET", Path: path, Query: rawQuery, Scheme: "https", Host: "gw.example:8443",
		Header: http.Header{"X-Tenant": {"a b/c"}, "Accept": {"text/html"}},
		User:   &pipeline.User{Sub: "acme", Data: json.RawMessage(`{"plan":"gold","id":7}`)},
	}
	if _, ok := r.Find("GET", path, &x.Params); !ok {
		t.Fatalf("Find(%s) with the route %s = false, want true", path, template)
	}
	return x
}

// fataler has the methods of *testing.T and *rapid.T that these tests use.
type fataler interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

func compile(t fataler, text string, variables map[string]string) *Address {
	t.Helper()
	parsed, err := Parse(text)
	if err != nil {
		t.Fatalf("Parse(%s) error = %v, want none", text, err)
	}
	a, err := parsed.Compile(variables)
	if err != nil {
		t.Fatalf("Compile(%s) error = %v, want none", text, err)
	}
	return a
}

func TestRequestValuesAreInserted(t *testing.T) {
	x := exchange(t, "/todos/{id}/{rest}", project.OpenAPIPath, "/todos/a%2Fb/c?q=x%20y&r=%2F&r=2")
	variables := map[string]string{
		"BASE": "https://up.example/v1", "HOST": "up.example", "TOKEN": "a b",
		"SERVICE": "Stock", "ORDERS": "service://ORDERS/v1",
	}
	for text, want := range map[string]string{
		"https://up.example":                                  "https://up.example/",
		"HTTPS://up.example/":                                 "https://up.example/",
		"http://up.example:81/x":                              "http://up.example:81/x",
		"${env.BASE}/todos":                                   "https://up.example/v1/todos",
		"https://${env.HOST}/":                                "https://up.example/",
		"https://up.example${pathname}":                       "https://up.example/todos/a%2Fb/c",
		"https://up.example${pathname}${search}":              "https://up.example/todos/a%2Fb/c?q=x%20y&r=%2F&r=2",
		"https://up.example/${params.id}":                     "https://up.example/a%2Fb",
		"https://up.example/${ params.id }":                   "https://up.example/a%2Fb",
		"https://up.example/${params['id']}":                  "https://up.example/a%2Fb",
		"https://up.example/${request.params.id}":             "https://up.example/a%2Fb",
		"https://up.example/${e(params.id)}":                  "https://up.example/a%2Fb",
		"https://up.example/${encodeURIComponent(params.id)}": "https://up.example/a%2Fb",
		"https://up.example/a?id=${params.id}":                "https://up.example/a?id=a%2Fb",
		"https://up.example/${query.q}":                       "https://up.example/x%20y",
		"https://up.example/?r=${query.r}":                    "https://up.example/?r=%2F",
		"https://up.example/?n=${query.none}":                 "https://up.example/?n=",
		`https://up.example/${headers["x-tenant"]}`:           "https://up.example/a%20b%2Fc",
		`https://up.example/${headers.get('X-Tenant')}`:       "https://up.example/a%20b%2Fc",
		`https://up.example/${request.headers.get("accept")}`: "https://up.example/text%2Fhtml",
		`https://up.example/${headers.host}`:                  "https://up.example/gw.example%3A8443",
		"https://up.example/?u=${url}": "https://up.example/?u=" +
			"https%3A%2F%2Fgw.example%3A8443%2Ftodos%2Fa%252Fb%2Fc%3Fq%3Dx%2520y%26r%3D%252F%26r%3D2",
		"https://up.example/?${search}&a=b":               "https://up.example/?q=x%20y&r=%2F&r=2&a=b",
		"https://up.example/${method}/${port}":            "https://up.example/GET/8443",
		"https://up.example/${host}":                      "https://up.example/gw.example%3A8443",
		"https://up.example/${hostname}":                  "https://up.example/gw.example",
		"https://up.example/?o=${origin}":                 "https://up.example/?o=https%3A%2F%2Fgw.example%3A8443",
		"https://up.example/?t=${env.TOKEN}":              "https://up.example/?t=a%20b",
		"https://up.example/${request.user.sub}":          "https://up.example/acme",
		"https://up.example/${request.user.data.plan}":    "https://up.example/gold",
		"https://up.example/${request.user.data.id}":      "https://up.example/7",
		"https://up.example/?n=${request.user.data.none}": "https://up.example/?n=",
		"https://up.example/a b":                          "https://up.example/a%20b",
		"https://up.example/$bulk/$":                      "https://up.example/$bulk/$",
		"https://bücher.example/":                         "https://xn--bcher-kva.example/",
		"https://bücher.example:81/x":                     "https://xn--bcher-kva.example:81/x",
		"https://up.example?a=b":                          "https://up.example/?a=b",
		"https://up.example/?\"=!~\x7f é":                 "https://up.example/?%22=!~%7F%20%C3%A9",
		"http://[::1]:8080/x":                             "http://[::1]:8080/x",
		"service://Stock":                                 "service://Stock/",
		"SERVICE://Stock-2/v1":                            "service://Stock-2/v1",
		"service://Stock${pathname}":                      "service://Stock/todos/a%2Fb/c",
		"service://Stock?a=b":                             "service://Stock/?a=b",
		"service://${env.SERVICE}/${params.id}":           "service://Stock/a%2Fb",
		"${env.ORDERS}/todos":                             "service://ORDERS/v1/todos",
	} {
		u, err := compile(t, text, variables).Resolve(x, "", false)
		if err != nil {
			t.Errorf("Resolve(%s) error = %v, want none", text, err)
		} else if got := u.String(); got != want {
			t.Errorf("Resolve(%s) = %s, want %s", text, got, want)
		}
	}
}

func TestQueryIsForwardedUnlessTheTextContainsIt(t *testing.T) {
	withQuery := exchange(t, "/a", project.OpenAPIPath, "/a?q=1")
	withoutQuery := exchange(t, "/a", project.OpenAPIPath, "/a")
	for _, test := range []struct {
		text string
		x    *pipeline.Exchange
		want string
	}{
		{"http://up/x", withQuery, "http://up/x?q=1"},
		{"http://up/x", withoutQuery, "http://up/x"},
		{"http://up/x?k=v", withQuery, "http://up/x?k=v&q=1"},
		{"http://up/x?k=v", withoutQuery, "http://up/x?k=v"},
		{"http://up/x${search}", withQuery, "http://up/x?q=1"},
		{"http://up/x${search}&k=v", withoutQuery, "http://up/x?k=v"},
		{"http://up/x?k=v&${search}", withQuery, "http://up/x?k=v&q=1"},
		{"http://up/x?k=v${search}", withQuery, "http://up/x?k=v&q=1"},
		{"http://up/x?k=v${search}", withoutQuery, "http://up/x?k=v"},
		{"http://up/x?k=v${search}l=w", withQuery, "http://up/x?k=v&q=1&l=w"},
		{"http://up/x?k=v${search}l=w", withoutQuery, "http://up/x?k=v&l=w"},
		{"http://up/x?${search}${query.q}", withQuery, "http://up/x?q=1&1"},
		{"http://up/x?${search}&k=v${search}", withQuery, "http://up/x?q=1&k=v&q=1"},
		{"http://up/x?k=${e(search)}", withQuery, "http://up/x?k=%3Fq%3D1"},
		{"http://up/x?${query.none}", withQuery, "http://up/x?q=1"},
		{"http://up/x?k=v&l=${query.q}", withQuery, "http://up/x?k=v&l=1&q=1"},
	} {
		u, err := compile(t, test.text, nil).Resolve(test.x, "", true)
		if err != nil {
			t.Fatal(err)
		}
		if u.String() != test.want {
			t.Errorf("Resolve(%s) = %s, want %s", test.text, u, test.want)
		}
	}
}

// TestMissingValueDoesNotChangeThePath checks that a request is refused if a missing value would
// remove a path segment: "DELETE /users/${query.id}" without an ID could delete all users.
func TestMissingValueDoesNotChangeThePath(t *testing.T) {
	const refused = ""
	for _, test := range []struct {
		text, template, target, suffix string
		want                           string
	}{
		{"/users/${query.id}", "/x", "/x", "", refused},
		{"/users/${query.id}", "/x", "/x?id=", "", refused},
		{"/users/${query.id}?a=b", "/x", "/x", "", refused},
		{"/users/${query.id}/", "/x", "/x", "", refused},
		{"/users/${query.id}/keys", "/x", "/x", "", refused},
		{"/users/${query.id}${query.b}", "/x", "/x", "", refused},
		{"/users/${query.id}${query.b}", "/x", "/x?b=2", "", "/users/2"},
		{"/users/${query.id}${pathname}", "/x", "/x", "", refused},
		{"/users/${encodeURIComponent(query.id)}", "/x", "/x", "", refused},
		{`/users/${headers["x-none"]}`, "/x", "/x", "", refused},
		{"/users/${request.user.data.none}", "/x", "/x", "", refused},
		{"/${query.id}", "/x", "/x", "", refused},
		{"/users/${query.id}", "/x", "/x?id=7", "", "/users/7"},
		{"/users/v${query.id}", "/x", "/x", "", "/users/v"},
		{"/users/${query.id}.json", "/x", "/x", "", "/users/.json"},
		// These segments become empty if an upstream decodes them, or cuts off the part after a ";".
		{"/users/${query.id}", "/x", "/x?id=/", "", refused},
		{"/users/${query.id}", "/x", `/x?id=\`, "", refused},
		{"/users/${query.id}", "/x", "/x?id=%3B", "", refused},
		{"/users/${query.id}", "/x", "/x?id=%3Ba/%3B", "", refused},
		{"/users/${query.id};v=1", "/x", "/x", "", refused},
		{"/users/${query.id}%2Fkeys", "/x", "/x", "", refused},
		{"/users%2F${query.id}", "/x", "/x", "", refused},
		{"/users/${query.id}", "/x", "/x?id=/7", "", "/users/%2F7"},
		{"/users/${params.id}", "/x/{id}", "/x/%2F", "", refused},
		{"/users/${params.id}", "/x/{id}", "/x/;v=1", "", refused},
		{"/users/${params.id}", "/x/{id}", "/x/7;v=1", "", "/users/7;v=1"},
		// The request's path is appended.
		{"/${query.tenant}", "/x", "/x", "/x", refused},
		{"/t/${query.tenant}", "/x", "/x?tenant=a", "/x", "/t/a/x"},
		// A group of a URL pattern can be empty only at the end.
		{`/a/${params["0"]}`, "/files/*", "/files/", "", "/a/"},
		{`/a/${params["0"]}`, "/files/*", "/files/b/", "", "/a/b/"},
		{`/a/${params["0"]}/b`, "/files/*", "/files/", "", refused},
		{`/a/${params["0"]}/b`, "/files/*", "/files/c/", "", "/a/c/b"},
		{`/a/${params["0"]}`, "/files/*", "/files/", "/files/", refused},
		{`/a/${params["0"]}`, "/files/*", "/files/%2F", "", refused},
		{`/a/${params["0"]}${query.id}`, "/files/*", "/files/", "", refused},
		{"/a/${params.id}", "/files/:id?", "/files", "", "/a/"},
		{"/a${pathname}", "/*", "/", "", "/a/"},
		{"/a/${pathname}/b", "/*", "/", "", "/a/b"},
	} {
		mode := project.OpenAPIPath
		if strings.ContainsAny(test.template, "*?") {
			mode = project.URLPattern
		}
		x := exchange(t, test.template, mode, test.target)
		u, err := compile(t, "http://up"+test.text, nil).Resolve(x, test.suffix, false)
		if test.want == refused {
			if !errors.Is(err, errOutsidePath) {
				t.Errorf("Resolve(%s) for %s = %v, %v, want %v", test.text, test.target, u, err, errOutsidePath)
			}
		} else if err != nil || u.EscapedPath() != test.want {
			t.Errorf("Resolve(%s) for %s = %v, %v, want %s", test.text, test.target, u, err, test.want)
		}
	}
}

// TestEveryPathSegmentIsKept checks, for generated values, that a resolved path has at least as many segments as its
// template. This is also true after an upstream has decoded the path, cut off the part of each segment after a ";", and
// merged slashes.
func TestEveryPathSegmentIsKept(t *testing.T) {
	resolved := 0
	rapid.Check(t, func(r *rapid.T) {
		value := rapid.StringOf(rapid.SampledFrom([]rune("/\\;.%a2F5C3B")))
		x := &pipeline.Exchange{Host: "gw", Path: "/x", Header: http.Header{"A": {value.Draw(r, "header")}}}
		x.SetQuery(url.Values{"q": {value.Draw(r, "query")}}.Encode())
		parts := rapid.SliceOfN(rapid.SampledFrom([]string{
			"a", "${query.q}", "${headers.a}", "${e(query.none)}",
			"${query.q}${headers.a}", "${query.none};v",
		}), 1, 4).Draw(r, "parts")
		u, err := compile(r, "http://up/"+strings.Join(parts, "/"), nil).Resolve(x, "", false)
		if err != nil {
			return
		}
		resolved++
		remaining := 0
		for segment := range strings.SplitSeq(strings.ReplaceAll(u.Path, `\`, "/"), "/") {
			if name, _, _ := strings.Cut(segment, ";"); name != "" {
				remaining++
			}
		}
		if remaining < len(parts) {
			r.Fatalf("Resolve() = %s with %d of the segments %s, want all", u, remaining, parts)
		}
	})
	if resolved == 0 {
		t.Error("resolved addresses = 0, want some")
	}
}

func TestPathIsAppendedToBaseAddress(t *testing.T) {
	x := exchange(t, "/todos/{id}", project.OpenAPIPath, "/todos/a%2Fb?q=1")
	for text, want := range map[string]string{
		"http://up":              "http://up/todos/a%2Fb?q=1",
		"http://up/":             "http://up/todos/a%2Fb?q=1",
		"http://up/v1/":          "http://up/v1/todos/a%2Fb?q=1",
		"http://up/v1?key=k":     "http://up/v1/todos/a%2Fb?key=k&q=1",
		"http://up/${params.id}": "http://up/a%2Fb/todos/a%2Fb?q=1",
	} {
		u, err := compile(t, text, nil).Resolve(x, x.Path, true)
		if err != nil {
			t.Fatal(err)
		}
		if u.String() != want {
			t.Errorf("Resolve(%s) = %s, want %s", text, u, want)
		}
	}
}

func TestURLPatternGroupsKeepSlashes(t *testing.T) {
	x := exchange(t, "/files/:rest*", project.URLPattern, "/files/a/b%2Fc")
	u, err := compile(t, "http://up/${params.rest}", nil).Resolve(x, "", false)
	if err != nil {
		t.Fatal(err)
	}
	if u.String() != "http://up/a/b%2Fc" {
		t.Errorf("Resolve() = %s, want http://up/a/b%%2Fc", u)
	}
}

func TestValuesCannotEscapeThePath(t *testing.T) {
	for _, value := range []string{
		"..", ".", "%2e%2e", "", "../admin", "x/../../admin", "x/..", "./x", `..\x`, `x\..`, "..%3B", "..%3Bx", ".%3B",
		"x/..%3B/y", "%00", "a%0Ab", "%7F", "%C0%AE%C0%AE",
	} {
		x := exchange(t, "/x", project.OpenAPIPath, "/x?up="+value)
		for _, text := range []string{"http://up/users/${query.up}/admin", "http://up/users/${query.none}${query.up}/admin"} {
			if u, err := compile(t, text, nil).Resolve(x, "", false); !errors.Is(err, errOutsidePath) {
				t.Errorf("Resolve(%s) with %s = %v, %v, want %v", text, value, u, err, errOutsidePath)
			}
		}
	}
	// Literals and values can form a dot segment together. Two empty values form an empty segment.
	x := exchange(t, "/x", project.OpenAPIPath, "/x?dot=.&dots=..&rest=./x&e=")
	for _, text := range []string{
		"/.${query.dot}", "/${query.dot}./a", "/.${query.rest}", "/${query.dots};v=1",
		"/a%2F${query.dots}", "/${query.dot}${query.dot}", "/a/${query.e}${query.e}/b",
	} {
		if u, err := compile(t, "http://up"+text, nil).Resolve(x, "", false); !errors.Is(err, errOutsidePath) {
			t.Errorf("Resolve(%s) = %v, %v, want %v", text, u, err, errOutsidePath)
		}
	}
}

// TestUpstreamPathIsCanonical checks that a resolved path is in canonical form. If the project preserves paths
// (RawPath), the path of the request is inserted as the client wrote it.
func TestUpstreamPathIsCanonical(t *testing.T) {
	x := exchange(t, "/files/*", project.URLPattern, "/files/a/b%2Fc/")
	x.SetQuery("none=&q=.x&s=a/b&tilde=~")
	for text, want := range map[string]string{
		"http://up//a//%7eb/":               "http://up/a/~b/",
		"http://up/caf%c3%a9":               "http://up/caf%C3%A9",
		"http://up/${pathname}":             "http://up/files/a/b%2Fc/",
		"http://up${pathname}x":             "http://up/files/a/b%2Fc/x",
		"http://up/a${pathname}/b":          "http://up/a/files/a/b%2Fc/b",
		`http://up/${params["0"]}/x`:        "http://up/a/b%2Fc/x",
		"http://up/.${query.q}/${query.s}":  "http://up/..x/a%2Fb",
		"http://up/a${query.none}":          "http://up/a",
		"http://up/a${query.none}/b":        "http://up/a/b",
		"http://up/${query.tilde}":          "http://up/~",
		"http://up/${query.none}${query.q}": "http://up/.x",
	} {
		u, err := compile(t, text, nil).Resolve(x, "", false)
		if err != nil || u.String() != want {
			t.Errorf("Resolve(%s) = %v, %v, want %s", text, u, err, want)
		}
	}
	x.RawPath = "/files//%7e"
	for text, want := range map[string]string{
		"http://up/a":                "http://up/a",
		"http://up/${pathname}":      "http://up/files//%7e",
		"http://up/${query.tilde}/x": "http://up/~/x",
	} {
		u, err := compile(t, text, nil).Resolve(x, "", false)
		if err != nil || u.String() != want {
			t.Errorf("Resolve(%s) with RawPath %s = %v, %v, want %s", text, x.RawPath, u, err, want)
		}
	}
}

// TestValuesCannotChangeSchemeOrHost checks that every request goes to the scheme and host
// of its template, and that each value stays within its path segment or query parameter.
func TestValuesCannotChangeSchemeOrHost(t *testing.T) {
	resolved := 0
	rapid.Check(t, func(r *rapid.T) {
		hostile := rapid.OneOf(rapid.StringOf(rapid.RuneFrom([]rune("/\\@:?#&=.%[]$ \r\n\x00aé"))), rapid.String())
		value := hostile.Draw(r, "value")
		x := &pipeline.Exchange{Scheme: "https", Host: hostile.Draw(r, "host"), Path: "/x", Header: http.Header{"A": {value}}}
		x.SetQuery(url.Values{"q": {value}}.Encode())
		for _, text := range []string{
			"https://up.example/a/${query.q}/b?k=${headers.a}&h=${host}",
			"https://up.example/a/${headers.a}/b?k=${query.q}&h=${url}",
			"service://Stock/a/${query.q}/b?k=${headers.a}&h=${host}",
		} {
			u, err := compile(r, text, nil).Resolve(x, "", false)
			if errors.Is(err, errOutsidePath) {
				continue
			}
			if err != nil {
				r.Fatal(err)
			}
			resolved++
			reparsed, err := url.Parse(u.String())
			if err != nil {
				r.Fatalf("url.Parse(%q) error = %v, want none", u, err)
			}
			wantOrigin, _, _ := strings.Cut(text, "/a/")
			if origin := reparsed.Scheme + "://" + reparsed.Host; origin != wantOrigin ||
				reparsed.User != nil || reparsed.Fragment != "" {
				r.Fatalf("Resolve(%s) = %q, want the origin %s, no user and no fragment", text, u, wantOrigin)
			}
			if strings.Count(reparsed.EscapedPath(), "/") != 3 || reparsed.Path != "/a/"+value+"/b" {
				r.Fatalf("Resolve(%s) path = %q, want /a/%s/b with the value escaped", text, reparsed.EscapedPath(), value)
			}
			if got := reparsed.Query(); len(got) != 2 || got.Get("k") != value {
				r.Fatalf("Resolve(%s) query = %q, want 2 parameters and k=%q", text, reparsed.RawQuery, value)
			}
		}
	})
	if resolved == 0 {
		t.Error("resolved addresses = 0, want some")
	}
}

func TestVariablesAreNotParsed(t *testing.T) {
	x := exchange(t, "/x", project.OpenAPIPath, "/x?q=1")
	u, err := compile(t, "http://up/${env.A}", map[string]string{"A": "${query.q}"}).Resolve(x, "", false)
	if err != nil {
		t.Fatal(err)
	}
	if want := "http://up/$%7Bquery.q%7D"; u.String() != want {
		t.Errorf("Resolve() = %s, want %s", u, want)
	}
}

// TestEncodeURIComponentMatchesJavaScript checks the characters that encodeURIComponent keeps (ECMA-262, section
// 19.2.6.4).
func TestEncodeURIComponentMatchesJavaScript(t *testing.T) {
	const unescapedChars = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.!~*'()"
	for c := range 256 {
		text := string([]byte{byte(c)})
		want := fmt.Sprintf("%%%02X", c)
		if strings.Contains(unescapedChars, text) {
			want = text
		}
		if got := encodeURIComponent(text); got != want {
			t.Errorf("encodeURIComponent(%q) = %s, want %s", text, got, want)
		}
	}
}

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

	"github.com/gatewright/gatewright/shared/gateway/pipeline"
	"github.com/gatewright/gatewright/shared/gateway/router"
	"github.com/gatewright/gatewright/shared/project"
)

// exchange makes the exchange of a GET of path?query through a template.
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
		t.Fatalf("%s does not match %s", path, template)
	}
	return x
}

// fataler is what a test and a property share.
type fataler interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

func compile(t fataler, text string, variables map[string]string) *Address {
	t.Helper()
	parsed, err := Parse(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	a, err := parsed.Compile(variables)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return a
}

func TestValuesOfTheRequestArePutIn(t *testing.T) {
	x := exchange(t, "/todos/{id}/{rest}", project.OpenAPIPath, "/todos/a%2Fb/c?q=x%20y&r=%2F&r=2")
	variables := map[string]string{"BASE": "https://up.example/v1", "HOST": "up.example", "TOKEN": "a b", "SERVICE": "Stock", "ORDERS": "service://ORDERS/v1"}
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
		"https://up.example/?u=${url}":                        "https://up.example/?u=https%3A%2F%2Fgw.example%3A8443%2Ftodos%2Fa%252Fb%2Fc%3Fq%3Dx%2520y%26r%3D%252F%26r%3D2",
		"https://up.example/?${search}&a=b":                   "https://up.example/?q=x%20y&r=%2F&r=2&a=b",
		"https://up.example/${method}/${port}":                "https://up.example/GET/8443",
		"https://up.example/${host}":                          "https://up.example/gw.example%3A8443",
		"https://up.example/${hostname}":                      "https://up.example/gw.example",
		"https://up.example/?o=${origin}":                     "https://up.example/?o=https%3A%2F%2Fgw.example%3A8443",
		"https://up.example/?t=${env.TOKEN}":                  "https://up.example/?t=a%20b",
		"https://up.example/${request.user.sub}":              "https://up.example/acme",
		"https://up.example/${request.user.data.plan}":        "https://up.example/gold",
		"https://up.example/${request.user.data.id}":          "https://up.example/7",
		"https://up.example/?n=${request.user.data.none}":     "https://up.example/?n=",
		"https://up.example/a b":                              "https://up.example/a%20b",
		"https://up.example/$bulk/$":                          "https://up.example/$bulk/$",
		"https://bücher.example/":                             "https://xn--bcher-kva.example/",
		"https://bücher.example:81/x":                         "https://xn--bcher-kva.example:81/x",
		"https://up.example?a=b":                              "https://up.example/?a=b",
		"https://up.example/?\"=!~\x7f é":                     "https://up.example/?%22=!~%7F%20%C3%A9",
		"http://[::1]:8080/x":                                 "http://[::1]:8080/x",
		"service://Stock":                                     "service://Stock/",
		"SERVICE://Stock-2/v1":                                "service://Stock-2/v1",
		"service://Stock${pathname}":                          "service://Stock/todos/a%2Fb/c",
		"service://Stock?a=b":                                 "service://Stock/?a=b",
		"service://${env.SERVICE}/${params.id}":               "service://Stock/a%2Fb",
		"${env.ORDERS}/todos":                                 "service://ORDERS/v1/todos",
	} {
		u, err := compile(t, text, variables).Resolve(x, "", false)
		if err != nil {
			t.Errorf("%s: %v", text, err)
		} else if got := u.String(); got != want {
			t.Errorf("%s:\n got %s\nwant %s", text, got, want)
		}
	}
}

func TestTheQueryIsForwardedUnlessTheTextNamesIt(t *testing.T) {
	with := exchange(t, "/a", project.OpenAPIPath, "/a?q=1")
	without := exchange(t, "/a", project.OpenAPIPath, "/a")
	for _, test := range []struct {
		text string
		x    *pipeline.Exchange
		want string
	}{
		{"http://up/x", with, "http://up/x?q=1"},
		{"http://up/x", without, "http://up/x"},
		{"http://up/x?k=v", with, "http://up/x?k=v&q=1"},
		{"http://up/x?k=v", without, "http://up/x?k=v"},
		{"http://up/x${search}", with, "http://up/x?q=1"},
		{"http://up/x${search}&k=v", without, "http://up/x?k=v"},
		{"http://up/x?k=v&${search}", with, "http://up/x?k=v&q=1"},
		{"http://up/x?k=v${search}", with, "http://up/x?k=v&q=1"},
		{"http://up/x?k=v${search}", without, "http://up/x?k=v"},
		{"http://up/x?k=v${search}l=w", with, "http://up/x?k=v&q=1&l=w"},
		{"http://up/x?k=v${search}l=w", without, "http://up/x?k=v&l=w"},
		{"http://up/x?${search}${query.q}", with, "http://up/x?q=1&1"},
		{"http://up/x?${search}&k=v${search}", with, "http://up/x?q=1&k=v&q=1"},
		{"http://up/x?k=${e(search)}", with, "http://up/x?k=%3Fq%3D1"},
		{"http://up/x?${query.none}", with, "http://up/x?q=1"},
		{"http://up/x?k=v&l=${query.q}", with, "http://up/x?k=v&l=1&q=1"},
	} {
		u, err := compile(t, test.text, nil).Resolve(test.x, "", true)
		if err != nil {
			t.Fatal(err)
		}
		if u.String() != test.want {
			t.Errorf("%s: got %s, want %s", test.text, u, test.want)
		}
	}
}

// TestAPathStaysWhereAValueIsMissing: of a request without an id "DELETE
// /users/${query.id}" would delete all users.
func TestAPathStaysWhereAValueIsMissing(t *testing.T) {
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
		// Nothing is left of these either where an upstream decodes or cuts.
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
		// The path of the request goes behind it.
		{"/${query.tenant}", "/x", "/x", "/x", refused},
		{"/t/${query.tenant}", "/x", "/x?tenant=a", "/x", "/t/a/x"},
		// A group of a URL pattern may be empty, at the end alone.
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
			if !errors.Is(err, errOutside) {
				t.Errorf("%s of %s: got %v, %v, want a refusal", test.text, test.target, u, err)
			}
		} else if err != nil || u.EscapedPath() != test.want {
			t.Errorf("%s of %s: got %v, %v, want %s", test.text, test.target, u, err, test.want)
		}
	}
}

// TestEverySegmentOfAPathStays: whatever values are, an upstream that decodes, cuts
// path parameters off and merges slashes finds as many segments as were written.
func TestEverySegmentOfAPathStays(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		value := rapid.StringOf(rapid.SampledFrom([]rune("/\\;.%a2F5C3B")))
		x := &pipeline.Exchange{Host: "gw", Path: "/x", Header: http.Header{"A": {value.Draw(r, "header")}}}
		x.SetQuery(url.Values{"q": {value.Draw(r, "query")}}.Encode())
		parts := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "${query.q}", "${headers.a}", "${e(query.none)}", "${query.q}${headers.a}", "${query.none};v"}), 1, 4).Draw(r, "parts")
		u, err := compile(r, "http://up/"+strings.Join(parts, "/"), nil).Resolve(x, "", false)
		if err != nil {
			return
		}
		left := 0
		for segment := range strings.SplitSeq(strings.ReplaceAll(u.Path, `\`, "/"), "/") {
			if name, _, _ := strings.Cut(segment, ";"); name != "" {
				left++
			}
		}
		if left < len(parts) {
			r.Fatalf("of %s is left %s", parts, u)
		}
	})
}

func TestThePathIsAppendedToABaseAddress(t *testing.T) {
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
			t.Errorf("%s: got %s, want %s", text, u, want)
		}
	}
}

func TestGroupsOfURLPatternsKeepTheirSlashes(t *testing.T) {
	x := exchange(t, "/files/:rest*", project.URLPattern, "/files/a/b%2Fc")
	u, err := compile(t, "http://up/${params.rest}", nil).Resolve(x, "", false)
	if err != nil {
		t.Fatal(err)
	}
	if u.String() != "http://up/a/b%2Fc" {
		t.Errorf("got %s", u)
	}
}

func TestNoValueLeadsOutOfThePath(t *testing.T) {
	for _, value := range []string{
		"..", ".", "%2e%2e", "", "../admin", "x/../../admin", "x/..", "./x", `..\x`, `x\..`, "..%3B", "..%3Bx", ".%3B", "x/..%3B/y", "%00", "a%0Ab", "%7F", "%C0%AE%C0%AE",
	} {
		x := exchange(t, "/x", project.OpenAPIPath, "/x?up="+value)
		for _, text := range []string{"http://up/users/${query.up}/admin", "http://up/users/${query.none}${query.up}/admin"} {
			if u, err := compile(t, text, nil).Resolve(x, "", false); !errors.Is(err, errOutside) {
				t.Errorf("%s with %s: got %v, %v", text, value, u, err)
			}
		}
	}
	// What is written and what is put in may be harmless alone.
	x := exchange(t, "/x", project.OpenAPIPath, "/x?dot=.&dots=..&rest=./x&e=")
	for _, text := range []string{"/.${query.dot}", "/${query.dot}./a", "/.${query.rest}", "/${query.dots};v=1", "/a%2F${query.dots}", "/${query.dot}${query.dot}", "/a/${query.e}${query.e}/b"} {
		if u, err := compile(t, "http://up"+text, nil).Resolve(x, "", false); !errors.Is(err, errOutside) {
			t.Errorf("%s: got %v, %v", text, u, err)
		}
	}
}

func TestTheUpstreamsPathIsCanonical(t *testing.T) {
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
			t.Errorf("%s: got %v, %v, want %s", text, u, err, want)
		}
	}
	x.Written = "/files//%7e"
	for text, want := range map[string]string{
		"http://up/a":                "http://up/a",
		"http://up/${pathname}":      "http://up/files//%7e",
		"http://up/${query.tilde}/x": "http://up/~/x",
	} {
		u, err := compile(t, text, nil).Resolve(x, "", false)
		if err != nil || u.String() != want {
			t.Errorf("%s, preserved: got %v, %v, want %s", text, u, err, want)
		}
	}
}

// TestNoValueChangesSchemeOrHost: whatever a request holds, the request goes to
// the host that was written, and each value stays in its segment or parameter.
func TestNoValueChangesSchemeOrHost(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		nasty := rapid.OneOf(rapid.StringOf(rapid.RuneFrom([]rune("/\\@:?#&=.%[]$ \r\n\x00aé"))), rapid.String())
		value := nasty.Draw(r, "value")
		x := &pipeline.Exchange{Scheme: "https", Host: nasty.Draw(r, "host"), Path: "/x", Header: http.Header{"A": {value}}}
		x.SetQuery(url.Values{"q": {value}}.Encode())
		for _, text := range []string{
			"https://up.example/a/${query.q}/b?k=${headers.a}&h=${host}", "https://up.example/a/${headers.a}/b?k=${query.q}&h=${url}",
			"service://Stock/a/${query.q}/b?k=${headers.a}&h=${host}",
		} {
			u, err := compile(r, text, nil).Resolve(x, "", false)
			if errors.Is(err, errOutside) {
				continue
			}
			if err != nil {
				r.Fatal(err)
			}
			again, err := url.Parse(u.String())
			if err != nil {
				r.Fatalf("%q is no URL: %v", u, err)
			}
			if origin := again.Scheme + "://" + again.Host; origin != "https://up.example" && origin != "service://Stock" || again.User != nil || again.Fragment != "" {
				r.Fatalf("the request would go to %q", again)
			}
			if strings.Count(again.EscapedPath(), "/") != 3 || again.Path != "/a/"+value+"/b" {
				r.Fatalf("the path became %q", again.EscapedPath())
			}
			if got := again.Query(); len(got) != 2 || got.Get("k") != value {
				r.Fatalf("the query became %q", again.RawQuery)
			}
		}
	})
}

func TestMistakesInTextsAreToldWithWhatToDo(t *testing.T) {
	for text, want := range map[string]string{
		"https://up/${params.id":           `close each "${"`,
		"https://up/${param.id}":           "replace ${param.id}: it is unknown",
		"https://up/${params}":             "replace ${params}",
		"https://up/${method.x}":           "replace ${method.x}",
		"https://up/${request}":            "replace ${request}",
		"https://up/${request.env.A}":      "replace ${request.env.A}",
		"https://up/${request.user.email}": "use request.user.sub",
		"https://up/${}":                   "as a name with properties",
		"https://up/${a b}":                "as a name with properties",
		"https://up/${headers.}":           "as a name with properties",
		"https://up/${headers[x]}":         "as a name with properties",
		"https://up/${headers['x]}":        `close each "${"`,
		"https://up/${e(params.id}":        "close the parenthesis",
		"https://up/${process.exit(1)}":    "as a name with properties",
		"https://up/${1+1}":                "as a name with properties",
		"up.example/x":                     "begin the address",
		"ftp://up.example/x":               "begin the address",
		"//up.example/x":                   "begin the address",
		"":                                 "begin the address",
		"https://":                         "correct the host",
		"https:///x":                       "correct the host",
		"https://up example/":              "correct the host",
		"https://up:port/":                 "correct the host",
		"https://up\u0080/":                "no international domain name",
		"https://up\u00ad_/":               "no international domain name",
		"https://up/${headers[}":           "as a name with properties",
		`https://up/${headers["}`:          `close each "${"`,
		`https://up/${headers[""]}`:        "as a name with properties",
		`https://up/${headers["a'}`:        `close each "${"`,
		"https://user:secret@up/":          "take the user and password out",
		"https://up/#x":                    `take "#"`,
		"https://up\\x":                    `take "#" and "\"`,
		"https://up/100%":                  "%25",
		"https://up/../x":                  `take the "."`,
		"https://up/%2e${query.x}/%2E%2e":  `take the "."`,
		"https://up/a/.;x":                 "beside an encoded slash",
		"https://up/${query.x}%2F..":       "beside an encoded slash",
		"https://up/%00":                   "control characters",
		"${params.host}/x":                 "begin the address",
		"https://${headers.host}/x":        "write the host",
		"https://up${params.x}/y":          `put a "/"`,
		"https://up.${query.x}/y":          `put a "/"`,
		"https://up:${query.x}/y":          `put a "/"`,
	} {
		if err := Check(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want it to say %q", text, err, want)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the message repeats the password", text)
		}
	}
}

func TestAnUnsetVariableIsNamedWhereTheHostNeedsIt(t *testing.T) {
	for text, want := range map[string]string{
		"${env.UPSTREAM}/x":         "set the variable UPSTREAM",
		"https://${env.UPSTREAM}/x": "set the variable UPSTREAM",
		"service://${env.STOCK}/x":  "set the variable STOCK",
		"https://up/${env.PATH}/x":  "",
	} {
		if err := Check(text); err != nil {
			t.Errorf("%s: only Compile knows the variables: %v", text, err)
		}
		parsed, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		_, err = parsed.Compile(map[string]string{})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want it to say %q", text, err, want)
		}
	}
}

func TestAVariableIsNoText(t *testing.T) {
	x := exchange(t, "/x", project.OpenAPIPath, "/x?q=1")
	u, err := compile(t, "http://up/${env.A}", map[string]string{"A": "${query.q}"}).Resolve(x, "", false)
	if err != nil {
		t.Fatal(err)
	}
	if want := "http://up/$%7Bquery.q%7D"; u.String() != want {
		t.Errorf("got %s, want %s", u, want)
	}
}

// TestValuesAreEscapedAsJavaScriptDoes: what encodeURIComponent leaves as it is
// (ECMA-262, section 19.2.6.4).
func TestValuesAreEscapedAsJavaScriptDoes(t *testing.T) {
	const stays = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.!~*'()"
	for c := range 256 {
		text := string([]byte{byte(c)})
		want := fmt.Sprintf("%%%02X", c)
		if strings.Contains(stays, text) {
			want = text
		}
		if got := encodeURIComponent(text); got != want {
			t.Errorf("%q becomes %s, not %s", text, got, want)
		}
	}
}

func TestALongNameIsCutInTheMessageAboutIt(t *testing.T) {
	for length, want := range map[int]string{60: "replace ${" + strings.Repeat("x", 60) + "}:", 61: "replace ${" + strings.Repeat("x", 60) + "…}:"} {
		if _, err := Parse("${" + strings.Repeat("x", length) + "}"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("of %d bytes: %v", length, err)
		}
	}
}

func FuzzParseNeverPanics(f *testing.F) {
	for _, seed := range []string{"https://up/${params.id}", "${e(e(query.a))}", `${headers["a"]['b'](c)}`, "${", "}", "https://u/?${search}#", "service://a/../b", "service://Stock:80/${pathname}"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		parsed, err := Parse(text)
		if err != nil {
			return
		}
		if a, err := parsed.Compile(nil); err == nil {
			_, _ = a.Resolve(&pipeline.Exchange{Path: "/"}, "", true)
		}
	})
}

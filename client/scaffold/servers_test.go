package scaffold_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/client/exit"
	"github.com/gatewright/gatewright/client/scaffold"
)

// baseURLs returns the addresses to which the routes of a description forward, by method and path.
func baseURLs(t *testing.T, text []byte) map[string]string {
	t.Helper()
	type operation struct {
		Route *struct {
			Handler struct {
				Options struct{ BaseURL string }
			}
		} `json:"x-gateway-route"`
	}
	var document struct {
		Paths map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for path, item := range document.Paths {
		for name, value := range item {
			operations := map[string]json.RawMessage{name: value}
			if name == "additionalOperations" {
				if err := json.Unmarshal(value, &operations); err != nil {
					t.Fatal(err)
				}
			}
			for method, value := range operations {
				var op operation
				if json.Unmarshal(value, &op) == nil && op.Route != nil {
					out[method+" "+path] = op.Route.Handler.Options.BaseURL
				}
			}
		}
	}
	return out
}

// withServers returns a description with the paths /d, /p and /p/o. The description has the servers document, the paths
// /p and /p/o have the servers path, and GET /p/o has the servers operation. Each of them is a list in YAML, or "" for
// none.
func withServers(document, path, operation string) string {
	line := func(indent, list string) string {
		if list == "" {
			return ""
		}
		return "\n" + indent + "servers: " + list
	}
	const get = "\n    get:\n      responses: {default: {description: d}}"
	return "openapi: 3.1.0\ninfo: {title: t, version: '1'}" + line("", document) + "\npaths:\n  /d:" + get +
		"\n  /p:" + line("    ", path) + get + "\n  /p/o:" + line("    ", path) + get + line("      ", operation) + "\n"
}

// serversCase has the arguments of withServers, and the addresses to which GET /d, GET /p and GET /p/o forward.
type serversCase struct {
	name, document, path, operation string
	options                         scaffold.Options
	want                            [3]string
	notes                           []string
}

func serversCases() []serversCase {
	const variables = `variables: {region: {default: eu, enum: [eu, us]}, base: {default: /v2}, port: {default: '443'}}`
	return []serversCase{
		{
			name: "the nearest servers", document: `[{url: "https://a.example.com/v1/"}]`,
			path: `[{url: "https://b.example.com"}]`, operation: `[{url: "https://c.example.com/v3"}]`,
			want: [3]string{"https://a.example.com/v1", "https://b.example.com", "https://c.example.com/v3"},
		},
		{
			name: "an empty list counts as none", document: `[{url: "https://a.example.com"}]`, path: "[]", operation: "[]",
			want: [3]string{"https://a.example.com", "https://a.example.com", "https://a.example.com"},
		},
		{
			name:     "an upstream replaces absolute servers of the description alone",
			document: `[{url: "https://a.example.com/v1"}]`, path: `[{url: "https://b.example.com"}]`, operation: `[{url: /o}]`,
			options: scaffold.Options{Upstream: "https://mine.example.com/x"},
			want:    [3]string{"https://mine.example.com/x", "https://b.example.com", "https://mine.example.com/o"},
			notes: []string{"line 9 (/paths/~1p/servers): routes forward to https://b.example.com; --upstream does not " +
				"replace the servers of a path or an operation"},
		},
		{
			name:    "no servers",
			options: scaffold.Options{Upstream: "https://mine.example.com/x/"},
			want:    [3]string{"https://mine.example.com/x", "https://mine.example.com/x", "https://mine.example.com/x"},
		},
		{
			name:     "relative servers that name the upstream itself",
			document: `[{url: /}]`, path: `[{url: .}]`, operation: `[{url: ""}]`,
			options: scaffold.Options{Upstream: "https://mine.example.com/x/"},
			want:    [3]string{"https://mine.example.com/x", "https://mine.example.com/x", "https://mine.example.com/x"},
		},
		{
			name:     "relative servers",
			document: `[{url: /v1/}]`, path: `[{url: v2}]`, operation: `[{url: ../v3}]`,
			options: scaffold.Options{Upstream: "https://mine.example.com/x/y/"},
			want: [3]string{
				"https://mine.example.com/v1", "https://mine.example.com/x/y/v2", "https://mine.example.com/x/v3",
			},
		},
		{
			name:     "defaults of variables",
			document: `[{url: "https://{region}.example.com:{port}{base}", ` + variables + `}]`,
			want: [3]string{
				"https://eu.example.com:443/v2", "https://eu.example.com:443/v2", "https://eu.example.com:443/v2",
			},
		},
		{
			name:      "values of variables",
			document:  `[{url: "https://{region}.example.com{base}", ` + variables + `}]`,
			path:      `[{url: "https://{tenant}.example.com"}]`,
			operation: `[{url: "{origin}/v1", variables: {origin: {default: "https://o.example.com"}}}]`,
			options:   scaffold.Options{ServerVariables: map[string]string{"region": "us", "base": "", "tenant": "acme"}},
			want:      [3]string{"https://us.example.com", "https://acme.example.com", "https://o.example.com/v1"},
		},
		{
			name: "the first server that is http",
			document: `[{url: "wss://w.example.com"}, {url: /r}, {url: "https://a.example.com"}, ` +
				`{url: "http://b.example.com"}, {url: "https://c.example.com"}]`,
			want: [3]string{"https://a.example.com", "https://a.example.com", "https://a.example.com"},
			notes: []string{"line 3 (/servers) has 5 servers: routes forward to https://a.example.com, and not to " +
				"wss://w.example.com, /r, http://b.example.com and 1 more"},
		},
		{
			name: "a list of several is reported once", document: `[{url: "https://a.example.com"}]`,
			path: `[{url: "https://b.example.com"}, {url: "https://c.example.com"}]`,
			want: [3]string{"https://a.example.com", "https://b.example.com", "https://b.example.com"},
			notes: []string{"line 9 (/paths/~1p/servers) has 2 servers: routes forward to https://b.example.com, and not to " +
				"https://c.example.com"},
		},
	}
}

// TestRoutesForwardToTheirServers checks which server each route gets, for servers of the description, of a path and of
// an operation. It also validates the created project.
func TestRoutesForwardToTheirServers(t *testing.T) {
	t.Parallel()
	for _, c := range serversCases() {
		got, err := scaffold.AddRoutes([]byte(withServers(c.document, c.path, c.operation)), c.options)
		if err != nil {
			t.Errorf("%s: AddRoutes() error = %v, want none", c.name, err)
			continue
		}
		want := map[string]string{"get /d": c.want[0], "get /p": c.want[1], "get /p/o": c.want[2]}
		if urls := baseURLs(t, got.Text); !maps.Equal(urls, want) {
			t.Errorf("%s: AddRoutes() forwards to %v, want %v", c.name, urls, want)
		}
		if !slices.Equal(got.Notes, c.notes) {
			t.Errorf("%s: AddRoutes() notes = %q, want %q", c.name, got.Notes, c.notes)
		}
		all := templateFiles(t, "")
		scaffold.UseDescription(all, got)
		checkValid(t, all)
	}
}

// TestServersWithoutAddressAreRefused checks the errors for servers to which routes cannot forward, and for values of
// variables that have no effect.
func TestServersWithoutAddressAreRefused(t *testing.T) {
	t.Parallel()
	const region = `[{url: "https://{region}.example.com", variables: {region: {default: eu, enum: [eu, us]}}}]`
	for _, c := range []struct {
		name, document, path string
		options              scaffold.Options
		want                 string
	}{
		{name: "none", want: "the description has no servers: say --upstream URL"},
		{
			name: "relative alone", document: "[{url: /v1}]",
			want: `line 3 (/servers/0): routes cannot forward to "/v1": it is relative, so say --upstream URL`,
		},
		{
			name: "another scheme", document: `[{url: "wss://a.example.com"}]`,
			want: `line 3 (/servers/0): routes cannot forward to "wss://a.example.com": its scheme is neither http nor https`,
		},
		{
			name: "a host without a scheme", document: `[{url: "//a.example.com/v1"}]`,
			want: "its scheme is neither http nor https",
		},
		{
			name: "a host without a scheme at a path, with an upstream", document: `[{url: "https://a.example.com"}]`,
			path: `[{url: "//b.example.com"}]`, options: scaffold.Options{Upstream: "https://mine.example.com"},
			want: "its scheme is neither http nor https",
		},
		{
			name:     "an expression of the gateway",
			document: `[{url: "https://a.example.com/${query}", variables: {query: {default: "${x"}}}]`,
			want:     "the gateway would replace ${…} by a value of each request",
		},
		{
			name: "a query", document: `[{url: "https://a.example.com?x=1"}]`,
			want: "it has a query or a fragment",
		},
		{
			name: "a variable of the environment", document: `[{url: "https://a.example.com/$env(SECRET)"}]`,
			want: "the gateway would replace $env(…) by a variable of the environment",
		},
		{
			name: "another scheme at a path, with an upstream", document: `[{url: "https://a.example.com"}]`,
			path: `[{url: "ftp://b.example.com"}]`, options: scaffold.Options{Upstream: "https://mine.example.com"},
			want: `line 9 (/paths/~1p/servers/0): routes cannot forward to "ftp://b.example.com"`,
		},
		{
			name: "a variable without default", document: `[{url: "https://{tenant}.example.com"}]`,
			want: `line 3 (/servers/0): the variable "tenant" of this server has no default: set it with ` +
				"--server-variable tenant=VALUE",
		},
		{
			name: "a value outside enum", document: region,
			options: scaffold.Options{ServerVariables: map[string]string{"region": "mars"}},
			want:    "--server-variable: region is one of eu, us (line 3 (/servers/0))",
		},
		{
			name: "an unknown variable", document: region,
			options: scaffold.Options{ServerVariables: map[string]string{"regoin": "eu"}},
			want: "--server-variable: regoin is not a variable of the servers that routes forward to: their variables are " +
				"region",
		},
		{
			name: "a variable of a server that is replaced", document: region,
			options: scaffold.Options{
				Upstream: "https://mine.example.com", ServerVariables: map[string]string{"region": "eu"},
			},
			want: "they have no variables; --upstream replaces the description's absolute servers",
		},
	} {
		got, err := scaffold.AddRoutes([]byte(withServers(c.document, c.path, "")), c.options)
		if exit.CodeOf(err) != exit.Usage || !strings.Contains(fmt.Sprint(err), c.want) || got.Text != nil {
			t.Errorf("%s: AddRoutes() = %q, %v, want no text, code %d and %q", c.name, got.Text, err, exit.Usage, c.want)
		}
	}
}

// TestNotesAreLimited checks that many lists of servers make at most 10 notes.
func TestNotesAreLimited(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("openapi: 3.1.0\npaths:\n")
	for i := range 30 {
		fmt.Fprintf(&b, "  /%d: {servers: [{url: 'https://%[1]d.example.com'}, {url: 'https://b.example.com'}], get: {}}\n",
			i)
	}
	got, err := scaffold.AddRoutes([]byte(b.String()), scaffold.Options{})
	if err != nil || len(got.Notes) != 10 || got.Notes[9] != "… and 21 more lists of servers" {
		t.Errorf("AddRoutes() with 30 lists = notes %q, %v, want 10 with the number of the others", got.Notes, err)
	}
}

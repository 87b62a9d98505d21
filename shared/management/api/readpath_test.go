package api

import (
	"context"
	"io"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/core/installation"
)

type readPathIn struct {
	Account string   `path:"account"`
	Host    string   `query:"host"`
	Tags    []string `query:"tags"`
	Body    struct {
		Name  string `json:"name"`
		Count int    `json:"count"`
	}
}

// changeOf returns a change whose object is read at readPath.
func changeOf(readPath string) Operation[readPathIn, NoContent] {
	return Operation[readPathIn, NoContent]{
		ID: "change", Method: "PATCH", Path: "/of/{account}/things", ReadPath: readPath,
		Audit: "thing.update", Public: true,
	}
}

// TestReadPathOfChange checks that a path parameter, a query parameter or
// a string in the body can name the object, and that it is escaped once. If it is missing, readPath returns "".
func TestReadPathOfChange(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ readPath, query, body, want string }{
		"the request's path": {"", "?host=h", `{"name":"n"}`, "/of/a%2Fb/things"},
		"a text of the body": {"/of/{account}/things/{name}", "", `{"name":"n"}`, "/of/a%2Fb/things/n"},
		"a query parameter": {
			"/of/{account}/things/{host}", "?host=x%2Fy%3F", `{"name":"n"}`,
			"/of/a%2Fb/things/x%2Fy%3F",
		},
		"an escape in the body": {
			"/of/{account}/things/{name}", "", `{"name":"\u006e /%2e"}`,
			"/of/a%2Fb/things/n%20%2F%252e",
		},
		"segments after the parameter": {
			"/of/{account}/things/{name}/more", "", `{"name":"n"}`, "/of/a%2Fb/things/n/more",
		},
		"a number in the body":                  {"/of/{account}/things/{name}", "", `{"name":7}`, ""},
		"no name in the body":                   {"/of/{account}/things/{name}", "", `{}`, ""},
		"no body":                               {"/of/{account}/things/{name}", "", ``, ""},
		"a field in another spelling":           {"/of/{account}/things/{name}", "", `{"NAME":"n"}`, ""},
		"a query parameter in another spelling": {"/of/{account}/things/{host}", "?HOST=h", `{"name":"n"}`, ""},
	} {
		d := changeOf(tt.readPath).Declaration()
		r := httptest.NewRequestWithContext(t.Context(), "PATCH", "/of/a%2Fb/things"+tt.query, strings.NewReader(tt.body))
		r.SetPathValue("account", "a/b")
		if got := newInput[readPathIn]().readPath(d, r); got != tt.want {
			t.Errorf("%s: readPath() = %q, want %q", name, got, tt.want)
		}
		if remaining, err := io.ReadAll(r.Body); err != nil || string(remaining) != tt.body {
			t.Errorf("%s: body after readPath = %q, %v, want %q and no error", name, remaining, err, tt.body)
		}
	}
}

// TestMissingReadPathPanics checks that HandledBy panics if ReadPath has a parameter that is not in the request, or
// is no single string. Open must panic if no operation reads at ReadPath: an If-Match could never match.
func TestMissingReadPathPanics(t *testing.T) {
	t.Parallel()
	handler := func(context.Context, *readPathIn) (*NoContent, error) { return nil, nil }
	panics := func(declare func()) (text string) {
		defer func() { text, _ = recover().(string) }()
		declare()
		return ""
	}
	for _, readPath := range []string{
		"/of/{account}/things/{nobody}", "/of/{account}/things/{count}",
		"/of/{account}/things/{tags}",
	} {
		if text := panics(func() { changeOf(readPath).HandledBy(handler) }); !strings.Contains(text, readPath) {
			t.Errorf("HandledBy() with %s panics with %q, want a panic that names the path", readPath, text)
		}
	}
	const missing = "/of/{account}/things/{name}"
	if text := panics(func() {
		Open(installation.Parts{}, nil, []Route{changeOf(missing).HandledBy(handler)})
	}); !strings.Contains(text, missing) {
		t.Errorf("Open() without a read at %s panics with %q, want a panic that names the path", missing, text)
	}
}

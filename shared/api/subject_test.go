package api

import (
	"context"
	"io"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/installation"
)

type subjectIn struct {
	Account string   `path:"account"`
	Host    string   `query:"host"`
	Tags    []string `query:"tags"`
	Body    struct {
		Name  string `json:"name"`
		Count int    `json:"count"`
	}
}

func changed(readAt string) Operation[subjectIn, NoContent] {
	return Operation[subjectIn, NoContent]{ID: "change", Method: "PATCH", Path: "/of/{account}/things", ReadAt: readAt, Audit: "thing.update", Public: true}
}

// TestReadOfAChangeIsOfWhatItsRequestNames: by its path, its query or a text of its body, escaped once.
func TestReadOfAChangeIsOfWhatItsRequestNames(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ readAt, query, body, want string }{
		"its own path":          {"", "?host=h", `{"name":"n"}`, "/of/a%2Fb/things"},
		"a text of its body":    {"/of/{account}/things/{name}", "", `{"name":"n"}`, "/of/a%2Fb/things/n"},
		"a parameter":           {"/of/{account}/things/{host}", "?host=x%2Fy%3F", `{"name":"n"}`, "/of/a%2Fb/things/x%2Fy%3F"},
		"an escape in the body": {"/of/{account}/things/{name}", "", `{"name":"\u006e /%2e"}`, "/of/a%2Fb/things/n%20%2F%252e"},
		"words behind it":       {"/of/{account}/things/{name}/more", "", `{"name":"n"}`, "/of/a%2Fb/things/n/more"},
		"no text":               {"/of/{account}/things/{name}", "", `{"name":7}`, ""},
		"nothing":               {"/of/{account}/things/{name}", "", `{}`, ""},
		"no body":               {"/of/{account}/things/{name}", "", ``, ""},
		"another spelling":      {"/of/{account}/things/{name}", "", `{"NAME":"n"}`, ""},
		"no parameter":          {"/of/{account}/things/{host}", "?HOST=h", `{"name":"n"}`, ""},
	} {
		d := changed(tt.readAt).Declaration()
		r := httptest.NewRequestWithContext(t.Context(), "PATCH", "/of/a%2Fb/things"+tt.query, strings.NewReader(tt.body))
		r.SetPathValue("account", "a/b")
		if got := inputOf[subjectIn]().readAt(d, r); got != tt.want {
			t.Errorf("%s: it is read at %q, want %q", name, got, tt.want)
		}
		if left, err := io.ReadAll(r.Body); err != nil || string(left) != tt.body {
			t.Errorf("%s: %q is left of its body, %v", name, left, err)
		}
	}
}

// TestReadThatIsNotThereIsNoDeclaration: a change whose condition nobody could meet does not start.
func TestReadThatIsNotThereIsNoDeclaration(t *testing.T) {
	t.Parallel()
	answer := func(context.Context, *subjectIn) (*NoContent, error) { return nil, nil }
	panics := func(of func()) (text string) {
		defer func() { text, _ = recover().(string) }()
		of()
		return ""
	}
	for _, readAt := range []string{"/of/{account}/things/{nobody}", "/of/{account}/things/{count}", "/of/{account}/things/{tags}"} {
		if text := panics(func() { changed(readAt).To(answer) }); !strings.Contains(text, readAt) {
			t.Errorf("%s is bound: %q", readAt, text)
		}
	}
	const nowhere = "/of/{account}/things/{name}"
	if text := panics(func() { Open(installation.Parts{}, nil, []Route{changed(nowhere).To(answer)}) }); !strings.Contains(text, nowhere) {
		t.Errorf("an API is opened without the read at %s: %q", nowhere, text)
	}
}

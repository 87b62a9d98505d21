package commands_test

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/client/exit"
)

// TestInitWritesNotes checks that the notes of init are in its document, and in its error if the build has errors.
func TestInitWritesNotes(t *testing.T) {
	t.Parallel()
	const text = `{"openapi": "3.1.0", "info": {"title": "t", "version": "1"}, 
"servers": [{"url": "https://a.example.com"}], "paths": {"/a": {"get": {"responses": {"200": {"description": "d"}}}}}}`
	const note = "the description requires no authentication: everybody may call each operation"
	fx := newFixtureWith(t, func(http.ResponseWriter, *http.Request, string) {
		t.Error("init sends a request, want none")
	})
	for _, c := range []struct {
		name, text string
		code       exit.Code
	}{
		{"valid", text, exit.OK},
		{"invalid", strings.Replace(text, `"info"`, `"tags": 1, "info"`, 1), exit.Invalid},
	} {
		for _, format := range []string{"json", "yaml", "table"} {
			got := fx.run(c.text, "init", filepath.Join(t.TempDir(), "new"), "--from", "-", "--output", format)
			if got.code != c.code {
				t.Errorf("%s: init --output %s = %+v, want code %d", c.name, format, got, c.code)
			}
			out := got.err
			if format == "json" && c.code == exit.OK {
				out = got.out
			}
			if !strings.Contains(out, note) {
				t.Errorf("%s: init --output %s = %+v, want the note %q", c.name, format, got, note)
			}
		}
	}
}

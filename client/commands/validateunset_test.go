package commands_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/client/exit"
)

// TestValidateReportsUnsetVariableOnce checks that a variable that several routes use is reported once, whether the
// variables are unknown or the file of --env-file lacks it.
func TestValidateReportsUnsetVariableOnce(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "shop")
	var paths []string
	for _, name := range []string{"z", "m", "a"} {
		paths = append(paths, fmt.Sprintf(`"/%s": {"get": {"responses": {"default": {"description": "d"}}, `+
			`"x-gateway-route": {"handler": {"export": "urlForwardHandler", `+
			`"module": "$import(@gatewright/runtime)", "options": {"baseUrl": "$env(UPSTREAM)"}}}}}`, name))
	}
	if err := os.MkdirAll(filepath.Join(dir, "config"), 0o700); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, "config", "routes.oas.json"),
		"{\"openapi\": \"3.1.0\", \"info\": {\"title\": \"t\", \"version\": \"1\"}, \"paths\": {\n"+
			strings.Join(paths, ",\n")+"}}")
	writeFile(t, filepath.Join(dir, "empty.env"), "\n")
	for _, c := range []struct {
		args []string
		code exit.Code
		text string
	}{
		{[]string{"validate", dir}, exit.OK, "config/routes.oas.json:2:"},
		{[]string{"validate", dir, "--env-file", filepath.Join(dir, "empty.env")}, exit.Invalid, "1 error"},
		{[]string{"validate", dir, "--output", "json"}, exit.OK, ""},
	} {
		got := newFixture(t).run("", c.args...)
		all := got.out + got.err
		if got.code != c.code {
			t.Errorf("gatewright %q = %+v, want code %d", c.args, got, c.code)
		}
		if n := strings.Count(all, "UPSTREAM is used at 2 other places, too."); n != 1 {
			t.Errorf("gatewright %q = %+v, has %d problems with the other places of UPSTREAM, want 1", c.args, got, n)
		}
		if n := strings.Count(all, "UPSTREAM and deploy again"); n > 1 {
			t.Errorf("gatewright %q = %+v, has %d problems about setting UPSTREAM, want at most 1", c.args, got, n)
		}
		if !strings.Contains(all, c.text) {
			t.Errorf("gatewright %q = %+v, want %q in it", c.args, got, c.text)
		}
	}
}

package commands_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/client/exit"
)

// projectIn makes a project with one route to an upstream.
func projectIn(t *testing.T, handler, upstream string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "shop")
	if err := os.MkdirAll(filepath.Join(dir, "config"), 0o750); err != nil {
		t.Fatal(err)
	}
	text := `{"openapi": "3.1.0", "info": {"title": "Shop", "version": "1"}, "paths": {"/prices": {"get": {
  "responses": {"200": {"description": "The prices."}},
  "x-gateway-route": {"handler": {"export": "` + handler + `", "module": "$import(@gatewright/runtime)", "options": {"baseUrl": "` + upstream + `"}}}}}}}`
	if err := os.WriteFile(filepath.Join(dir, "config", "routes.oas.json"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

const goodUpstream = "https://upstream.example.com"

// TestValidateSaysWhatADeployWouldSay without a request.
func TestValidateSaysWhatADeployWouldSay(t *testing.T) {
	t.Parallel()
	l := newLine(t)
	good, bad, doubtful := projectIn(t, "urlForwardHandler", goodUpstream), projectIn(t, "noSuchHandler", goodUpstream), projectIn(t, "urlForwardHandler", "$env(UPSTREAM)")
	env := filepath.Join(t.TempDir(), "production.env")
	if err := os.WriteFile(env, []byte("UPSTREAM="+goodUpstream+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const shown = `config/routes.oas.json:3:35: error: Use one of the handlers that exist: mcpServerHandler, urlForwardHandler, urlRewriteHandler. (/paths/~1prices/get/x-gateway-route/handler/export)
    3 |   "x-gateway-route": {"handler": {"export": "noSuchHandler", "module": "$import(@gatewright/ru…
      |                                   ^
error: the project is not valid: 1 error
`
	got := l.run("", "validate", bad)
	if got.code != exit.Invalid || got.out != "" || got.err != shown {
		t.Errorf("a bad one: %d %q\n%s, want\n%s", got.code, got.out, got.err, shown)
	}
	got = l.run("", "validate", bad, "--output", "json")
	var document struct {
		Valid  bool
		Errors []struct {
			File, Path, Message string
			Line, Column        int
		}
	}
	if err := json.Unmarshal([]byte(got.err), &document); err != nil || got.code != exit.Invalid || got.out != "" || document.Valid || len(document.Errors) != 1 || document.Errors[0].Line != 3 {
		t.Errorf("a bad one in JSON: %+v %v", got, err)
	}
	if got := l.run("", "validate", good); got.code != exit.OK || got.out != "valid; files: 1, bytes: 318\n" || got.err != "" {
		t.Errorf("a good one: %+v", got)
	}
	if got := l.run("", "validate", good, "--jq", ".valid, .warnings, .uploaded.files"); got.code != exit.OK || got.out != "true\n[]\n1\n" || got.err != "" {
		t.Errorf("a good one, asked: %+v", got)
	}
	if got := l.run("", "validate", doubtful); got.code != exit.OK || !strings.Contains(got.err, "warning: The value of UPSTREAM is not known here") || got.out != "valid, with 1 warning; files: 1, bytes: 304\n" || !strings.HasSuffix(got.err, "values that are not known here: UPSTREAM; --env-file FILE has the project checked with them\n") {
		t.Errorf("without its variable: %+v", got)
	}
	if got := l.run("", "validate", doubtful, "--env-file", env); got.code != exit.OK || got.err != "" {
		t.Errorf("with its variable: %+v", got)
	}
	if got := l.run("", "validate", doubtful, "--env-file", os.DevNull+"-none"); got.code != exit.Usage || got.out != "" {
		t.Errorf("with no file of variables: %+v", got)
	}
	if got := l.run("", "validate", filepath.Join(good, "none")); got.code != exit.Usage || !strings.Contains(got.err, "there is no folder") {
		t.Errorf("without a folder: %+v", got)
	}
	if len(l.asked) > 0 {
		t.Errorf("it has asked %q", l.asked)
	}
}

// TestValidateTellsPipelines: annotations where GitHub's runner is, and files whether it succeeds or not.
func TestValidateTellsPipelines(t *testing.T) {
	t.Parallel()
	l := newLine(t)
	bad := projectIn(t, "noSuchHandler", goodUpstream)
	// The folder is in a repository.
	if err := os.Mkdir(filepath.Join(filepath.Dir(bad), ".git"), 0o750); err != nil {
		t.Fatal(err)
	}
	sarif, quality := filepath.Join(t.TempDir(), "a.sarif"), filepath.Join(t.TempDir(), "quality.json")
	l.env["GITHUB_ACTIONS"] = "true"
	got := l.run("", "validate", bad, "--sarif", sarif, "--code-quality", quality)
	if got.code != exit.Invalid || !strings.Contains(got.err, "\n::error file=shop/config/routes.oas.json,line=3,col=35,title=gatewright%3A routes::Use one of the handlers") {
		t.Errorf("%+v", got)
	}
	for name, has := range map[string]string{sarif: `"uri": "shop/config/routes.oas.json"`, quality: `"path": "shop/config/routes.oas.json"`} {
		if text, err := os.ReadFile(name); err != nil || !strings.Contains(string(text), has) || !json.Valid(text) {
			t.Errorf("%s: %s %v", name, text, err)
		}
	}
	if got := l.run("", "validate", bad, "--output", "json"); !json.Valid([]byte(got.err)) {
		t.Errorf("in JSON stderr is %s", got.err)
	}
	l.env["GITHUB_ACTIONS"], l.env["GITLAB_CI"] = "", "true"
	if got := l.run("", "validate", bad); !strings.HasPrefix(got.err, "\x1b[0Ksection_start:") || strings.Count(got.err, "section_end:") != 1 || strings.Contains(got.err, "::error") {
		t.Errorf("in GitLab: %+v", got)
	}
	if got := l.run("", "validate", bad, "--sarif", filepath.Dir(sarif)); got.code != exit.Failure || got.out != "" {
		t.Errorf("to a folder: %+v", got)
	}
}

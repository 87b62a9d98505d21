package commands_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/client/exit"
)

// newProject creates a project with one route to an upstream, and returns the path of its folder.
func newProject(t *testing.T, handler, upstream string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "shop")
	if err := os.MkdirAll(filepath.Join(dir, "config"), 0o750); err != nil {
		t.Fatal(err)
	}
	text := `{"openapi": "3.1.0", "info": {"title": "Shop", "version": "1"}, "paths": {"/prices": {"get": {
  "responses": {"200": {"description": "The prices."}},
  "x-gateway-route": {"handler": {"export": "` + handler + `", "module": "$import(@gatewright/runtime)", ` +
		`"options": {"baseUrl": "` + upstream + `"}}}}}}}`
	if err := os.WriteFile(filepath.Join(dir, "config", "routes.oas.json"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

const validUpstream = "https://upstream.example.com"

// TestValidateReportsBuildProblems checks that validate reports an error that a build would report, warns about a
// variable without a known value, and sends no request.
func TestValidateReportsBuildProblems(t *testing.T) {
	t.Parallel()
	fx := newFixture(t)
	good, bad, warned := newProject(t, "urlForwardHandler", validUpstream), newProject(t, "noSuchHandler", validUpstream),
		newProject(t, "urlForwardHandler", "$env(UPSTREAM)")
	env := filepath.Join(t.TempDir(), "production.env")
	if err := os.WriteFile(env, []byte("UPSTREAM="+validUpstream+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const wantErr = `config/routes.oas.json:3:35: error: Use one of the handlers that exist: mcpServerHandler, urlForwardHandler, urlRewriteHandler. (/paths/~1prices/get/x-gateway-route/handler/export)
    3 |   "x-gateway-route": {"handler": {"export": "noSuchHandler", "module": "$import(@gatewright/ru…
      |                                   ^
error: the project is not valid: 1 error
`
	got := fx.run("", "validate", bad)
	if got.code != exit.Invalid || got.out != "" || got.err != wantErr {
		t.Errorf("validate of an invalid project = %d with the output %q and\n%s, want %d with no output and\n%s",
			got.code, got.out, got.err, exit.Invalid, wantErr)
	}
	got = fx.run("", "validate", bad, "--output", "json")
	var document struct {
		Valid  bool
		Errors []struct {
			File, Path, Message string
			Line, Column        int
		}
	}
	if err := json.Unmarshal([]byte(got.err), &document); err != nil {
		t.Fatalf("validate --output json: stderr = %q, %v, want JSON", got.err, err)
	}
	if got.code != exit.Invalid || got.out != "" {
		t.Errorf("validate --output json of an invalid project = %+v, want code %d and no output", got, exit.Invalid)
	}
	if document.Valid || len(document.Errors) != 1 || document.Errors[0].Line != 3 {
		t.Errorf("validate --output json of an invalid project = %+v, want one error in line 3", document)
	}
	if got := fx.run("", "validate", good); got.code != exit.OK || got.out != "valid; files: 1, bytes: 318\n" ||
		got.err != "" {
		t.Errorf("validate of a valid project = %+v, want code 0, its size, and no warning", got)
	}
	if got := fx.run("", "validate", good, "--jq", ".valid, .warnings, .uploaded.files"); got.code != exit.OK ||
		got.out != "true\n[]\n1\n" || got.err != "" {
		t.Errorf("validate --jq of a valid project = %+v, want code 0, true, no warning, and 1 file", got)
	}
	if got := fx.run("", "validate", warned); got.code != exit.OK ||
		!strings.Contains(got.err, "warning: The value of UPSTREAM is not known here") ||
		got.out != "valid, with 1 warning; files: 1, bytes: 304\n" ||
		!strings.HasSuffix(got.err, "values that are not known here: UPSTREAM; --env-file FILE has the project "+
			"checked with them\n") {
		t.Errorf("validate without a variable = %+v, want code 0 and a warning with a hint at --env-file", got)
	}
	if got := fx.run("", "validate", warned, "--env-file", env); got.code != exit.OK || got.err != "" {
		t.Errorf("validate --env-file = %+v, want code 0 and no warning", got)
	}
	if got := fx.run("", "validate", warned, "--env-file", os.DevNull+"-none"); got.code != exit.Usage || got.out != "" {
		t.Errorf("validate with a missing --env-file = %+v, want code %d and no output", got, exit.Usage)
	}
	if got := fx.run("", "validate", filepath.Join(good, "none")); got.code != exit.Usage ||
		!strings.Contains(got.err, "there is no folder") {
		t.Errorf("validate of a missing folder = %+v, want code %d and \"there is no folder\"", got, exit.Usage)
	}
	if len(fx.requests) > 0 {
		t.Errorf("validate sends the requests %q, want none", fx.requests)
	}
}

// TestValidateWritesPipelineReports checks the annotations for GitHub's runner, the section for GitLab's log, and the
// report files of valid and invalid projects.
func TestValidateWritesPipelineReports(t *testing.T) {
	t.Parallel()
	fx := newFixture(t)
	bad := newProject(t, "noSuchHandler", validUpstream)
	// Make the parent folder a repository.
	if err := os.Mkdir(filepath.Join(filepath.Dir(bad), ".git"), 0o750); err != nil {
		t.Fatal(err)
	}
	sarif, quality := filepath.Join(t.TempDir(), "a.sarif"), filepath.Join(t.TempDir(), "quality.json")
	fx.env["GITHUB_ACTIONS"] = "true"
	got := fx.run("", "validate", bad, "--sarif", sarif, "--code-quality", quality)
	if got.code != exit.Invalid ||
		!strings.Contains(got.err, "\n::error file=shop/config/routes.oas.json,line=3,col=35,title=gatewright%3A "+
			"routes::Use one of the handlers") {
		t.Errorf("validate in GitHub Actions = %+v, want code %d and an annotation", got, exit.Invalid)
	}
	for name, marker := range map[string]string{
		sarif:   `"uri": "shop/config/routes.oas.json"`,
		quality: `"path": "shop/config/routes.oas.json"`,
	} {
		if text, err := os.ReadFile(name); err != nil || !strings.Contains(string(text), marker) || !json.Valid(text) {
			t.Errorf("ReadFile(%s) = %s, %v, want JSON with %s", name, text, err, marker)
		}
	}
	if got := fx.run("", "validate", bad, "--output", "json"); !json.Valid([]byte(got.err)) {
		t.Errorf("validate --output json in GitHub Actions: stderr = %s, want JSON alone", got.err)
	}
	fx.env["GITHUB_ACTIONS"], fx.env["GITLAB_CI"] = "", "true"
	if got := fx.run("", "validate", bad); !strings.HasPrefix(got.err, "\x1b[0Ksection_start:") ||
		strings.Count(got.err, "section_end:") != 1 || strings.Contains(got.err, "::error") {
		t.Errorf("validate in GitLab = %+v, want one section and no annotation", got)
	}
	if got := fx.run("", "validate", bad, "--sarif", filepath.Dir(sarif)); got.code != exit.Failure || got.out != "" {
		t.Errorf("validate --sarif to a folder = %+v, want code %d and no output", got, exit.Failure)
	}
}

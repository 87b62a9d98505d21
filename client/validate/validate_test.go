package validate_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/gatewright/gatewright/client/folder"
	"github.com/gatewright/gatewright/client/validate"
	"github.com/gatewright/gatewright/shared/dataplane/builds"
	"github.com/gatewright/gatewright/shared/format/project"
	"github.com/gatewright/gatewright/shared/testing/simulations"
)

// testProject has a project's files and its environment's variables.
type testProject struct {
	name      string
	files     map[string]string
	variables map[string]string
}

// testProjects returns the projects of the compiler's tests, and the projects in examples.
func testProjects(t testing.TB) []testProject {
	t.Helper()
	paths, err := filepath.Glob("../../shared/format/project/testdata/projects/*.txtar")
	if err != nil || len(paths) < 20 {
		t.Fatalf("%d test projects (%v), want at least 20", len(paths), err)
	}
	var out []testProject
	for _, path := range paths {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		s := testProject{strings.TrimSuffix(filepath.Base(path), ".txtar"), map[string]string{}, map[string]string{}}
		for line := range strings.Lines(string(archive.Comment)) {
			if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(name, "#") {
				s.variables[name] = value
			}
		}
		for _, f := range archive.Files {
			s.files[f.Name] = string(f.Data)
		}
		out = append(out, s)
	}
	examples, err := filepath.Glob("../../examples/*/config")
	if err != nil || len(examples) < 2 {
		t.Fatalf("%d examples (%v), want at least 2", len(examples), err)
	}
	for _, config := range examples {
		s := testProject{filepath.Base(filepath.Dir(config)), map[string]string{}, map[string]string{}}
		root := os.DirFS(filepath.Dir(config))
		err := fs.WalkDir(root, ".", func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			data, err := fs.ReadFile(root, path)
			s.files[path] = string(data)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, s)
	}
	return out
}

// builderResult returns the builder's result for the archive of a folder. It runs the program of the builder's sandbox,
// which reads a request and the archive.
func builderResult(t testing.TB, p *folder.Project, variables map[string]string) project.Result {
	t.Helper()
	request, err := json.Marshal(map[string]any{"variables": variables})
	if err != nil {
		t.Fatal(err)
	}
	in := bytes.NewBuffer(append(request, '\n'))
	if _, err := p.Archive(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := builds.ServeBuild(t.Context(), in, &out); err != nil {
		t.Fatal(err)
	}
	var outcome struct {
		Result project.Result `json:"result"`
	}
	if err := json.Unmarshal(out.Bytes(), &outcome); err != nil {
		t.Fatal(err)
	}
	return outcome.Result
}

func writeProject(t testing.TB, dir string, files map[string]string) *folder.Project {
	t.Helper()
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o750)); err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		dst := filepath.Join(dir, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(dst), 0o750), os.WriteFile(dst, []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	p, err := folder.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// validator is shared by all tests, like the validator of a dev server by all saves.
var validator = validate.New()

func validateFolder(t testing.TB, p *folder.Project, variables map[string]string) validate.Result {
	t.Helper()
	result, err := validator.Folder(t.Context(), p, validate.Options{Variables: variables})
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// compareResults checks a folder locally, and compares the result with the builder's result, which it returns.
func compareResults(t testing.TB, p *folder.Project, variables map[string]string, description string) project.Result {
	t.Helper()
	want := builderResult(t, p, variables)
	got := validateFolder(t, p, variables)
	if !reflect.DeepEqual(withoutUnset(got.Errors), withoutUnset(want.Errors)) ||
		!reflect.DeepEqual(withoutUnset(got.Warnings), withoutUnset(want.Warnings)) {
		t.Fatalf("%s: Folder() = errors %v, warnings %v, want %v and %v as from the builder",
			description, got.Errors, got.Warnings, want.Errors, want.Warnings)
	}
	// Without known variables, the errors and warnings must be the errors and warnings of a deploy without variables.
	noVariables := validateFolder(t, p, map[string]string{})
	unknownVariables := validateFolder(t, p, nil)
	var demoted []string
	for _, w := range unknownVariables.Warnings {
		if _, message, ok := strings.Cut(w.Message, "a deploy says: "); ok && w.Unset != "" {
			demoted = append(demoted, message)
		}
	}
	for _, e := range noVariables.Errors {
		if !slices.Contains(unknownVariables.Errors, e) && !slices.Contains(demoted, e.Message) {
			t.Fatalf("%s: without known variables %v is missing, want it as an error or a warning", description, e)
		}
	}
	for _, e := range unknownVariables.Errors {
		if e.Unset != "" || !slices.Contains(noVariables.Errors, e) {
			t.Fatalf("%s: without known variables there is the error %v, want only errors of a deploy", description, e)
		}
	}
	return got.Result
}

// withoutUnset returns problems without the field Unset, which the API does not have.
func withoutUnset(problems []project.Problem) []project.Problem {
	out := slices.Clone(problems)
	for i := range out {
		out[i].Unset = ""
	}
	return out
}

// TestValidationMatchesBuilder compares the results of a local check and of the builder for every project of the
// compiler's tests, and for mutations of these projects: 200 by default, and 10,000 with GATEWRIGHT_SIMULATIONS=50.
func TestValidationMatchesBuilder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "project")
	all := testProjects(t)
	for _, s := range all {
		compareResults(t, writeProject(t, dir, s.files), s.variables, s.name)
	}
	invalid, valid := 0, 0
	for seed := range simulations.Runs(200) {
		random := rand.New(rand.NewPCG(uint64(seed), 16))
		s := all[random.IntN(len(all))]
		files := mutate(random, s.files, all)
		if len(compareResults(t, writeProject(t, dir, files), s.variables,
			fmt.Sprintf("mutation %d of %s", seed, s.name)).Errors) > 0 {
			invalid++
		} else {
			valid++
		}
	}
	if invalid == 0 || valid == 0 {
		t.Errorf("%d mutations have errors and %d have none, want some of each", invalid, valid)
	}
}

// insertions are the texts that mutate inserts into files.
var insertions = []string{
	`"`, "{", "}", "[", "]", ",", ":", "null", "true", "0", "-1", "1e999", `""`, "{}", "[]", "$env(FIRST)", "$env(",
	"${env.HOST}", "${params.id}", "\n", "\t", "é", "\x00", "\xff", "\xef\xbb\xbf", "// x\n",
	`"policies": {"inbound": ["none"]},`, `"x-gateway-path": {"pathMode": "url-pattern"},`, `"corsPolicy": "none",`,
	`"mcp": {"type": "tool"},`, "/{id}", "/*", "urlRewriteHandler", "https://", "$ref",
}

// mutate returns a project with one to three random changes. A change removes, inserts or duplicates bytes of a file,
// replaces a value in JSON, removes or renames a file, or replaces its content with that of a file of another project.
func mutate(random *rand.Rand, files map[string]string, all []testProject) map[string]string {
	out := maps.Clone(files)
	for range 1 + random.IntN(3) {
		names := slices.Sorted(maps.Keys(out))
		if len(names) == 0 {
			return out
		}
		name := names[random.IntN(len(names))]
		text := out[name]
		at := random.IntN(len(text) + 1)
		to := min(len(text), at+random.IntN(40))
		switch random.IntN(9) {
		case 0:
			text = text[:at] + text[to:]
		case 1, 2:
			text = text[:at] + insertions[random.IntN(len(insertions))] + text[at:]
		case 3:
			text = text[:to] + text[at:]
		case 4, 5:
			text = replaceValue(random, text)
		case 6:
			other := all[random.IntN(len(all))].files
			others := slices.Sorted(maps.Keys(other))
			if len(others) > 0 {
				text = other[others[random.IntN(len(others))]]
			}
		case 7:
			delete(out, name)
			continue
		case 8:
			delete(out, name)
			name = []string{
				"config/other.oas.json", "config/policies.json", "gatewright.jsonc", "config/policies.yaml",
				"README.md",
			}[random.IntN(5)]
		}
		out[name] = text
	}
	return out
}

// replaceValue replaces one text in quotes of a file with another text. Valid JSON stays valid if its texts have no
// escaped quotes.
func replaceValue(random *rand.Rand, text string) string {
	parts := strings.Split(text, `"`)
	if len(parts) < 3 {
		return text
	}
	i := 1 + 2*random.IntN((len(parts)-1)/2)
	values := []string{
		"", "x", "/x", "get", "$env(FIRST)", "urlForwardHandler", "https://${env.HOST}/x",
		parts[1+2*random.IntN((len(parts)-1)/2)],
	}
	parts[i] = values[random.IntN(len(values))]
	return strings.Join(parts, `"`)
}

func TestUnknownVariableIsWarning(t *testing.T) {
	const file = "config/routes.oas.json"
	text := `{"openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "paths": {"/a": {"get": {
"responses": {"200": {"description": "d"}},
"x-gateway-route": {"handler": {"export": "urlForwardHandler", "module": "$import(@gatewright/runtime)", "options": {"baseUrl": "$env(UPSTREAM)"}}}}}}}`
	p := writeProject(t, filepath.Join(t.TempDir(), "p"), map[string]string{file: text})
	got := validateFolder(t, p, nil)
	if len(got.Errors) > 0 || !slices.Equal(got.UnknownVariables, []string{"UPSTREAM"}) {
		t.Errorf("Folder() with unknown variables = errors %v, unknown %q, want no error and UPSTREAM",
			got.Errors, got.UnknownVariables)
	}
	const unknown = "The value of UPSTREAM is not known here. Where it is not set, a deploy says: "
	if len(got.Warnings) != 1 || !strings.HasPrefix(got.Warnings[0].Message, unknown) || got.Warnings[0].Line != 3 {
		t.Errorf("Folder() with unknown variables = warnings %v, want one in line 3 with %q", got.Warnings, unknown)
	}
	if got := validateFolder(t, p, map[string]string{}); len(got.Errors) != 1 || got.UnknownVariables != nil {
		t.Errorf("Folder() without variables = %+v, want one error and no unknown variable", got.Result)
	}
	if got := validateFolder(t, p, map[string]string{"UPSTREAM": "https://up.example.com"}); len(got.Errors)+len(
		got.Warnings) > 0 {
		t.Errorf("Folder() with UPSTREAM = %+v, want no error and no warning", got.Result)
	}
}

func TestRefusedFolderIsReported(t *testing.T) {
	p := writeProject(t, filepath.Join(t.TempDir(), "p"), map[string]string{
		"config/routes.oas.json": "{}",
		".gitignore":             "config/policies.json", "config/policies.json": "{}",
	})
	if err := os.Symlink("gone", filepath.Join(p.Dir, "link")); err != nil {
		t.Fatal(err)
	}
	got := validateFolder(t, p, nil)
	if len(got.Errors) != 1 || got.Errors[0].File != "link" || len(got.Warnings) != 1 ||
		got.Warnings[0].File != "config/policies.json" {
		t.Errorf("Folder() = %+v, want an error for link and a warning for config/policies.json", got.Result)
	}
}

func TestValidationStopsWithContext(t *testing.T) {
	errInterrupted := errors.New("interrupted")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errInterrupted)
	_, _, err := validate.New().Files(ctx, project.Files{"config/routes.oas.json": []byte("{}")}, validate.Options{})
	if !errors.Is(err, errInterrupted) {
		t.Errorf("Files() with a canceled context: error = %v, want %v", err, errInterrupted)
	}
}

func TestReadEnvFileHidesContent(t *testing.T) {
	name := filepath.Join(t.TempDir(), "variables.env")
	for text, want := range map[string]map[string]string{
		"# upstreams\nUP=https://a.example.com\nexport KEY='a b#c' # x\r\nEMPTY=\n\nQ=\"a\\nb\"\nD=a$b\n": {
			"UP": "https://a.example.com", "KEY": "a b#c", "EMPTY": "", "Q": "a\nb", "D": "a$b",
		},
		"":                     {},
		"\xef\xbb\xbfA=1":      {"A": "1"},
		"A=1\nhunter2":         nil,
		"A=1\nB='hunter2":      nil,
		"hunter2-key!=x":       nil,
		"A.B=hunter2":          nil,
		"A=\"\\uD83Dhunter2\"": nil,
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := validate.ReadEnvFile(name)
		switch {
		case want == nil && (err == nil || strings.Contains(err.Error(), "hunter2")):
			t.Errorf("ReadEnvFile(%q) = %v, %v, want an error without the value", text, got, err)
		case want != nil && (err != nil || !maps.Equal(got, want)):
			t.Errorf("ReadEnvFile(%q) = %q, %v, want %q", text, got, err, want)
		}
	}
	for _, bad := range []string{name + "-none", filepath.Dir(name)} {
		if _, err := validate.ReadEnvFile(bad); err == nil {
			t.Errorf("ReadEnvFile(%s) succeeds, want an error", bad)
		}
	}
}

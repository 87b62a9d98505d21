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
	"github.com/gatewright/gatewright/shared/builds"
	"github.com/gatewright/gatewright/shared/operation/simulations"
	"github.com/gatewright/gatewright/shared/project"
)

// source is a project with the variables of its environment.
type source struct {
	name      string
	files     map[string]string
	variables map[string]string
}

// sources are the projects that the compiler is tested with, and the examples.
func sources(t testing.TB) []source {
	t.Helper()
	paths, err := filepath.Glob("../../shared/project/testdata/projects/*.txtar")
	if err != nil || len(paths) < 20 {
		t.Fatalf("%d projects (%v)", len(paths), err)
	}
	var out []source
	for _, path := range paths {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		s := source{strings.TrimSuffix(filepath.Base(path), ".txtar"), map[string]string{}, map[string]string{}}
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
		t.Fatalf("%d examples (%v)", len(examples), err)
	}
	for _, config := range examples {
		s := source{filepath.Base(filepath.Dir(config)), map[string]string{}, map[string]string{}}
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

// built is what the builder says of a folder's archive: what runs in its sandbox, which reads an order and the archive.
func built(t testing.TB, p *folder.Project, variables map[string]string) project.Result {
	t.Helper()
	order, err := json.Marshal(map[string]any{"variables": variables})
	if err != nil {
		t.Fatal(err)
	}
	in := bytes.NewBuffer(append(order, '\n'))
	if _, err := p.Archive(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := builds.Work(t.Context(), in, &out); err != nil {
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

func opened(t testing.TB, dir string, files map[string]string) *folder.Project {
	t.Helper()
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o750)); err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		at := filepath.Join(dir, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o750), os.WriteFile(at, []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	p, err := folder.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// validator is one for all tests, as it is for all saves of a developer.
var validator = validate.New()

func validated(t testing.TB, p *folder.Project, variables map[string]string) validate.Result {
	t.Helper()
	result, err := validator.Folder(t.Context(), p, validate.Options{Variables: variables})
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// compare checks a folder here and by the builder.
func compare(t testing.TB, p *folder.Project, variables map[string]string, what string) project.Result {
	t.Helper()
	want := built(t, p, variables)
	got := validated(t, p, variables)
	if !reflect.DeepEqual(told(got.Errors), told(want.Errors)) || !reflect.DeepEqual(told(got.Warnings), told(want.Warnings)) {
		t.Fatalf("%s: here\n%v\n%v\nthe builder says\n%v\n%v", what, got.Errors, got.Warnings, want.Errors, want.Warnings)
	}
	// Without the variables each error of a deploy without variables is an error or a doubt, and no other is.
	none := validated(t, p, map[string]string{})
	unknown := validated(t, p, nil)
	var doubts []string
	for _, w := range unknown.Warnings {
		if _, message, ok := strings.Cut(w.Message, "a deploy says: "); ok && w.Unset != "" {
			doubts = append(doubts, message)
		}
	}
	for _, e := range none.Errors {
		if !slices.Contains(unknown.Errors, e) && !slices.Contains(doubts, e.Message) {
			t.Fatalf("%s: nothing is told of %v without variables", what, e)
		}
	}
	for _, e := range unknown.Errors {
		if e.Unset != "" || !slices.Contains(none.Errors, e) {
			t.Fatalf("%s: %v is an error without variables alone", what, e)
		}
	}
	return got.Result
}

// told are problems as the API tells them.
func told(problems []project.Problem) []project.Problem {
	out := slices.Clone(problems)
	for i := range out {
		out[i].Unset = ""
	}
	return out
}

// TestWhatIsValidatedIsWhatADeploySays of every project that the compiler is tested with, and of mutations of them:
// 200 by default, and GATEWRIGHT_SIMULATIONS=50 for 10,000.
func TestWhatIsValidatedIsWhatADeploySays(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "project")
	all := sources(t)
	for _, s := range all {
		compare(t, opened(t, dir, s.files), s.variables, s.name)
	}
	errored, whole := 0, 0
	for seed := range simulations.Runs(200) {
		random := rand.New(rand.NewPCG(uint64(seed), 16))
		s := all[random.IntN(len(all))]
		files := mutated(random, s.files, all)
		if len(compare(t, opened(t, dir, files), s.variables, fmt.Sprintf("mutation %d of %s", seed, s.name)).Errors) > 0 {
			errored++
		} else {
			whole++
		}
	}
	if errored == 0 || whole == 0 {
		t.Errorf("%d mutations have errors and %d have none: of one kind they show nothing", errored, whole)
	}
}

// pieces are what mutations put in.
var pieces = []string{
	`"`, "{", "}", "[", "]", ",", ":", "null", "true", "0", "-1", "1e999", `""`, "{}", "[]", "$env(FIRST)", "$env(", "${env.HOST}", "${params.id}", "\n", "\t", "é", "\x00", "\xff", "\xef\xbb\xbf", "// x\n",
	`"policies": {"inbound": ["none"]},`, `"x-gateway-path": {"pathMode": "url-pattern"},`, `"corsPolicy": "none",`, `"mcp": {"type": "tool"},`, "/{id}", "/*", "urlRewriteHandler", "https://", "$ref",
}

// mutated is a project with one to three changes: bytes taken away, put in, doubled or exchanged, values of JSON
// replaced, and files that are gone, renamed, or another project's.
func mutated(random *rand.Rand, files map[string]string, all []source) map[string]string {
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
			text = text[:at] + pieces[random.IntN(len(pieces))] + text[at:]
		case 3:
			text = text[:to] + text[at:]
		case 4, 5:
			text = replaced(random, text)
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
			name = []string{"config/other.oas.json", "config/policies.json", "gatewright.jsonc", "config/policies.yaml", "README.md"}[random.IntN(5)]
		}
		out[name] = text
	}
	return out
}

// replaced replaces one text or number of a file by another piece that leaves it JSON, where it was.
func replaced(random *rand.Rand, text string) string {
	parts := strings.Split(text, `"`)
	if len(parts) < 3 {
		return text
	}
	i := 1 + 2*random.IntN((len(parts)-1)/2)
	values := []string{"", "x", "/x", "get", "$env(FIRST)", "urlForwardHandler", "https://${env.HOST}/x", parts[1+2*random.IntN((len(parts)-1)/2)]}
	parts[i] = values[random.IntN(len(values))]
	return strings.Join(parts, `"`)
}

func TestWhatOnlyAVariableLacksIsAWarning(t *testing.T) {
	const file = "config/routes.oas.json"
	text := `{"openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "paths": {"/a": {"get": {
"responses": {"200": {"description": "d"}},
"x-gateway-route": {"handler": {"export": "urlForwardHandler", "module": "$import(@gatewright/runtime)", "options": {"baseUrl": "$env(UPSTREAM)"}}}}}}}`
	p := opened(t, filepath.Join(t.TempDir(), "p"), map[string]string{file: text})
	got := validated(t, p, nil)
	if len(got.Errors) > 0 || len(got.Warnings) != 1 || !slices.Equal(got.Unknown, []string{"UPSTREAM"}) ||
		!strings.HasPrefix(got.Warnings[0].Message, "The value of UPSTREAM is not known here. Where it is not set, a deploy says: ") || got.Warnings[0].Line != 3 {
		t.Errorf("without variables: %+v", got)
	}
	if got := validated(t, p, map[string]string{}); len(got.Errors) != 1 || got.Unknown != nil {
		t.Errorf("with none: %+v", got.Result)
	}
	if got := validated(t, p, map[string]string{"UPSTREAM": "https://up.example.com"}); len(got.Errors)+len(got.Warnings) > 0 {
		t.Errorf("with it: %+v", got.Result)
	}
}

func TestARefusedFolderIsToldAsErrors(t *testing.T) {
	p := opened(t, filepath.Join(t.TempDir(), "p"), map[string]string{"config/routes.oas.json": "{}", ".gitignore": "config/policies.json", "config/policies.json": "{}"})
	if err := os.Symlink("gone", filepath.Join(p.Dir, "link")); err != nil {
		t.Fatal(err)
	}
	got := validated(t, p, nil)
	if len(got.Errors) != 1 || got.Errors[0].File != "link" || len(got.Warnings) != 1 || got.Warnings[0].File != "config/policies.json" {
		t.Errorf("%+v", got.Result)
	}
}

func TestValidatingEndsWithItsContext(t *testing.T) {
	ended := errors.New("interrupted")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(ended)
	if _, _, err := validate.New().Files(ctx, project.Files{"config/routes.oas.json": []byte("{}")}, validate.Options{}); !errors.Is(err, ended) {
		t.Error(err)
	}
}

func TestEnvFilesAreReadAndNotRepeated(t *testing.T) {
	name := filepath.Join(t.TempDir(), "variables.env")
	for text, want := range map[string]map[string]string{
		"# upstreams\nUP=https://a.example.com\nexport KEY='a b#c' # x\r\nEMPTY=\n\nQ=\"a\\nb\"\nD=a$b\n": {"UP": "https://a.example.com", "KEY": "a b#c", "EMPTY": "", "Q": "a\nb", "D": "a$b"},
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
			t.Errorf("%q: %v, %v", text, got, err)
		case want != nil && (err != nil || !maps.Equal(got, want)):
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	for _, bad := range []string{name + "-none", filepath.Dir(name)} {
		if _, err := validate.ReadEnvFile(bad); err == nil {
			t.Errorf("%s is read", bad)
		}
	}
}

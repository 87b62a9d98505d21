package project_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/gatewright/gatewright/internal/golden"
	"github.com/gatewright/gatewright/shared/project"
)

// catalogue is a gateway's catalogue in small, with the ways in which a real
// one answers: several faults at once, unknown options, missing ones.
type catalogue struct{}

var _ project.Catalogue = catalogue{}

func (catalogue) CheckHandler(c project.Component) []project.Problem {
	switch c.Export {
	case "urlForwardHandler":
		return faults(c.Options, "baseUrl", "baseUrl", "followRedirects")
	case "urlRewriteHandler":
		return faults(c.Options, "rewritePattern", "rewritePattern")
	case "mcpServerHandler":
		return faults(c.Options, "operations", "operations", "includeOutputSchema")
	}
	return []project.Problem{{Path: "/export", Message: "There is no handler of this name."}}
}

func (catalogue) CheckPolicy(p project.Policy) []project.Problem {
	switch p.Type {
	case "api-key-inbound":
		return faults(p.Handler.Options, "", "bucketName", "cacheTtlSeconds")
	case "rate-limit-inbound":
		return faults(p.Handler.Options, "requestsAllowed", "requestsAllowed", "rateLimitBy", "keys")
	case "filter-outbound":
		return nil
	}
	return []project.Problem{{Path: "/policyType", Message: "There is no policy of this type."}}
}

func (catalogue) DoubtInbound(all []project.Policy) map[int]string {
	if len(all) > 0 && all[0].Type == "rate-limit-inbound" {
		return map[int]string{0: "Nobody knows the user here."}
	}
	return nil
}

func faults(options json.RawMessage, required string, known ...string) []project.Problem {
	var object map[string]any
	if len(options) > 0 {
		if err := json.Unmarshal(options, &object); err != nil {
			return []project.Problem{{Path: "/options", Message: err.Error()}}
		}
	}
	var out []project.Problem
	if _, ok := object[required]; required != "" && !ok {
		out = append(out, project.Problem{Path: "/options/" + required, Message: "Add this option."})
	}
	for name, value := range object {
		if !slices.Contains(known, name) {
			out = append(out, project.Problem{Path: "/options/" + name, Message: "There is no such option."})
		}
		if entries, ok := value.([]any); ok {
			for i, e := range entries {
				if e == "bad" || e == "first-secret-value" {
					// A careless catalogue, to see what the compiler makes of it.
					out = append(out, project.Problem{Path: fmt.Sprintf("/options/%s/%d", name, i), Message: fmt.Sprintf("%v is no good.", e)})
				}
			}
		}
	}
	return out
}

// load reads a project of testdata: lines NAME=value are variables, the
// sections are its files.
func load(t testing.TB, path string) (project.Files, project.Input) {
	t.Helper()
	archive, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	in := project.Input{Catalogue: catalogue{}, Variables: map[string]string{}, Identity: project.Identity{
		AccountID: "c0ffee00-0000-4000-8000-000000000001", Account: "demo", Project: "hello", Branch: "main",
		Environment: "production", Deployment: "hello-main-0a1b2c3", BuildID: "c0ffee00-0000-4000-8000-000000000002",
	}}
	for line := range strings.Lines(string(archive.Comment)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(name, "#") {
			in.Variables[name] = value
		}
	}
	files := project.Files{}
	for _, f := range archive.Files {
		files[f.Name] = f.Data
	}
	return files, in
}

// compile compiles with a new Compiler.
func compile(t testing.TB, files project.Files, in project.Input) (*project.Artifact, project.Result) {
	t.Helper()
	artifact, result, err := project.NewCompiler().Compile(t.Context(), files, in)
	if err != nil {
		t.Fatal(err)
	}
	return artifact, result
}

// TestProjectsCompileAsTheirGoldensSay has a project for every rule: see
// testdata/projects, one file a rule or a group of them.
func TestProjectsCompileAsTheirGoldensSay(t *testing.T) {
	paths, err := filepath.Glob("testdata/projects/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no projects: %v", err)
	}
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".txtar")
		t.Run(name, func(t *testing.T) {
			files, in := load(t, path)
			artifact, result := compile(t, files, in)
			if (artifact == nil) != (len(result.Errors) > 0) {
				t.Errorf("artifact is nil: %v, with %d errors", artifact == nil, len(result.Errors))
			}
			if good := strings.HasPrefix(name, "good-"); good != (artifact != nil) {
				t.Errorf("the project %s compiles: %v", name, artifact != nil)
			}
			for variable, value := range in.Variables {
				for _, p := range slices.Concat(result.Errors, result.Warnings) {
					if len(value) > 4 && strings.Contains(p.Message+p.Path, value) {
						t.Errorf("the value of %s stands in %+v", variable, p)
					}
				}
			}
			var got strings.Builder
			show(t, &got, "errors", result.Errors)
			show(t, &got, "warnings", result.Warnings)
			if artifact != nil {
				data, err := json.MarshalIndent(artifact, "", "  ")
				if err != nil {
					t.Fatal(err)
				}
				fmt.Fprintf(&got, "artifact:\n%s\n", data)
			}
			golden.Equal(t, strings.TrimSuffix(path, ".txtar")+".golden", got.String())
		})
	}
}

func show(t testing.TB, out *strings.Builder, title string, problems []project.Problem) {
	t.Helper()
	if len(problems) == 0 {
		return
	}
	fmt.Fprintf(out, "%s:\n", title)
	for _, p := range problems {
		at := p.File
		if p.Line > 0 {
			at = fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
		}
		fmt.Fprintf(out, "  %s %s\n    %s\n", at, p.Path, p.Message)
	}
}

// TestCompileIsDeterministic compares encodings: Go's maps come in another
// order each time, the artifact may not.
func TestCompileIsDeterministic(t *testing.T) {
	files, in := load(t, "testdata/projects/good-all.txtar")
	var first string
	for range 20 {
		artifact, _ := compile(t, files, in)
		_, digest, err := project.Encode(artifact, project.WrittenFormat)
		if err != nil {
			t.Fatal(err)
		}
		if first == "" {
			first = digest
		}
		if digest != first {
			t.Fatalf("digest %s, and %s before", digest, first)
		}
	}
}

func TestDecodeGivesWhatWasEncoded(t *testing.T) {
	files, in := load(t, "testdata/projects/good-all.txtar")
	artifact, _ := compile(t, files, in)
	sizes := map[int]int{}
	for format := project.OldestFormat; format <= project.ArtifactFormat; format++ {
		data, digest, err := project.Encode(artifact, format)
		if err != nil {
			t.Fatal(err)
		}
		sizes[format] = len(data)
		decoded, err := project.Decode(data)
		if err != nil {
			t.Fatal(err)
		}
		if _, again, err := project.Encode(decoded, format); err != nil || again != digest {
			t.Errorf("format %d: digest %s after decoding, %s before (%v)", format, again, digest, err)
		}
	}
	if 2*sizes[2] > sizes[1] {
		t.Errorf("compressed it has %d bytes, and %d else", sizes[2], sizes[1])
	}
	for _, format := range []int{project.OldestFormat - 1, project.ArtifactFormat + 1} {
		if _, _, err := project.Encode(artifact, format); !errors.Is(err, project.ErrFormat) {
			t.Errorf("format %d is written: %v", format, err)
		}
	}
}

// TestTheLastReleaseReadsWhatIsWritten: it serves beside this one during an update, and alone after a rollback.
// testdata/artifact-1.json is what it has written itself.
func TestTheLastReleaseReadsWhatIsWritten(t *testing.T) {
	const lastRelease = 1 // the newest format that the release in packaging/released reads
	if project.WrittenFormat > lastRelease {
		t.Errorf("builds write format %d, and the last release reads %d at most", project.WrittenFormat, lastRelease)
	}
	if project.OldestFormat > max(1, lastRelease) {
		t.Errorf("format %d, which the last release writes, is not read", lastRelease)
	}
	if project.ArtifactFormat > project.WrittenFormat+1 || project.OldestFormat < project.WrittenFormat-1 {
		t.Error("more formats are read than one before and one after what is written")
	}
	old, err := os.ReadFile("testdata/artifact-1.json")
	if err != nil {
		t.Fatal(err)
	}
	a, err := project.Decode(old)
	if err != nil {
		t.Fatal(err)
	}
	if a.Format != project.ArtifactFormat || len(a.Routes) == 0 || a.Env != nil {
		t.Errorf("it is read as %+v", a)
	}
	// Nothing of it is lost on the way: it is written again as it was.
	data, _, err := project.Encode(a, 1)
	if err != nil || !bytes.Equal(bytes.TrimSpace(data), bytes.TrimSpace(old)) {
		t.Errorf("it is written again as\n%s, %v\nand was\n%s", data, err, old)
	}
}

// TestABuildCanBeRepeatedFromItsArtifact: the same sources give it again with the variables that it holds.
func TestABuildCanBeRepeatedFromItsArtifact(t *testing.T) {
	files, in := load(t, "testdata/projects/good-all.txtar")
	first, _ := compile(t, files, in)
	in.Variables = first.BuiltWith()
	if len(in.Variables) == 0 {
		t.Fatal("the project reads no variable")
	}
	again, _ := compile(t, files, in)
	_, one, _ := project.Encode(first, project.WrittenFormat)
	if _, two, err := project.Encode(again, project.WrittenFormat); err != nil || one != two {
		t.Errorf("digest %s, then %s, %v", one, two, err)
	}
	if first.Env = nil; first.BuiltWith() != nil {
		t.Error("an artifact that does not tell of its variables gives some")
	}
}

func TestDecodeRefusesOtherFormatsAndDamage(t *testing.T) {
	for name, data := range map[string]string{
		"a newer format":  `{"format": 3}`,
		"an older format": `{"format": 0}`,
		"no format":       `{}`,
		"no JSON":         `{"format": 1`,
		"a wrong type":    `{"format": 1, "routes": "secret"}`,
		"no envelope":     `{"format": 2, "deflated": "!secret"}`,
		"an empty one":    `{"format": 2}`,
		"a cut one":       `{"format": 2, "deflated": "q1bKTM"}`,
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := project.Decode([]byte(data)); err == nil || strings.Contains(err.Error(), "secret") {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestVerifyIsAskedAboutGoodArtifactsAlone(t *testing.T) {
	asked := 0
	verify := func(a *project.Artifact) []project.Problem {
		asked++
		return []project.Problem{{File: "config/routes.oas.json", Path: "/paths", Message: "second-secret-value is no good."}}
	}
	for name, want := range map[string]int{"good-all": 1, "routes": 0} {
		asked = 0
		files, in := load(t, "testdata/projects/"+name+".txtar")
		in.Verify = verify
		artifact, result := compile(t, files, in)
		if asked != want || artifact != nil {
			t.Errorf("%s: asked %d times, artifact %v", name, asked, artifact)
		}
		if want == 1 && (len(result.Errors) != 1 || result.Errors[0].Message != "$env(LIMIT_KEY) is no good.") {
			t.Errorf("%s: errors %+v", name, result.Errors)
		}
	}
}

// TestProblemsAreBounded has a project with more faults than a record can hold.
func TestProblemsAreBounded(t *testing.T) {
	var paths []string
	for i := range 5_000 {
		paths = append(paths, fmt.Sprintf(`"/%s%d": {"get": {"responses": {}}}`, strings.Repeat("x", 600), i))
	}
	files := project.Files{"config/a.oas.json": []byte(`{"openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "paths": {` + strings.Join(paths, ",") + `}}`)}
	_, result := compile(t, files, project.Input{Catalogue: catalogue{}})
	data, err := json.Marshal(result)
	if err != nil {
		t.Fatal(err)
	}
	if len(data) > 100<<10 {
		t.Errorf("the result has %d bytes", len(data))
	}
	if last := result.Errors[len(result.Errors)-1]; !strings.HasPrefix(last.Message, "There are ") {
		t.Errorf("the last problem does not say how many more there are: %+v", last)
	}
}

package project_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/gatewright/gatewright/shared/format/project"
	"github.com/gatewright/gatewright/shared/testing/golden"
)

// catalog is a small version of a gateway's catalog, with the same kinds
// of results: several mistakes at once, unknown options, missing options.
type catalog struct{}

var _ project.Catalog = catalog{}

func (catalog) CheckHandler(c project.Component) []project.Problem {
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

func (catalog) CheckPolicy(p project.Policy) []project.Problem {
	switch p.Type {
	case "api-key-inbound":
		return faults(p.Handler.Options, "", "bucketName", "cacheTtlSeconds")
	case "rate-limit-inbound":
		return faults(p.Handler.Options, "requestsAllowed", "requestsAllowed", "rateLimitBy", "keys")
	case "filter-outbound", "check-inbound", "check-outbound", "all-inbound", "all-outbound", "any-inbound":
		return nil
	}
	return []project.Problem{{Path: "/policyType", Message: "There is no policy of this type."}}
}

// Unprotected implements API keys with policies of the type api-key-inbound, and the scheme "any" with any policy.
func (catalog) Unprotected(scheme project.SecurityScheme, scopes []string, inbound []project.Policy) string {
	for _, p := range inbound {
		if len(scopes) == 0 && (p.Type == "api-key-inbound" && scheme.Type == "apiKey" || p.Name == scheme.Policy) {
			return ""
		}
	}
	return "so add one"
}

// Members reads the members of policies whose types begin with all- and any-.
func (catalog) Members(p project.Policy) (names []string, expands bool) {
	var o struct{ Policies []string }
	if expands = strings.HasPrefix(p.Type, "all-"); expands || strings.HasPrefix(p.Type, "any-") {
		_ = json.Unmarshal(p.Handler.Options, &o)
	}
	return o.Policies, expands
}

// CheckMembers refuses members of the type check-inbound.
func (catalog) CheckMembers(_ project.Policy, members []project.Policy) (problems []project.Problem) {
	for i, m := range members {
		if m.Type == "check-inbound" {
			problems = append(problems, project.Problem{
				Path: fmt.Sprintf("/options/policies/%d", i), Message: "This cannot be a member.",
			})
		}
	}
	return problems
}

// UsedVariables reads the names of variables in conditions such as "env.A env.B".
func (catalog) UsedVariables(p project.Policy) []string {
	var out []string
	for word := range strings.FieldsSeq(p.When) {
		if name, ok := strings.CutPrefix(word, "env."); ok {
			out = append(out, name)
		}
	}
	return out
}

func (catalog) WarnInbound(policies []project.Policy) map[int]string {
	if len(policies) > 0 && policies[0].Type == "rate-limit-inbound" {
		return map[int]string{0: "Nobody knows the user here."}
	}
	return nil
}

// Validates reports that policies of the types check-inbound and check-outbound validate.
func (catalog) WarnDescribed(project.Policy, *project.RequestDescription, project.ResponseDescription) string {
	return ""
}

func (catalog) Validates(policyType string) (request, responses bool) {
	return policyType == "check-inbound", policyType == "check-outbound"
}

func (catalog) PolicyModule(string) string { return "$import(@gatewright/runtime)" }

// CredentialHeader reports that policies of the type api-key-inbound expect the key in X-Key.
func (catalog) CredentialHeader(p project.Policy) string {
	if p.Type == "api-key-inbound" {
		return "X-Key"
	}
	return ""
}

// IsReservedHeader reports that X-Request-Id is reserved.
func (catalog) IsReservedHeader(name string) bool { return strings.EqualFold(name, "X-Request-Id") }

// faults returns the mistakes in options: the required option is missing,
// an option is not in known, or a list has an invalid entry.
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
					// Repeat a value in the message, as a careless catalog
					// would, to check that the compiler redacts it.
					out = append(out, project.Problem{
						Path:    fmt.Sprintf("/options/%s/%d", name, i),
						Message: fmt.Sprintf("%v is no good.", e),
					})
				}
			}
		}
	}
	return out
}

// load reads a project of testdata. Its lines NAME=value are variables, and its sections are the project's files.
func load(t testing.TB, path string) (project.Files, project.Input) {
	t.Helper()
	archive, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	in := project.Input{Catalog: catalog{}, Variables: map[string]string{}, Identity: project.Identity{
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

// TestCompileGolden checks the result of Compile for each project in
// testdata/projects. There is one file for each rule or group of rules.
func TestCompileGolden(t *testing.T) {
	paths, err := filepath.Glob("testdata/projects/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("Glob() = %d projects, %v, want some and no error", len(paths), err)
	}
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".txtar")
		t.Run(name, func(t *testing.T) {
			files, in := load(t, path)
			artifact, result := compile(t, files, in)
			if (artifact == nil) != (len(result.Errors) > 0) {
				t.Errorf("Compile() = artifact %v, %d errors, want one of them", artifact != nil, len(result.Errors))
			}
			if valid := strings.HasPrefix(name, "good-"); valid != (artifact != nil) {
				t.Errorf("project %s compiles = %v, want %v", name, artifact != nil, valid)
			}
			for variable, value := range in.Variables {
				for _, p := range slices.Concat(result.Errors, result.Warnings) {
					if len(value) > 4 && strings.Contains(p.Message+p.Path, value) {
						t.Errorf("problem %+v contains the value of %s, want it hidden", p, variable)
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

// show writes problems to out as a golden file shows them, under a title.
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

// TestCompileIsDeterministic compares the encodings of several compilations of each valid project: the order of Go's
// maps changes each time, but the artifact must not change.
func TestCompileIsDeterministic(t *testing.T) {
	paths, err := filepath.Glob("testdata/projects/good-*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("Glob() = %d projects, %v, want some and no error", len(paths), err)
	}
	for _, path := range paths {
		files, in := load(t, path)
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
				t.Fatalf("%s: digest = %s, want %s as before", path, digest, first)
			}
		}
	}
}

// TestUnsetVariableIsReportedOnce checks that the problems of a variable without a value become one, at the first line
// that uses the variable.
func TestUnsetVariableIsReportedOnce(t *testing.T) {
	t.Parallel()
	_, in := load(t, "testdata/projects/good-all.txtar")
	_, result := compile(t, documentFiles(`"paths": {
		"/z": `+operation(`{"rewritePattern": "$env(NONE)"}`, "")+`,
		"/a": `+operation(`{"rewritePattern": "$env(NONE)"}`, "")+`,
		"/b": `+operation(`{"rewritePattern": "$env(NONE)"}`, "")+`}`), in)
	if len(result.Errors) != 1 || !strings.HasSuffix(result.Errors[0].Message, " NONE is used at 2 other places, too.") ||
		!strings.HasPrefix(result.Errors[0].Path, "/paths/~1z/") {
		t.Errorf("Compile() errors = %v, want one at /z, which counts 2 other places", result.Errors)
	}
}

func TestEncodeDecodeRoundTrip(t *testing.T) {
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
		if _, digestAgain, err := project.Encode(decoded, format); err != nil || digestAgain != digest {
			t.Errorf("format %d: digest of the decoded artifact = %s, %v, want %s", format, digestAgain, err, digest)
		}
	}
	if 2*sizes[2] > sizes[1] {
		t.Errorf("compressed size = %d bytes, want at most half of %d", sizes[2], sizes[1])
	}
	for _, format := range []int{project.OldestFormat - 1, project.ArtifactFormat + 1} {
		if _, _, err := project.Encode(artifact, format); !errors.Is(err, project.ErrFormat) {
			t.Errorf("Encode(format %d) error = %v, want %v", format, err, project.ErrFormat)
		}
	}
}

// TestWrittenFormatIsReadableByLastRelease checks that the previous release can read the artifacts of this release.
// Both releases serve them during an update, and the previous one alone after a rollback. The test also checks that
// this release can read testdata/artifact-1.json, which the previous release has written.
func TestWrittenFormatIsReadableByLastRelease(t *testing.T) {
	const previousFormat = 1 // the newest format that the release in packaging/released reads
	if project.WrittenFormat > previousFormat {
		t.Errorf("WrittenFormat = %d, want at most %d, which the previous release reads",
			project.WrittenFormat, previousFormat)
	}
	if project.OldestFormat > max(1, previousFormat) {
		t.Errorf("OldestFormat = %d, want at most %d, which the previous release writes",
			project.OldestFormat, max(1, previousFormat))
	}
	if project.ArtifactFormat > project.WrittenFormat+1 || project.OldestFormat < project.WrittenFormat-1 {
		t.Errorf("formats %d to %d are read, want at most one before and one after the written %d",
			project.OldestFormat, project.ArtifactFormat, project.WrittenFormat)
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
		t.Errorf("decoded artifact = %+v, want format %d, routes and no variables", a, project.ArtifactFormat)
	}
	// Encoding the artifact again must not lose anything.
	data, _, err := project.Encode(a, 1)
	if err != nil || !bytes.Equal(bytes.TrimSpace(data), bytes.TrimSpace(old)) {
		t.Errorf("Encode(decoded artifact) =\n%s, %v, want\n%s", data, err, old)
	}
}

// TestBuildIsReproducible checks that a build of the same sources, with
// the variables that an artifact records, produces the same artifact.
func TestBuildIsReproducible(t *testing.T) {
	files, in := load(t, "testdata/projects/good-all.txtar")
	first, _ := compile(t, files, in)
	in.Variables = first.BuildVariables()
	if len(in.Variables) == 0 {
		t.Fatal("the project reads no variable, want some")
	}
	second, _ := compile(t, files, in)
	_, firstDigest, _ := project.Encode(first, project.WrittenFormat)
	if _, secondDigest, err := project.Encode(second, project.WrittenFormat); err != nil || firstDigest != secondDigest {
		t.Errorf("second digest = %s, %v, want %s", secondDigest, err, firstDigest)
	}
	if first.Env = nil; first.BuildVariables() != nil {
		t.Errorf("BuildVariables() without Env = %v, want nil", first.BuildVariables())
	}
}

func TestDecodeRefusesInvalidArtifacts(t *testing.T) {
	for name, data := range map[string]string{
		"a newer format":       `{"format": 3}`,
		"an older format":      `{"format": 0}`,
		"no format":            `{}`,
		"not JSON":             `{"format": 1`,
		"a wrong type":         `{"format": 1, "routes": "secret"}`,
		"no envelope":          `{"format": 2, "deflated": "!secret"}`,
		"an empty envelope":    `{"format": 2}`,
		"a truncated envelope": `{"format": 2, "deflated": "q1bKTM"}`,
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := project.Decode([]byte(data)); err == nil || strings.Contains(err.Error(), "secret") {
				t.Errorf("Decode() error = %v, want one without the secret", err)
			}
		})
	}
}

func TestVerifyRunsOnlyForValidArtifacts(t *testing.T) {
	calls := 0
	verify := func(context.Context, *project.Artifact) []project.Problem {
		calls++
		return []project.Problem{{File: "config/routes.oas.json", Path: "/paths", Message: "second-secret-value is no good."}}
	}
	for name, want := range map[string]int{"good-all": 1, "routes": 0} {
		calls = 0
		files, in := load(t, "testdata/projects/"+name+".txtar")
		in.Verify = verify
		artifact, result := compile(t, files, in)
		if calls != want || artifact != nil {
			t.Errorf("%s: Verify calls = %d, artifact %v, want %d and no artifact", name, calls, artifact, want)
		}
		if want == 1 && (len(result.Errors) != 1 || result.Errors[0].Message != "$env(LIMIT_KEY) is no good.") {
			t.Errorf("%s: errors = %+v, want only \"$env(LIMIT_KEY) is no good.\"", name, result.Errors)
		}
	}
}

// TestCompileEndsWithItsContextInVerify checks that Compile returns no artifact if its context ends during Verify, which has
// left out a part of its work then.
func TestCompileEndsWithItsContextInVerify(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	files, in := load(t, "testdata/projects/good-all.txtar")
	in.Verify = func(got context.Context, _ *project.Artifact) []project.Problem {
		cancel()
		<-got.Done()
		return nil
	}
	artifact, _, err := project.NewCompiler().Compile(ctx, files, in)
	if artifact != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("Compile(canceled in Verify) = %v, %v, want no artifact and %v", artifact, err, context.Canceled)
	}
}

// TestProblemsAreBounded checks that the result for a project with thousands of mistakes is at most 100 KB,
// and that the last problem has the number of further problems.
func TestProblemsAreBounded(t *testing.T) {
	var paths []string
	for i := range 5_000 {
		paths = append(paths, fmt.Sprintf(`"/%s%d": {"get": {"responses": {}}}`, strings.Repeat("x", 600), i))
	}
	files := project.Files{
		"config/a.oas.json": []byte(`{"openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "paths": {` +
			strings.Join(paths, ",") + `}}`),
	}
	_, result := compile(t, files, project.Input{Catalog: catalog{}})
	data, err := json.Marshal(result)
	if err != nil {
		t.Fatal(err)
	}
	if len(data) > 100<<10 {
		t.Errorf("result = %d bytes, want at most %d", len(data), 100<<10)
	}
	if last := result.Errors[len(result.Errors)-1]; !strings.HasPrefix(last.Message, "There are ") {
		t.Errorf("last problem = %+v, want the number of further problems", last)
	}
}

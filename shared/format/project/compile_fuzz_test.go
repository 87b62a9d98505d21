package project_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/format/project"
)

// FuzzCompile looks for files that make the compiler panic, contradict itself or repeat a variable's value.
func FuzzCompile(f *testing.F) {
	paths, err := filepath.Glob("testdata/projects/*.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range paths {
		files, _ := load(f, path)
		f.Add(files["config/routes.oas.json"], files["config/policies.json"], files["gatewright.jsonc"])
	}
	compiler := project.NewCompiler()
	const secret = "the value of a variable"
	f.Fuzz(func(t *testing.T, routes, policies, settings []byte) {
		files := project.Files{"config/routes.oas.json": routes}
		if policies != nil {
			files["config/policies.json"] = policies
		}
		if settings != nil {
			files["gatewright.jsonc"] = settings
		}
		variables := map[string]string{"FIRST": secret, "UPSTREAM": "https://" + strings.ReplaceAll(secret, " ", "-")}
		artifact, result, err := compiler.Compile(t.Context(), files, project.Input{Catalog: catalog{}, Variables: variables})
		if err != nil {
			t.Fatalf("Compile() error = %v, want none", err)
		}
		if (artifact == nil) != (len(result.Errors) > 0) {
			t.Fatalf("Compile() = artifact %v, %d errors, want one of them", artifact, len(result.Errors))
		}
		resultJSON, err := json.Marshal(result)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(resultJSON), secret) {
			t.Fatalf("result = %s, want no value of a variable", resultJSON)
		}
		if artifact == nil {
			return
		}
		data, digest, err := project.Encode(artifact, project.WrittenFormat)
		if err != nil {
			t.Fatal(err)
		}
		decoded, err := project.Decode(data)
		if err != nil {
			t.Fatal(err)
		}
		if _, digestAgain, err := project.Encode(decoded, project.WrittenFormat); err != nil || digestAgain != digest {
			t.Fatalf("digest of the decoded artifact = %s, %v, want %s", digestAgain, err, digest)
		}
	})
}

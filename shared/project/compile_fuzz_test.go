package project_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/project"
)

// FuzzCompile looks for files that make the compiler panic, contradict itself
// or repeat a variable's value.
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
		artifact, result, err := compiler.Compile(t.Context(), files, project.Input{Catalogue: catalogue{}, Variables: variables})
		if err != nil {
			t.Fatal(err)
		}
		if (artifact == nil) != (len(result.Errors) > 0) {
			t.Fatalf("artifact %v, %d errors", artifact, len(result.Errors))
		}
		told, err := json.Marshal(result)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(told), secret) {
			t.Fatalf("a variable's value is told: %s", told)
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
		if _, again, err := project.Encode(decoded, project.WrittenFormat); err != nil || again != digest {
			t.Fatalf("digest %s and %s (%v)", digest, again, err)
		}
	})
}

package project_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/project"
)

// TestOneUnreadableFileCausesOneError: each route that names a policy was at fault
// too, where policies.json had one comma too many.
func TestOneUnreadableFileCausesOneError(t *testing.T) {
	whole := func() project.Files {
		files := guarded(t, projectOf(t, `{"version": 1, "allowDuplicateRoutes": true}`, "/a/{x}", "/a/{y}", "/b"), "/a/{x}", "/b")
		files["config/routes.oas.json"] = []byte(strings.ReplaceAll(string(files["config/routes.oas.json"]), `"policies":`, `"corsPolicy":"shop","policies":`))
		files["config/policies.json"] = []byte(strings.Replace(string(files["config/policies.json"]), `{"policies"`, `{"corsPolicies":[{"name":"shop","allowedOrigins":"*"}],"policies"`, 1))
		return files
	}
	compile := func(files project.Files) project.Result {
		_, result, err := project.NewCompiler().Compile(t.Context(), files, project.Input{Catalogue: catalogue{}})
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	if result := compile(whole()); len(result.Errors) > 0 {
		t.Fatalf("the whole project has errors: %v", result.Errors)
	}
	for name, content := range map[string]string{
		"config/policies.json":   `{"policies": [,]}`,
		"gatewright.jsonc":       `{"version": 1,, "allowDuplicateRoutes": true}`,
		"config/routes.oas.json": `{"openapi": `,
	} {
		files := whole()
		files[name] = []byte(content)
		if got := compile(files).Errors; len(got) != 1 || got[0].File != name {
			t.Errorf("%s: %v", name, got)
		}
	}
	for content, wrong := range map[string]string{
		`{"version": 1, "allowDuplicateRoutes": true, "projectType": 3}`: "/projectType",
		`{"version": 1, "allowDuplicateRoutes": "yes"}`:                  "/allowDuplicateRoutes",
	} {
		files := whole()
		files["gatewright.jsonc"] = []byte(content)
		if got := compile(files).Errors; len(got) != 1 || got[0].Path != wrong {
			t.Errorf("%s: %v", content, got)
		}
	}
}

// TestFilesThatAreNotReadAreToldOf: a project in YAML was built without its policies.
func TestFilesThatAreNotReadAreToldOf(t *testing.T) {
	for name, told := range map[string]bool{
		"config/policies.yaml": true, "config/policies.yml": true, "config/shop.oas.yaml": true, "config/shop.oas.yml": true,
		"gatewright.json": true, "gatewright.yaml": true, "config/shop.oas.jsonc": true, "config/policies.jsonc": true,
		"config/notes.yaml": false, "docs/policies.yaml": false, "docker-compose.yaml": false, "config/shop.yaml": false,
	} {
		files, problems, err := project.Unpack(t.Context(), bytes.NewReader(archiveOf(t, file(routes, string(projectOf(t, "", "/a")[routes])), file(name, "policies: []"))), project.DefaultLimits())
		if err != nil || len(problems) > 0 {
			t.Fatalf("%s: %v %v", name, problems, err)
		}
		_, result, err := project.NewCompiler().Compile(t.Context(), files, project.Input{Catalogue: catalogue{}})
		if err != nil || len(result.Errors) > 0 {
			t.Fatalf("%s: %v %v", name, result.Errors, err)
		}
		if got := len(result.Warnings) == 1 && result.Warnings[0].File == name; got != told {
			t.Errorf("%s: %v", name, result.Warnings)
		}
	}
}

func TestALaterDateThanIsKnownIsToldOf(t *testing.T) {
	for date, told := range map[string]bool{"2025-02-06": false, "2026-11-22": false, "2026-11-23": true, "9999-12-31": true} {
		_, result, err := project.NewCompiler().Compile(t.Context(), projectOf(t, `{"version": 1, "compatibilityDate": "`+date+`"}`, "/a"), project.Input{Catalogue: catalogue{}})
		if err != nil || len(result.Errors) > 0 {
			t.Fatalf("%s: %v %v", date, result.Errors, err)
		}
		if got := len(result.Warnings) == 1 && result.Warnings[0].Path == "/compatibilityDate"; got != told {
			t.Errorf("%s: %v", date, result.Warnings)
		}
	}
}

// TestProblemsNameTheVariableWithoutWhichTheyAre: who does not know an environment's variables tells them apart.
func TestProblemsNameTheVariableWithoutWhichTheyAre(t *testing.T) {
	files := projectOf(t, `{"version": 1}`, "/a")
	files[routes] = bytes.Replace(files[routes], []byte(`"baseUrl":"`), []byte(`"baseUrl":"https://${env.HOST}/`), 1)
	for variables, want := range map[string][]string{"OTHER": {"HOST"}, "HOST": nil} {
		_, result := compile(t, files, project.Input{Catalogue: catalogue{}, Variables: map[string]string{variables: "example.com"}})
		var got []string
		result.Errors = append(result.Errors, result.Warnings...)
		for _, p := range result.Errors {
			got = append(got, p.Unset)
		}
		if !slices.Equal(got, want) {
			t.Errorf("with %q: %v, want %v", variables, result.Errors, want)
		}
	}
}

package project_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/format/project"
)

// TestOneUnreadableFileCausesOneError checks files that cannot be read. Routes
// that refer to the content of such a file must not be reported as well.
func TestOneUnreadableFileCausesOneError(t *testing.T) {
	complete := func() project.Files {
		files := withPolicies(t, projectOf(t, `{"version": 1, "allowDuplicateRoutes": true}`, "/a/{x}", "/a/{y}", "/b"),
			"/a/{x}", "/b")
		files["config/routes.oas.json"] = []byte(strings.ReplaceAll(string(files["config/routes.oas.json"]), `"policies":`,
			`"corsPolicy":"shop","policies":`))
		files["config/policies.json"] = []byte(strings.Replace(string(files["config/policies.json"]), `{"policies"`,
			`{"corsPolicies":[{"name":"shop","allowedOrigins":"*"}],"policies"`, 1))
		return files
	}
	compile := func(files project.Files) project.Result {
		_, result, err := project.NewCompiler().Compile(t.Context(), files, project.Input{Catalog: catalog{}})
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	if result := compile(complete()); len(result.Errors) > 0 {
		t.Fatalf("errors of the complete project = %v, want none", result.Errors)
	}
	for name, content := range map[string]string{
		"config/policies.json":   `{"policies": [,]}`,
		"gatewright.jsonc":       `{"version": 1,, "allowDuplicateRoutes": true}`,
		"config/routes.oas.json": `{"openapi": `,
	} {
		files := complete()
		files[name] = []byte(content)
		if got := compile(files).Errors; len(got) != 1 || got[0].File != name {
			t.Errorf("errors = %v, want one in %s", got, name)
		}
	}
	for content, invalid := range map[string]string{
		`{"version": 1, "allowDuplicateRoutes": true, "projectType": 3}`: "/projectType",
		`{"version": 1, "allowDuplicateRoutes": "yes"}`:                  "/allowDuplicateRoutes",
	} {
		files := complete()
		files["gatewright.jsonc"] = []byte(content)
		if got := compile(files).Errors; len(got) != 1 || got[0].Path != invalid {
			t.Errorf("errors of gatewright.jsonc %s = %v, want one at %s", content, got, invalid)
		}
	}
}

// TestMisnamedFilesAreReported checks that the build warns about ignored files:
// otherwise, a project with policies in YAML would be built without its policies.
func TestMisnamedFilesAreReported(t *testing.T) {
	for name, warned := range map[string]bool{
		"config/policies.yaml": true, "config/policies.yml": true,
		"gatewright.json": true, "gatewright.yaml": true, "config/shop.oas.jsonc": true, "config/policies.jsonc": true,
		"config/notes.yaml": false, "docs/policies.yaml": false, "docker-compose.yaml": false, "config/shop.yaml": false,
	} {
		files, problems, err := project.Unpack(t.Context(),
			bytes.NewReader(newArchive(t, file(routes, string(projectOf(t, "", "/a")[routes])), file(name, "policies: []"))),
			project.DefaultLimits())
		if err != nil || len(problems) > 0 {
			t.Fatalf("%s: Unpack() problems = %v, error %v, want none", name, problems, err)
		}
		_, result, err := project.NewCompiler().Compile(t.Context(), files, project.Input{Catalog: catalog{}})
		if err != nil || len(result.Errors) > 0 {
			t.Fatalf("%s: Compile() errors = %v, error %v, want none", name, result.Errors, err)
		}
		if got := len(result.Warnings) == 1 && result.Warnings[0].File == name; got != warned {
			t.Errorf("%s: warnings = %v, want one for the file: %v", name, result.Warnings, warned)
		}
	}
}

// TestUnreadDescriptionsAreReported checks that the build warns about OpenAPI descriptions in config that it does not read.
func TestUnreadDescriptionsAreReported(t *testing.T) {
	for _, tt := range []struct{ name, content, want string }{
		{"config/shop.yaml", "# Shop\nopenapi: 3.1.0\ninfo: {}\n", "config/shop.oas.yaml"},
		{"config/shop.yml", "info: {}\n\"openapi\": '3.0.3'\n", "config/shop.oas.yml"},
		{"config/v2/shop.oas.json", `{"info": {}, "swagger": "2.0"}`, "config/shop.oas.json"},
		{"config/shop.json", "{\n  \"openapi\" : \"3.2.0\"}", "config/shop.oas.json"},
		{"config/referred.json", `{"openapi": "3.1.0", "components": {"schemas": {"S": {}}}}`, ""},
		{"config/version.json", `{"openapi": true}`, ""},
		{"config/notes.yaml", "about: openapi 3.1.0\n", ""},
		{"docs/shop.yaml", "openapi: 3.1.0\n", ""},
	} {
		files := documentFiles(`"paths": {}, "components": {"schemas": {` +
			`"A": {"$ref": "referred.json#/components/schemas/S"}}}`)
		if tt.name != "config/referred.json" {
			files = documentFiles(`"paths": {}`)
		}
		files[tt.name] = []byte(tt.content)
		_, result := compile(t, files, project.Input{Catalog: catalog{}})
		var got []string
		for _, p := range result.Warnings {
			if p.File == tt.name {
				got = append(got, p.Message)
			}
		}
		if (tt.want != "") != (len(got) == 1) || tt.want != "" && !strings.Contains(got[0], "Rename it to "+tt.want+",") {
			t.Errorf("warnings about %s = %q, want one with %q, or none if this is empty", tt.name, got, tt.want)
		}
	}
}

func TestFutureCompatibilityDateIsReported(t *testing.T) {
	for date, warned := range map[string]bool{
		"2025-02-06": false, "2026-11-22": false, "2026-11-23": true,
		"9999-12-31": true,
	} {
		_, result, err := project.NewCompiler().Compile(t.Context(), projectOf(t, `{"version": 1, "compatibilityDate": "`+
			date+`"}`, "/a"), project.Input{Catalog: catalog{}})
		if err != nil || len(result.Errors) > 0 {
			t.Fatalf("%s: Compile() errors = %v, error %v, want none", date, result.Errors, err)
		}
		if got := len(result.Warnings) == 1 && result.Warnings[0].Path == "/compatibilityDate"; got != warned {
			t.Errorf("%s: warnings = %v, want one at /compatibilityDate: %v", date, result.Warnings, warned)
		}
	}
}

// TestProblemsNameUnsetVariable checks that problems that exist only because a variable is unset name
// the variable. Callers that do not know an environment's variables can then distinguish these problems.
func TestProblemsNameUnsetVariable(t *testing.T) {
	files := projectOf(t, `{"version": 1}`, "/a")
	files[routes] = bytes.Replace(files[routes], []byte(`"baseUrl":"`), []byte(`"baseUrl":"https://${env.HOST}/`), 1)
	for variable, want := range map[string][]string{"OTHER": {"HOST"}, "HOST": nil} {
		_, result := compile(t, files, project.Input{
			Catalog:   catalog{},
			Variables: map[string]string{variable: "example.com"},
		})
		var got []string
		result.Errors = append(result.Errors, result.Warnings...)
		for _, p := range result.Errors {
			got = append(got, p.Unset)
		}
		if !slices.Equal(got, want) {
			t.Errorf("unset variables of the problems with only %s set = %q, want %q: %+v", variable, got, want, result.Errors)
		}
	}
}

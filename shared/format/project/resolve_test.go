package project_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/gatewright/gatewright/shared/format/project"
)

// TestReferencesAreUnescapedOnce checks references to names with characters that need escapes: first the percent-encoding
// of a URL is removed, then the escapes of a JSON pointer, and each of them once.
func TestReferencesAreUnescapedOnce(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ reference, name string }{
		{"a", "a"},
		{"a%20b", "a b"},
		{"a~1b", "a/b"},
		{"a%2Fb", "a/b"},
		{"a%7E1b", "a/b"},
		{"a~01b", "a~1b"},
		{"a~0b", "a~b"},
		{"100%25", "100%"},
		{"100%2525", "100%25"},
		{"a%2520b", "a%20b"},
		{"%C3%A9", "é"},
	} {
		for name, isRight := range map[string]bool{tt.name: true, tt.name + "x": false} {
			encoded, _ := json.Marshal(name)
			_, result := described(t, "3.1.0", fmt.Sprintf(`"paths": {}, "components": {"schemas": {"Root": {
				"properties": {"p": {"$ref": "#/components/schemas/Root/$defs/%s"}}, "$defs": {%s: {}}}}}`, tt.reference, encoded))
			at := "/components/schemas/Root/properties/p/$ref"
			if isRight {
				at = ""
			}
			wantProblem(t, fmt.Sprintf("Compile(%s with %q) errors", tt.reference, name), result.Errors, at, "leads nowhere")
		}
	}
}

// TestReferencesToFilesAreUnescaped checks references to files with characters that need escapes, and references that are
// relative to the file that has them. None of them leads out of the project's folder.
func TestReferencesToFilesAreUnescaped(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ reference, file, message string }{
		{"pet.json", "config/pet.json", ""},
		{"./my%20pet.json", "config/my pet.json", ""},
		{"sub/../pet.json", "config/pet.json", ""},
		{"../pet.json", "pet.json", ""},
		{"..%2Fpet.json", "pet.json", ""},
		{"../../pet.json", "pet.json", "leads out of the project's folder"},
		{"%2e%2e/%2e%2e/pet.json", "pet.json", "leads out of the project's folder"},
		{"sub/../../../pet.json", "pet.json", "leads out of the project's folder"},
		{"../..", "pet.json", "leads out of the project's folder"},
		{"/config/pet.json", "config/pet.json", "not a relative path"},
		{"%2Fconfig%2Fpet.json", "config/pet.json", "not a relative path"},
		{"sub%5Cpet.json", "config/pet.json", "not a relative path"},
		{"my%2520pet.json", "config/my pet.json", "has no file"},
	} {
		files := documentFiles(`"paths": {}, "components": {"schemas": {"S": {"properties": {"p": {"$ref": "` + tt.reference +
			`"}}}}}`)
		files[tt.file] = []byte(`{"type": "object"}`)
		_, result := compile(t, files, project.Input{Catalog: lenient{}})
		at := "/components/schemas/S/properties/p/$ref"
		if tt.message == "" {
			at = ""
		}
		wantProblem(t, "Compile("+tt.reference+") errors", result.Errors, at, tt.message)
	}
}

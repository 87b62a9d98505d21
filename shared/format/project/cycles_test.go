package project_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/format/project"
)

// TestEndlessSchemasAreReported checks schemas that apply themselves to the same value. They are reported at the schema,
// and not if a value ends each check because the schema applies to a part of the value.
func TestEndlessSchemasAreReported(t *testing.T) {
	t.Parallel()
	const a, b = `{"$ref": "#/components/schemas/A"}`, `{"$ref": "#/components/schemas/B"}`
	const cycle = "/components/schemas/A → /components/schemas/B → /components/schemas/A"
	long := map[string]string{"A": `{"$ref": "#/components/schemas/C0"}`}
	for i := range 20 {
		long[fmt.Sprint("C", i)] = fmt.Sprintf(`{"$ref": "#/components/schemas/C%d"}`, (i+1)%20)
	}
	for name, test := range map[string]struct {
		schemas     map[string]string
		at, message string
	}{
		"itself":               {map[string]string{"A": a}, "A", "/components/schemas/A → /components/schemas/A"},
		"references":           {map[string]string{"A": b, "B": a}, "A", cycle},
		"allOf":                {map[string]string{"A": `{"allOf": [{}, ` + b + `]}`, "B": a}, "A", cycle},
		"not":                  {map[string]string{"A": `{"not": ` + b + `}`, "B": a}, "A", cycle},
		"if":                   {map[string]string{"A": `{"if": {}, "then": ` + b + `}`, "B": a}, "A", cycle},
		"dependentSchemas":     {map[string]string{"A": `{"dependentSchemas": {"x": ` + b + `}}`, "B": a}, "A", cycle},
		"a cycle behind a ref": {map[string]string{"A": b, "B": `{"anyOf": [` + b + `]}`}, "B", "B → /components/schemas/B"},
		"a long cycle":         {long, "C0", "/components/schemas/C4 → … → /components/schemas/C0"},
		"properties":           {map[string]string{"A": `{"properties": {"x": ` + b + `}}`, "B": a}, "", ""},
		"items":                {map[string]string{"A": `{"items": ` + a + `}`}, "", ""},
		"the same part twice":  {map[string]string{"A": `{"allOf": [` + b + `, ` + b + `]}`, "B": `{}`}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var schemas []string
			for name, schema := range test.schemas {
				schemas = append(schemas, fmt.Sprintf("%q: %s", name, schema))
			}
			const body = `"requestBody": {"content": {"application/json": {"schema": ` + a + `}}},`
			operation := strings.Replace(forwarded("save", body), `"handler"`, `"policies": {"inbound": ["v"]}, "handler"`, 1)
			_, result := compile(t, project.Files{
				"config/routes.oas.json": []byte(`{"openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "paths": {"/a": {` +
					`"post": ` + operation + `}}, "components": {"schemas": {` + strings.Join(schemas, ",") + `}}}`),
				"config/policies.json": []byte(`{"policies": [{"name": "v", "policyType": "v-inbound", "handler": {` +
					`"export": "V", "module": "$import(@gatewright/runtime)"}}]}`),
			}, project.Input{Catalog: validating{}})
			at := test.at
			if at != "" {
				at = "/components/schemas/" + at
			}
			wantProblem(t, "Compile() errors", result.Errors, at, test.message)
		})
	}
}

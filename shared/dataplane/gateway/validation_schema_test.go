package gateway_test

import (
	"fmt"
	"testing"

	"github.com/gatewright/gatewright/shared/format/openapi"
	"github.com/gatewright/gatewright/shared/format/project"
	"github.com/gatewright/gatewright/shared/format/schema"
)

// schemaCase has the schema of a body, and the number of violations of each of several bodies.
type schemaCase struct {
	version, components, schema string
	bodies                      map[string]int
}

// schemaCases returns schemas that have another meaning in OpenAPI than in JSON Schema.
func schemaCases() map[string]schemaCase {
	const animals = `"Animal": {"type": "object", "required": ["kind"], "properties": {"kind": {"type": "string"},
			"friend": {"$ref": "#/components/schemas/Animal"}},
			"discriminator": {"propertyName": "kind", "mapping": {"dog": "Dog", "puppy": "#/components/schemas/Puppy"}}},
		"Dog": {"allOf": [{"$ref": "#/components/schemas/Animal"}, {"required": ["bark"],
			"properties": {"bark": {"type": "boolean"}, "rival": {"$ref": "#/components/schemas/Animal"}}}],
			"discriminator": {"propertyName": "kind", "mapping": {"puppy": "Puppy"}}},
		"Puppy": {"allOf": [{"$ref": "#/components/schemas/Dog"}, {"required": ["age"]}]}`
	return map[string]schemaCase{
		"a discriminator selects the subtype": {
			"3.0.3", animals, `{"$ref": "#/components/schemas/Animal"}`, map[string]int{
				`{"kind": "cat"}`: 0, `{"kind": "dog", "bark": true}`: 0, `{"kind": "dog"}`: 1, `{}`: 1,
				`{"kind": "dog", "bark": 1}`: 1, `{"kind": "puppy", "bark": true, "age": 1}`: 0,
				`{"kind": "puppy", "bark": true}`: 1, `{"kind": "cat", "friend": {"kind": "dog"}}`: 1,
				`{"kind": "dog", "bark": true, "friend": {"kind": "puppy", "age": 1}}`: 1,
				`{"kind": "dog", "bark": true, "rival": {"kind": "dog"}}`:              1,
			},
		},
		"a discriminator selects an alternative of oneOf": {
			"3.1.0", `"Boat": {"oneOf": [{"$ref": "#/components/schemas/Sail"}, {"$ref": "#/components/schemas/Motor"}],
				"discriminator": {"propertyName": "kind", "mapping": {"sail": "Sail"}}},
				"Sail": {"type": "object", "required": ["kind"], "properties": {"masts": {"type": "integer"}},
				"not": {"required": ["power"]}},
				"Motor": {"type": "object", "required": ["kind", "power"]}`,
			`{"$ref": "#/components/schemas/Boat"}`,
			map[string]int{
				`{"kind": "sail", "masts": 1}`: 0, `{"kind": "Motor", "power": 1}`: 0, `{"kind": "sail", "power": 1}`: 1,
				`{"kind": "Motor", "masts": 1}`: 1,
			},
		},
		"keywords with invalid values have no effect": {
			"3.1.0", ``, `{"type": "object", "required": "n", "additionalProperties": "no", "properties": {"n": {
				"type": "objekt", "items": [{}], "minLength": "two", "maxLength": 2, "exclusiveMinimum": true,
				"$ref": 5, "if": 3}}}`,
			map[string]int{`{}`: 0, `{"n": "ab", "m": 1}`: 0, `{"n": "abc"}`: 1},
		},
		"a subtype is checked with its base type": {
			"3.1.0", animals, `{"$ref": "#/components/schemas/Dog"}`, map[string]int{
				`{"kind": "dog", "bark": true}`: 0, `{"bark": true}`: 1, `{"kind": "puppy", "bark": true}`: 1,
			},
		},
		"readOnly is not required, also by another part of allOf": {
			"3.0.3", `"Base": {"type": "object", "required": ["id"], "properties": {"id": {"readOnly": true}}},
				"Strict": {"type": "object", "required": ["id", "name"]}`,
			`{"allOf": [{"$ref": "#/components/schemas/Base"}, {"$ref": "#/components/schemas/Strict"}]}`,
			map[string]int{`{"name": 1}`: 0, `{}`: 1, `{"name": 1, "id": 1}`: 1},
		},
		"readOnly is not required, also by a part of another part": {
			"3.0.3", `"Base": {"type": "object", "properties": {"id": {"readOnly": true}}},
				"Strict": {"allOf": [{"required": ["id", "name"]}]}`,
			`{"properties": {"a": {"allOf": [{"$ref": "#/components/schemas/Base"}, {"$ref": "#/components/schemas/Strict"}]},
				"b": {"$ref": "#/components/schemas/Strict"}}}`,
			map[string]int{`{"a": {"name": 1}}`: 0, `{"a": {}}`: 1, `{"b": {"name": 1}}`: 1, `{"b": {"id": 1, "name": 1}}`: 0},
		},
		"readOnly counts in its own schema only": {
			"3.0.3", `"Base": {"type": "object", "properties": {"id": {"readOnly": true}}}`,
			`{"properties": {"a": {"$ref": "#/components/schemas/Base"}, "b": {"required": ["id"]}}}`,
			map[string]int{`{"a": {}, "b": {"id": 1}}`: 0, `{"b": {}}`: 1, `{"a": {"id": 1}}`: 1},
		},
		"nullable": {
			"3.0.3", `"N": {"type": "string", "nullable": true, "enum": ["a"]}, "S": {"type": "string"}`,
			`{"properties": {"n": {"$ref": "#/components/schemas/N"}, "s": {"nullable": true,
				"allOf": [{"$ref": "#/components/schemas/S"}]}, "t": {"type": "string"}}}`,
			map[string]int{`{"n": null, "s": null}`: 0, `{"n": "b"}`: 1, `{"t": null}`: 1, `{"s": 1}`: 1},
		},
		"exclusive bounds are booleans in 3.0": {
			"3.0.3", ``, `{"type": "number", "minimum": 0, "exclusiveMinimum": true}`,
			map[string]int{`0`: 1, `0.1`: 0},
		},
		"members next to a reference count from 3.1 on": {
			"3.1.0", `"S": {"type": "string"}`, `{"$ref": "#/components/schemas/S", "minLength": 2}`,
			map[string]int{`"a"`: 1, `"ab"`: 0, `1`: 1},
		},
		"members next to a reference do not count in 3.0": {
			"3.0.3", `"S": {"type": "string"}`, `{"$ref": "#/components/schemas/S", "minLength": 2}`,
			map[string]int{`"a"`: 0, `1`: 1},
		},
	}
}

// TestSchemasOfOpenAPI checks bodies with schemas that have another meaning in OpenAPI than in JSON Schema.
func TestSchemasOfOpenAPI(t *testing.T) {
	t.Parallel()
	for name, test := range schemaCases() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := built(t, project.Files{
				"config/routes.oas.json": []byte(fmt.Sprintf(`{"openapi": %q, "info": {"title": "t", "version": "1"},
					"components": {"schemas": {%s}}, "paths": {"/a": {"post": {
					"requestBody": {"content": {"application/json": {"schema": %s}}},
					"responses": {"200": {"description": ""}}, "x-gateway-route": {"policies": {"inbound": ["validate"]},
					"handler": {"export": "urlForwardHandler", "module": "$import(@gatewright/runtime)",
					"options": {"baseUrl": "https://up.example.com"}}}}}}}`, test.version, test.components, test.schema)),
				"config/policies.json": []byte(`{"policies": [{"name": "validate", "policyType": "request-validation-inbound",
					"handler": {"export": "Validate", "module": "$import(@gatewright/runtime)"}}]}`),
			})
			request, err := openapi.CompileRequest(schema.NewDefinitions(a.Definitions), a.Routes[0].Request)
			if err != nil {
				t.Fatal(err)
			}
			for body, want := range test.bodies {
				var report openapi.Report
				request.CheckBody(&report, "application/json", []byte(body))
				if len(report.Violations) != want {
					t.Errorf("CheckBody(%s): violations = %v, want %d", body, report.Violations, want)
				}
			}
		})
	}
}

package project_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/format/project"
)

// offered compiles a project with the operation o0 at /a, and returns the operation and the warnings. components are the
// schemas of the document.
func offered(t *testing.T, version, method, operation, components string) (*project.MCPOperation, []project.Problem) {
	t.Helper()
	files := serverFiles(1, `"/a": {"`+method+`": {"operationId": "o0", `+operation+`, "x-gateway-route": {
		"handler": {"export": "urlForwardHandler", "module": "$import(@gatewright/runtime)", "options": {}}}}}`)
	for name, data := range files {
		text := strings.Replace(string(data), `"operations": [`, `"includeOutputSchema": true, "operations": [`, 1)
		text = strings.Replace(text, `"openapi": "3.0.3"`, `"openapi": "`+version+`"`, 1)
		text = strings.TrimSuffix(strings.TrimSpace(text), "}") + `, "components": {"schemas": {` + components + `}}}`
		files[name] = []byte(text)
	}
	a, result := compile(t, files, project.Input{Catalog: lenient{}})
	if len(result.Errors) > 0 {
		t.Fatalf("Compile() errors = %+v, want none", result.Errors)
	}
	i := slices.IndexFunc(a.Routes, func(r project.Route) bool { return r.OperationID == "o0" })
	return a.Routes[i].MCPOperation, result.Warnings
}

// petSchemas are a base type with two subtypes, in the order of the mapping cat, dog.
const petSchemas = `
	"Pet": {"type": "object", "title": "Pet", "description": "A pet.", "required": ["kind"],
		"properties": {"kind": {"type": "string", "description": "Its kind."}, "name": {"type": "string"},
			"mother": {"$ref": "#/components/schemas/Pet"}},
		"discriminator": {"propertyName": "kind", "mapping": {
			"cat": "#/components/schemas/Cat", "dog": "Dog", "puppy": "Dog"}}},
	"Cat": {"allOf": [{"$ref": "#/components/schemas/Pet"}, {"properties": {"lives": {"type": "integer"}}}]},
	"Dog": {"allOf": [{"$ref": "#/components/schemas/Pet"},
		{"properties": {"bark": {"type": "boolean"}}, "required": ["bark"]}]}`

// TestResponsesToHeadHaveNoSchema checks that the tool of a HEAD operation has no output schema: a response has no body.
func TestResponsesToHeadHaveNoSchema(t *testing.T) {
	for method, want := range map[string]bool{"get": true, "head": false} {
		operation, _ := offered(t, "3.1.0", method, `"responses": {"200": {"description": "d", "content": {
			"application/json": {"schema": {"type": "object", "properties": {"a": {"type": "string"}}}}}}}`, `"Unused": {}`)
		if got := operation != nil && operation.Output != nil; got != want {
			t.Errorf("%s: the tool has an output schema: %t, want %t", method, got, want)
		}
	}
}

// TestOutputSchemaIsThatOfAllSuccesses checks which statuses the output schema of a tool covers: all with a first digit of 2,
// and ranges. If their schemas differ, there is no output schema.
func TestOutputSchemaIsThatOfAllSuccesses(t *testing.T) {
	for statuses, want := range map[string]bool{
		"200": true, "226": true, "2XX": true, "default": false, "404": false, "200 404": true, "200 2XX": true,
		"200 226!": false, "200 2XX!": false, "200 500!": true,
	} {
		var responses []string
		for status := range strings.FieldsSeq(statuses) {
			name, differs := strings.CutSuffix(status, "!")
			responses = append(responses, fmt.Sprintf(`%q: {"description": "d", "content": {"application/json": {"schema": {
				"type": "object", "properties": {"p%t": {}}}}}}`, name, differs))
		}
		o, _ := offered(t, "3.1.0", "get", `"responses": {`+strings.Join(responses, ",")+`}`, `"Unused": {}`)
		if got := o.Output != nil; got != want {
			t.Errorf("responses %s: the tool has an output schema: %t, want %t", statuses, got, want)
		}
	}
}

// subtypeCase is a schema in a document of a version of OpenAPI with components. The schema of the tool's arguments must
// contain want.
type subtypeCase struct{ name, version, schema, components, want string }

func subtypeCases() []subtypeCase {
	const (
		recursive = `{"description":"The same again: a schema that is a part of itself.","type":"object"}`
		cat       = `{"properties":{"kind":{"description":"Its kind.","enum":["cat"],"type":"string"},` +
			`"lives":{"type":"integer"},"mother":` + recursive + `,"name":{"type":"string"}},"required":["kind"],` +
			`"type":"object"}`
		dog = `{"properties":{"bark":{"type":"boolean"},"kind":{"description":"Its kind.","enum":["dog","puppy"],` +
			`"type":"string"},"mother":` + recursive + `,"name":{"type":"string"}},"required":["bark","kind"],"type":"object"}`
		pet = `{"description":"A pet.","oneOf":[` + cat + `,` + dog + `],"title":"Pet"}`
	)
	return []subtypeCase{
		{"the body", "3.1.0", `{"$ref": "#/components/schemas/Pet"}`, petSchemas, `"body":` + pet},
		{"the body in OpenAPI 3.0", "3.0.3", `{"$ref": "#/components/schemas/Pet"}`, petSchemas, `"body":` + pet},
		{
			"a property", "3.1.0", `{"type": "object", "properties": {"pet": {"$ref": "#/components/schemas/Pet"}}}`, petSchemas,
			`"properties":{"pet":` + pet + `}`,
		},
		{
			"a part that is only described", "3.1.0", `{"type": "object", "properties": {"pet": {
				"description": "Mine.", "allOf": [{"$ref": "#/components/schemas/Pet"}]}}}`, petSchemas,
			`"pet":{"allOf":[` + pet + `],"description":"Mine."}`,
		},
		{
			"a subtype itself has no alternatives", "3.1.0", `{"$ref": "#/components/schemas/Dog"}`, petSchemas,
			`"properties":{"bark":{"type":"boolean"},"kind":{"description":"Its kind.","type":"string"},`,
		},
		{
			"subtypes that do not refer to the base type", "3.1.0", `{"$ref": "#/components/schemas/Base"}`,
			`"Base": {"type": "object", "properties": {"k": {}, "b": {"type": "string"}}, "discriminator":
				{"propertyName": "k", "mapping": {"x": "#/components/schemas/X"}}},
			"X": {"type": "object", "properties": {"x": {"type": "string"}}}`,
			`{"oneOf":[{"properties":{"b":{"type":"string"},"k":{"enum":["x"],"type":"string"},"x":{"type":"string"}},` +
				`"required":["k"],"type":"object"}]}`,
		},
		{
			"subtypes in another order than that of their names", "3.1.0", `{"$ref": "#/components/schemas/Base"}`,
			`"Base": {"type": "object", "discriminator": {"propertyName": "k", "mapping": {"z": "X", "a": "Y", "m": "X"}}},
			"X": {"type": "object"}, "Y": {"type": "object"}`,
			`{"oneOf":[{"properties":{"k":{"enum":["z","m"],"type":"string"}},"required":["k"],"type":"object"},` +
				`{"properties":{"k":{"enum":["a"],"type":"string"}},"required":["k"],"type":"object"}]}`,
		},
		{
			"an extension of the base type without a value in the mapping", "3.1.0", `{"$ref": "#/components/schemas/Base"}`,
			`"Base": {"type": "object", "properties": {"k": {"type": "string"}}, "discriminator":
				{"propertyName": "k", "mapping": {"x": "#/components/schemas/X"}}},
			"X": {"allOf": [{"$ref": "#/components/schemas/Base"}]}, "Y": {"allOf": [{"$ref": "#/components/schemas/X"}]}`,
			`{"additionalProperties":false,"properties":{"k":{"type":"string"}},"type":"object"}`,
		},
		{
			"a default mapping", "3.2.0", `{"$ref": "#/components/schemas/Base"}`,
			`"X": {"type": "object"}, "Base": {"type": "object", "properties": {"k": {"type": "string"}}, "discriminator":
				{"propertyName": "k", "mapping": {"x": "#/components/schemas/X"}, "defaultMapping": "X"}}`,
			`{"additionalProperties":false,"properties":{"k":{"type":"string"}},"type":"object"}`,
		},
		{
			"a subtype that is no plain object", "3.1.0", `{"$ref": "#/components/schemas/Base"}`,
			`"Base": {"type": "object", "discriminator": {"propertyName": "k", "mapping": {"x": "#/components/schemas/X"}}},
			"X": {"allOf": [{"$ref": "#/components/schemas/Base"}], "minProperties": 2}`,
			`{"oneOf":[{"allOf":[{"allOf":[{"type":"object"}],"minProperties":2},` +
				`{"properties":{"k":{"enum":["x"],"type":"string"}},"required":["k"],"type":"object"}]}]}`,
		},
		{
			"a base type that can be null", "3.0.3", `{"$ref": "#/components/schemas/Base"}`,
			`"Base": {"type": "object", "nullable": true, "discriminator": {"propertyName": "k", "mapping": {
				"x": "#/components/schemas/X"}}},
			"X": {"allOf": [{"$ref": "#/components/schemas/Base"}, {"properties": {"x": {}}}]}`, `},{"type":"null"}]}`,
		},
		{
			"a property that requests do not have", "3.1.0", `{"$ref": "#/components/schemas/Base"}`,
			`"Base": {"type": "object", "properties": {"k": {"readOnly": true}},
				"discriminator": {"propertyName": "k", "mapping": {"x": "#/components/schemas/X"}}},
			"X": {"allOf": [{"$ref": "#/components/schemas/Base"}, {"properties": {"x": {}}}]}`,
			`{"anyOf":[{"allOf":[{"properties":{},"type":"object"},{"properties":{"x":{}}}]}]}`,
		},
		{
			"alternatives that the schema lists itself", "3.1.0", `{"$ref": "#/components/schemas/Any"}`,
			`"Any": {"oneOf": [{"$ref": "#/components/schemas/X"}],
				"discriminator": {"propertyName": "k", "mapping": {"x": "#/components/schemas/X"}}},
			"X": {"type": "object", "properties": {"x": {}}}`, `"body":{"oneOf":[{"properties":{"x":{}},"type":"object"}]}`,
		},
	}
}

// TestSubtypesOfDiscriminatorAreOffered checks the schema of the arguments for each class of schema with a
// discriminator: the mapped schemas are alternatives in the order of the mapping.
func TestSubtypesOfDiscriminatorAreOffered(t *testing.T) {
	for _, tt := range subtypeCases() {
		t.Run(tt.name, func(t *testing.T) {
			o, _ := offered(t, tt.version, "post", `"requestBody": {"content": {"application/json": {"schema": `+tt.schema+
				`}}}, "responses": {"200": {"description": "d"}}`, tt.components)
			if !strings.Contains(string(o.Input), tt.want) {
				t.Errorf("input schema = %s, want it to contain %s", o.Input, tt.want)
			}
		})
	}
}

// TestBaseTypeStaysAnObject checks that the root of a response's schema and of a form stays an object, because clients
// accept no alternatives there, and that the schemas within it have their subtypes.
func TestBaseTypeStaysAnObject(t *testing.T) {
	o, _ := offered(t, "3.1.0", "post", `"requestBody": {"content": {"application/x-www-form-urlencoded": {"schema":
		{"$ref": "#/components/schemas/Pet"}}}}, "responses": {"200": {"description": "d", "content": {"application/json":
		{"schema": {"$ref": "#/components/schemas/Pet"}}}}}`, petSchemas)
	if len(o.Arguments) != 3 {
		t.Errorf("arguments of the form = %+v, want kind, mother and name", o.Arguments)
	}
	var output map[string]any
	if err := json.Unmarshal(o.Output, &output); err != nil {
		t.Fatalf("output schema = %s: %v, want an object", o.Output, err)
	}
	if output["type"] != "object" || output["oneOf"] != nil {
		t.Errorf("output schema = %s, want an object without alternatives", o.Output)
	}
	o, _ = offered(t, "3.1.0", "get", `"responses": {"200": {"description": "d", "content": {"application/json":
		{"schema": {"type": "object", "properties": {"pet": {"$ref": "#/components/schemas/Pet"}}}}}}}`, petSchemas)
	if !strings.Contains(string(o.Output), `"pet":{"description":"A pet.","oneOf":[`) {
		t.Errorf("output schema = %s, want the subtypes of pet", o.Output)
	}
}

// TestBaseTypeOfOtherSubtypesIsOffered checks schemas whose discriminator allows types that the mapping does not name:
// tools offer the base type, because the alternatives would refuse the values of these types.
func TestBaseTypeOfOtherSubtypesIsOffered(t *testing.T) {
	const (
		dog       = `"dog": "Dog"`
		extendPet = `{"allOf": [{"$ref": "#/components/schemas/Pet"}]}`
	)
	for _, tt := range []struct {
		name, discriminator, mapping, components string
		isOpen                                   bool
	}{
		{"all subtypes are mapped", "", dog, `"Other": {"type": "object"}`, false},
		{"a default type", `"defaultMapping": "Dog", `, dog, `"Other": {"type": "object"}`, true},
		{"a subtype that is not mapped", "", dog, `"Cat": ` + extendPet, true},
		{
			"a subtype that is mapped by its pointer", "", dog + `, "c": "#/components/schemas/Cat"`, `"Cat": ` + extendPet,
			false,
		},
		{
			"a subtype of a subtype", "", dog, `"Puppy": {"allOf": [{"type": "object"}, {"$ref": "#/components/schemas/Dog"}]}`,
			true,
		},
		{"a part of a part", "", dog, `"Cat": {"allOf": [` + extendPet + `]}`, true},
		{
			"a subtype of another name of the base type", "", dog, `"Animal": {"$ref": "#/components/schemas/Pet"},
				"Cat": {"allOf": [{"$ref": "#/components/schemas/Animal"}]}`, true,
		},
		{
			"a subtype that is mapped by another name", "", dog + `, "c": "Feline"`,
			`"Feline": {"$ref": "#/components/schemas/Cat"}, "Cat": ` + extendPet, false,
		},
		{"a property of the base type", "", dog, `"Owner": {"properties": {"pet": ` + extendPet + `}}`, false},
		{"an alternative", "", dog, `"Any": {"anyOf": [{"$ref": "#/components/schemas/Pet"}]}`, false},
		{
			"a subtype that extends itself", "", dog + `, "loop": "Loop"`, `"Loop": {"allOf": [
				{"$ref": "#/components/schemas/Pet"}, {"$ref": "#/components/schemas/Loop"}]}`, false,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o, _ := offered(t, "3.2.0", "post", `"requestBody": {"content": {"application/json": {"schema":
				{"$ref": "#/components/schemas/Pet"}}}}, "responses": {"200": {"description": "d"}}`,
				`"Pet": {"type": "object", "properties": {"kind": {"type": "string"}}, "required": ["kind"], "discriminator": {`+
					tt.discriminator+`"propertyName": "kind", "mapping": {`+tt.mapping+`}}}, "Dog": `+extendPet+`, `+tt.components)
			if isOpen := !strings.Contains(string(o.Input), `"oneOf"`); isOpen != tt.isOpen {
				t.Errorf("input schema = %s, without alternatives = %v, want %v", o.Input, isOpen, tt.isOpen)
			}
			if base := `"properties":{"kind":{"type":"string"}}`; tt.isOpen && !strings.Contains(string(o.Input), base) {
				t.Errorf("input schema = %s, want the base type: %s", o.Input, base)
			}
		})
	}
}

// TestSubtypesThatCannotBeOffered checks that a build warns about a mapping to a missing schema, and
// about subtypes that are too large together, and then offers the rest.
func TestSubtypesThatCannotBeOffered(t *testing.T) {
	const body = `"requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Base"}}}},
		"responses": {"200": {"description": "d"}}`
	base := func(mapping string) string {
		return `"Base": {"type": "object", "properties": {"k": {}}, "discriminator": {"propertyName": "k", "mapping": {` +
			mapping + `}}}`
	}
	large := fmt.Sprintf(`, "X": {"allOf": [{"$ref": "#/components/schemas/Base"}, {"description": %q}]}`,
		strings.Repeat("a", 40_000))
	large += strings.Replace(large, `"X"`, `"Y"`, 1)
	for _, tt := range []struct{ name, components, warning, want string }{
		{
			"a missing schema", base(`"x": "X", "y": "other.json#/Y"`) + `, "X": {"type": "object", "properties": {"x": {}}}`,
			"names a schema that this document does not have", `"enum":["x"]`,
		},
		{"no schema at all", base(`"y": "Y"`), "names a schema that this document does not have", `"properties":{"k":{}}`},
		{
			"a mapping of many schemas", base(list(20_000, `"n%d": "`+strings.Repeat("N", 64)+`"`)),
			"The subtypes of a schema here are left out", `"properties":{"k":{}}`,
		},
		{
			"too large together", base(`"x": "X", "y": "Y"`) + large, "The subtypes of a schema here are left out",
			`"properties":{"k":{}}`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o, warnings := offered(t, "3.1.0", "post", body, tt.components)
			const at = "/paths/~1a/post/requestBody/content/application~1json/schema"
			if len(warnings) != 1 || warnings[0].Path != at || !strings.Contains(warnings[0].Message, tt.warning) {
				t.Errorf("warnings = %+v, want one at %s with %q", warnings, at, tt.warning)
			}
			if !strings.Contains(string(o.Input), tt.want) {
				t.Errorf("input schema = %.500s, want it to contain %s", o.Input, tt.want)
			}
		})
	}
}

// TestBodiesOfAllMethods checks that the body of any method becomes arguments, or a warning at its place.
func TestBodiesOfAllMethods(t *testing.T) {
	const object = `"application/json": {"schema": {"type": "object", "properties": {"q": {"type": "string"}}}}`
	for _, tt := range []struct{ method, content, want, warning string }{
		{"get", object, "property q", ""},
		{"head", object, "property q", ""},
		{"options", object, "property q", ""},
		{"delete", object, "property q", ""},
		{"get", `"text/plain": {}`, "body body", ""},
		{"get", `"image/png": {}`, "", "/paths/~1a/get/requestBody/content"},
		{"trace", object, "", "/paths/~1a/trace/requestBody"},
	} {
		t.Run(tt.method+" "+tt.content[:12], func(t *testing.T) {
			o, warnings := offered(t, "3.1.0", tt.method, `"requestBody": {"required": true, "content": {`+tt.content+`}},
				"responses": {"200": {"description": "d"}}`, "")
			got := ""
			for _, a := range o.Arguments {
				got += string(a.Location) + " " + a.Name
			}
			if got != tt.want {
				t.Errorf("arguments of %s = %q, want %q", tt.method, got, tt.want)
			}
			at := ""
			for _, w := range warnings {
				at += w.Path
			}
			if at != tt.warning {
				t.Errorf("warnings of %s = %+v, want one at %q or none if empty", tt.method, warnings, tt.warning)
			}
		})
	}
}

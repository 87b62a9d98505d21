package project_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/format/project"
)

// TestKeywordsWithoutEffectAreReported compiles descriptions with keywords that restrict nothing, where the author
// probably expects that they do. testdata of package gateway has samples of all declared keywords.
func TestKeywordsWithoutEffectAreReported(t *testing.T) {
	t.Parallel()
	schema := func(text string) string { return `"paths": {}, "components": {"schemas": {"S": ` + text + `}}` }
	const at = "/components/schemas/S"
	for name, test := range map[string]struct{ version, members, at, message string }{
		"a typo":            {"3.1.0", schema(`{"maxLenght": 3}`), at + "/maxLenght", "Did you mean maxLength?"},
		"an unknown name":   {"3.2.0", schema(`{"colorful": 3}`), at + "/colorful", "no keyword \"colorful\""},
		"an extension":      {"3.1.0", schema(`{"x-maxLenght": 3}`), "", ""},
		"a property's name": {"3.1.0", schema(`{"properties": {"maxLenght": {"default": {"maxLenght": 1}}}}`), "", ""},
		"nullable": {
			"3.1.0", schema(`{"type": "string", "nullable": true}`), at + "/nullable", `["string", "null"]`,
		},
		"nullable in 3.0": {"3.0.3", schema(`{"type": "string", "nullable": true}`), "", ""},
		"several places": {
			"3.1.0", schema(`{"nullable": true, "items": {"nullable": true}, "not": {"nullable": true}}`),
			at + "/items/nullable", "true in 2 other places",
		},
		"many places": {
			"3.1.0", schema(`{"allOf": [` + strings.Repeat(`{"nullable": true},`, 200) + `{}]}`), at + "/allOf/0/nullable",
			"at least 99 other places",
		},
		"the dialect of OpenAPI": {
			"3.1.0", `"jsonSchemaDialect": "https://spec.openapis.org/oas/3.1/dialect/base", "paths": {}`, "", "",
		},
		"the dialect of JSON Schema": {
			"3.1.0", schema(`{"$schema": "https://json-schema.org/draft/2020-12/schema"}`), "", "",
		},
		"no webhooks": {"3.1.0", `"webhooks": {}, "paths": {}`, "", ""},
		"a reference within the file": {
			"3.2.0", `"$self": "https://example.com/api", ` +
				schema(`{"properties": {"a": {"$ref": "#/components/schemas/S"}}}`), "", "",
		},
		"an unused schema": {"3.1.0", schema(`{"contentSchema": {}, "format": "idn-email"}`), "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, result := described(t, test.version, test.members)
			wantProblem(t, "Compile() errors", result.Errors, "", "")
			wantProblem(t, "Compile() warnings", result.Warnings, test.at, test.message)
		})
	}
}

// validating is a catalog whose policies validate requests.
type validating struct{ lenient }

// Validates implements project.Catalog.
func (validating) Validates(string) (request, responses bool) { return true, false }

func (validating) PolicyModule(string) string { return "$import(@gatewright/runtime)" }

func (validating) CredentialHeader(project.Policy) string { return "" }

func (validating) IsReservedHeader(string) bool { return false }

// TestUsedKeywordsWithoutEffectAreReported compiles routes that validate requests, and operations of MCP servers, with
// parameters and schemas whose keywords restrict nothing.
func TestUsedKeywordsWithoutEffectAreReported(t *testing.T) {
	t.Parallel()
	const parameter, body = "/parameters/0", "/requestBody/content/application~1json/schema"
	described := func(rest string) string {
		return `"parameters": [{"name": "q", "in": "query", ` + rest + `}],`
	}
	sent := func(schema string) string {
		return `"requestBody": {"content": {"application/json": {"schema": ` + schema + `}}},`
	}
	const schemas = `"components": {"schemas": {
		"Pet": {"type": "object", "required": ["kind"], "properties": {"kind": {"type": "string"}},
			"discriminator": {"propertyName": "kind"}},
		"Cat": {"allOf": [{"$ref": "#/components/schemas/Pet"}, {"type": "object"}]}}}`
	const base = "#/components/schemas/Pet"
	for name, test := range map[string]struct{ version, members, at, message string }{
		"deepObject of a text": {
			"3.1.0", described(`"style": "deepObject", "schema": {"type": "string"}`), parameter + "/style",
			"for objects and lists",
		},
		"deepObject of a list": {
			"3.1.0", described(`"style": "deepObject", "schema": {"type": "array", "items": {}}`), "", "",
		},
		"deepObject of an object": {
			"3.1.0", described(`"style": "deepObject", "schema": {"type": ["object", "null"]}`), "", "",
		},
		"pipeDelimited of a number": {
			"3.0.3", described(`"style": "pipeDelimited", "schema": {"type": "integer"}`), parameter + "/style",
			"lists and objects",
		},
		"pipeDelimited of a list": {
			"3.0.3", described(`"style": "pipeDelimited", "schema": {"type": "array", "items": {}}`), "", "",
		},
		"nullable next to $ref": {
			"3.0.3", sent(`{"$ref": "#/components/schemas/Cat", "nullable": true}`), body + "/nullable",
			"ignores keywords next to $ref",
		},
		"a text next to $ref":    {"3.0.3", sent(`{"$ref": "#/components/schemas/Cat", "description": "d"}`), "", ""},
		"a keyword next to $ref": {"3.1.0", sent(`{"$ref": "#/components/schemas/Cat", "minProperties": 2}`), "", ""},
		"a format": {
			"3.1.0", sent(`{"type": "string", "format": "iri"}`), body + "/format", "does not check the format iri",
		},
		"a format of the author": {"3.1.0", sent(`{"type": "string", "format": "color"}`), "", ""},
		"a subtype":              {"3.1.0", sent(`{"$ref": "#/components/schemas/Cat"}`), "", ""},
		"a base type in a oneOf": {"3.1.0", sent(`{"oneOf": [{"$ref": "#/components/schemas/Cat"}]}`), "", ""},
		"a base type in an array": {
			"3.1.0", sent(`{"items": {"$ref": "` + base + `"}}`), "DISCRIMINATOR", "not with the subtypes",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := project.Files{
				"config/routes.oas.json": []byte(fmt.Sprintf(`{"openapi": %q, "info": {"title": "t", "version": "1"},
					"paths": {"/a": {"post": %s}}, %s}`, test.version, strings.Replace(forwarded("save", test.members),
					`"handler"`, `"policies": {"inbound": ["v"]}, "handler"`, 1), schemas)),
				"config/policies.json": []byte(`{"policies": [{"name": "v", "policyType": "v-inbound", "handler": {
					"export": "V", "module": "$import(@gatewright/runtime)"}}]}`),
			}
			_, result := compile(t, files, project.Input{Catalog: validating{}})
			wantProblem(t, "Compile() errors", result.Errors, "", "")
			at := test.at
			switch at {
			case "":
			case "DISCRIMINATOR":
				at = "/components/schemas/Pet/discriminator"
			default:
				at = "/paths/~1a/post" + at
			}
			wantProblem(t, "Compile() warnings", result.Warnings, at, test.message)
		})
	}
}

// TestDifferentKeywordsWithoutEffectAreAllReported checks that warnings that are not joined with others are reported too: the
// number of different warnings that are joined is bounded.
func TestDifferentKeywordsWithoutEffectAreAllReported(t *testing.T) {
	t.Parallel()
	const keywords = 1_200
	_, result := described(t, "3.1.0", `"paths": {}, "components": {"schemas": {"S": {`+list(keywords, `"k%dq": 1`)+`}}}`)
	if len(result.Warnings) == 0 {
		t.Fatal("Compile() warnings = none, want some")
	}
	last := result.Warnings[len(result.Warnings)-1].Message
	want := strconv.Itoa(keywords - len(result.Warnings) + 1)
	if !strings.Contains(strings.ReplaceAll(last, ",", ""), want) {
		t.Errorf("last of %d warnings = %s, want it to count the %s others", len(result.Warnings), last, want)
	}
}

package samples_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/internal/samples"
)

const document = `{
  "openapi": "3.0.3", "info": {"title": "t", "version": "1"},
  "paths": {
    "/a/{id}/{date}": {
      "parameters": [
        {"name": "id", "in": "path", "required": true,
          "schema": {"type": "integer", "minimum": 7, "exclusiveMinimum": true}},
        {"name": "date", "in": "path", "required": true, "style": "label",
          "schema": {"type": "string", "format": "date"}}
      ],
      "post": {
        "parameters": [
          {"name": "tags", "in": "query", "explode": false,
            "schema": {"type": "array", "minItems": 2, "uniqueItems": true, "items": {"enum": ["a b", "c"]}}},
          {"name": "filter", "in": "query", "style": "deepObject", "explode": true,
            "schema": {"$ref": "#/components/schemas/Filter"}},
          {"name": "nested", "in": "query", "schema": {"type": "array",
            "items": {"type": "array", "minItems": 1, "items": {"type": "string"}}}},
          {"name": "X-Code", "in": "header",
            "schema": {"type": "string", "pattern": "^(?!x)\\u0041[0-9]{2,}$", "minLength": 5}},
          {"name": "session", "in": "cookie", "schema": {"type": "string", "minLength": 4, "maxLength": 4}}
        ],
        "requestBody": {"content": {"text/plain": {},
          "application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}}},
        "responses": {}
      }
    },
    "/never": {"get": {"parameters": [{"name": "p", "in": "query", "required": true,
      "schema": {"type": "integer", "minimum": 2, "maximum": 1}}], "responses": {}}}
  },
  "components": {"schemas": {
    "Filter": {"type": "object", "required": ["by"], "properties": {"by": {"type": "boolean"}}},
    "Pet": {
      "oneOf": [{"$ref": "#/components/schemas/Cat"}, {"$ref": "#/components/schemas/Dog"}],
      "discriminator": {"propertyName": "kind", "mapping": {"dog": "Dog", "cat": "#/components/schemas/Cat"}}
    },
    "Base": {"type": "object", "required": ["id", "kind"], "properties": {
      "id": {"type": "string", "readOnly": true}, "kind": {"type": "string"},
      "parent": {"$ref": "#/components/schemas/Pet"}}},
    "Cat": {"allOf": [{"$ref": "#/components/schemas/Base"}, {"type": "object", "required": ["lives"],
      "properties": {"lives": {"type": "integer", "nullable": true, "multipleOf": 9}}}]},
    "Dog": {"allOf": [{"$ref": "#/components/schemas/Base"}, {"type": "object", "required": ["bark"],
      "properties": {"bark": {"type": "string"}}}]}
  }}
}`

func TestRequestHasAllParametersAndTheBody(t *testing.T) {
	d, err := samples.Read([]byte(document))
	if err != nil {
		t.Fatal(err)
	}
	got, err := d.Request("POST", "/a/{id}/{date}")
	if err != nil {
		t.Fatalf("Request() error = %v, want a request", err)
	}
	if want := "/a/8/.2026-01-31?tags=a%20b,c&filter[by]=true"; got.Target != want {
		t.Errorf("Request() target = %s, want %s", got.Target, want)
	}
	if code := got.Header.Get("X-Code"); code != "A0000" && code != "A1111" {
		t.Errorf("Request() X-Code = %q, want A and four digits", code)
	}
	if cookie := got.Header.Get("Cookie"); cookie != "session=v1aa" {
		t.Errorf("Request() Cookie = %q, want session=v1aa", cookie)
	}
	var body struct {
		ID, Kind string
		Lives    int
	}
	if err := json.Unmarshal(got.Body, &body); err != nil {
		t.Fatalf("Request() body = %s: %v, want JSON", got.Body, err)
	}
	if body.Kind != "cat" || body.Lives%9 != 0 || body.ID != "" {
		t.Errorf("Request() body = %s, want a cat with a multiple of 9 and without the read-only id", got.Body)
	}
	text := string(got.Bytes("example.com"))
	if !strings.HasPrefix(text, "POST /a/8/") || !strings.HasSuffix(text, "\r\n\r\n"+string(got.Body)) {
		t.Errorf("Bytes() = %q, want the request line first and the body last", text)
	}
}

func TestRequestFailsWithoutValidValue(t *testing.T) {
	d, err := samples.Read([]byte(document))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Request("GET", "/never"); !errors.Is(err, samples.ErrNoSample) {
		t.Errorf("Request(a parameter without valid values) error = %v, want ErrNoSample", err)
	}
	if _, err := d.Request("GET", "/missing"); err == nil || errors.Is(err, samples.ErrNoSample) {
		t.Errorf("Request(an unknown path) error = %v, want another error than ErrNoSample", err)
	}
}

func TestValueIsValid(t *testing.T) {
	for _, test := range []struct{ schema, want string }{
		{`{"type": "integer", "minimum": 3}`, `3`},
		{`{"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}`, `0.5`},
		{`{"type": ["null", "string"], "maxLength": 1}`, `"v"`},
		{`{"enum": [null, "x"], "type": "string"}`, `"x"`},
		{`{"type": "array", "minItems": 2, "items": {"type": "string"}, "uniqueItems": true}`, `["v1","v2"]`},
		{`{"type": "object", "minProperties": 1, "additionalProperties": {"type": "boolean"}}`, `{"name1":true}`},
		{`{"type": "string", "contentEncoding": "base64"}`, `"YWJj"`},
		{`{"type": "object", "required": ["a"], "properties": {"a": {"type": "string", "readOnly": true}}}`, `{"a":"v1"}`},
		{`{"oneOf": [{"type": "integer"}, {"type": "number"}, {"type": "boolean"}]}`, `true`},
	} {
		value, err := samples.Value([]byte(test.schema))
		if err != nil {
			t.Errorf("Value(%s) error = %v, want %s", test.schema, err, test.want)
			continue
		}
		got, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != test.want {
			t.Errorf("Value(%s) = %s, want %s", test.schema, got, test.want)
		}
	}
	if _, err := samples.Value([]byte(`{"not": {}}`)); !errors.Is(err, samples.ErrNoSample) {
		t.Errorf("Value(a schema that allows nothing) error = %v, want ErrNoSample", err)
	}
}

package samples

import (
	"encoding/base64"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/gatewright/gatewright/shared/format/regex"
	"github.com/gatewright/gatewright/shared/thirdparty/jsonschema"
)

// address is the beginning of the URLs of schemas for the library. A JSON pointer follows as one escaped segment. Each
// schema that is checked, or to which a reference leads, is a separate resource, because the library copies the list of a
// resource's schemas for each new schema.
const address = "https://samples.invalid/"

func addressOf(pointer string) string { return address + url.PathEscape("#"+pointer) }

// verifier checks values against the schemas of a document. It is the loader of the library.
type verifier struct {
	d        *Document
	compiler *jsonschema.Compiler
	compiled map[string]*jsonschema.Schema
}

var _ jsonschema.URLLoader = (*verifier)(nil)

func newVerifier(d *Document) *verifier {
	v := &verifier{d, jsonschema.NewCompiler(), map[string]*jsonschema.Schema{}}
	v.compiler.DefaultDraft(jsonschema.Draft2020)
	v.compiler.UseLoader(v)
	v.compiler.AssertFormat()
	v.compiler.RegisterFormat(&jsonschema.Format{Name: "byte", Validate: func(value any) error {
		text, _ := value.(string)
		_, err := base64.StdEncoding.DecodeString(text)
		return err
	}})
	v.compiler.UseRegexpEngine(func(text string) (jsonschema.Regexp, error) {
		if compiled, err := regex.Compile(text); err == nil {
			return compiled, nil
		}
		return anyText(text), nil
	})
	return v
}

// Load implements jsonschema.URLLoader.
func (v *verifier) Load(resource string) (any, error) {
	reference, err := url.PathUnescape(strings.TrimPrefix(resource, address))
	if err != nil {
		return nil, fmt.Errorf("read the address of a schema: %w", err)
	}
	p, found := v.d.find(reference)
	if !found {
		return nil, fmt.Errorf("the reference %s leads to no place of the document", reference)
	}
	return converter{v.d}.convert(p.value), nil
}

// anyText is a regular expression that is not checked.
type anyText string

// String implements jsonschema.Regexp.
func (t anyText) String() string { return string(t) }

// MatchString implements jsonschema.Regexp.
func (anyText) MatchString(string) bool { return true }

// check returns an error if the schema at a pointer does not allow a value.
func (v *verifier) check(pointer string, value any) error {
	compiled, known := v.compiled[pointer]
	if !known {
		var err error
		if compiled, err = v.compiler.Compile(addressOf(pointer)); err != nil {
			return fmt.Errorf("compile %s with the library: %w", pointer, err)
		}
		v.compiled[pointer] = compiled
	}
	return compiled.Validate(value)
}

// converter converts the schemas of a document to JSON Schema 2020-12, for requests: properties with readOnly are not
// required.
type converter struct{ d *Document }

// convert returns a schema for the library. It leaves out annotations and unknown keywords.
func (c converter) convert(value any) any {
	schema, isObject := value.(map[string]any)
	if !isObject {
		return value
	}
	out := map[string]any{}
	if reference, isText := schema["$ref"].(string); isText {
		if pointer, isLocal := strings.CutPrefix(reference, "#"); isLocal {
			reference = addressOf(pointer)
		}
		out["$ref"] = reference
		if c.d.isOpenAPI30 {
			return out
		}
	}
	for name, child := range schema {
		switch name {
		case "properties", "patternProperties", "dependentSchemas":
			all := map[string]any{}
			object, _ := child.(map[string]any)
			for property, value := range object {
				all[property] = c.convert(value)
			}
			out[name] = all
		case "allOf", "anyOf", "oneOf", "prefixItems":
			list, _ := child.([]any)
			all := make([]any, len(list))
			for i, value := range list {
				all[i] = c.convert(value)
			}
			out[name] = all
		case "not", "if", "then", "else", "items", "contains", "additionalProperties", "propertyNames",
			"unevaluatedItems", "unevaluatedProperties":
			out[name] = c.convert(child)
		case "type", "format", "pattern", "multipleOf", "maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum",
			"maxLength", "minLength", "maxItems", "minItems", "uniqueItems", "maxContains", "minContains", "maxProperties",
			"minProperties", "required", "dependentRequired", "enum", "const":
			out[name] = child
		}
	}
	c.convertKeywords(schema, out)
	return out
}

// convertKeywords converts the keywords that have another meaning in OpenAPI than in JSON Schema.
func (c converter) convertKeywords(schema, out map[string]any) {
	if properties, isObject := schema["properties"].(map[string]any); isObject && c.d.isRequest {
		required, _ := schema["required"].([]any)
		out["required"] = slices.DeleteFunc(slices.Clone(required), func(name any) bool {
			text, _ := name.(string)
			property := properties[text]
			if resolved, found := c.d.resolve(place{value: property}); found {
				property = resolved.value
			}
			return member(property, "readOnly") == true
		})
	}
	if !c.d.isOpenAPI30 {
		return
	}
	if schema["nullable"] == true {
		if name, isText := schema["type"].(string); isText {
			out["type"] = []any{name, "null"}
		}
	}
	for exclusive, inclusive := range maps.All(map[string]string{
		"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum",
	}) {
		isExclusive, isBool := schema[exclusive].(bool)
		if !isBool {
			continue
		}
		delete(out, exclusive)
		if limit, has := schema[inclusive]; has && isExclusive {
			out[exclusive] = limit
			delete(out, inclusive)
		}
	}
}

package project

import (
	"maps"
	"slices"
	"strings"
)

// inliner writes schemas of an OpenAPI document as JSON Schema 2020-12 without references: that is what
// MCP clients, and the models behind them, are given. What a schema refers to stands in it in full; one
// that is a part of itself is cut there, with a schema that accepts anything, since the upstream checks
// again. Keywords that say nothing about a value (discriminator, xml, x-…) are left out.
type inliner struct {
	root any
	// old says that the document is OpenAPI 3.0, whose schemas are a dialect of their own.
	old bool
	// without is the keyword of the properties that are left out: "readOnly" for what is sent,
	// "writeOnly" for what is answered.
	without string
	// left is what may still be written, in bytes.
	left int
	// active are the references that are being followed, cut is set once one of them was met again.
	active []string
	cut    bool
	depth  int
}

// schemaError is what is wrong with a schema that a tool needs, for its author.
type schemaError struct{ text string }

// Error implements error.
func (f *schemaError) Error() string { return f.text }

// maxSchemaDepth bounds the levels of a tool's schema: clients have bounds of their own, and an object
// of API arguments has five or ten.
const maxSchemaDepth = 64

// What a keyword of a schema holds.
const (
	holdsData    = iota + 1 // a value that is copied
	holdsSchema             // a schema
	holdsSchemas            // a list of schemas
	holdsNamed              // schemas by name
)

// keywordKind returns what a keyword holds, 0 for one that is left out.
func keywordKind(name string) int {
	switch name {
	case "type", "title", "description", "format", "pattern", "multipleOf", "maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum",
		"maxLength", "minLength", "maxItems", "minItems", "uniqueItems", "maxContains", "minContains", "maxProperties", "minProperties",
		"required", "dependentRequired", "deprecated", "readOnly", "writeOnly", "contentEncoding", "contentMediaType",
		"default", "enum", "const", "examples":
		return holdsData
	case "not", "if", "then", "else", "items", "contains", "additionalProperties", "propertyNames", "unevaluatedItems", "unevaluatedProperties":
		return holdsSchema
	case "allOf", "anyOf", "oneOf", "prefixItems":
		return holdsSchemas
	case "properties", "patternProperties", "dependentSchemas":
		return holdsNamed
	}
	return 0
}

// spend counts what is written.
func (in *inliner) spend(bytes int) error {
	if in.left -= bytes; in.left < 0 {
		return &schemaError{Over("tool", int64(maxToolBytes-in.left), "Expose an operation with smaller parameters and bodies, or refer to fewer schemas.")}
	}
	return nil
}

// schema returns a schema without references: a map or a bool.
func (in *inliner) schema(value any) (any, error) {
	object, ok := value.(map[string]any)
	if !ok {
		all, _ := value.(bool)
		return all, in.spend(len("false"))
	}
	if in.depth++; in.depth > maxSchemaDepth {
		return nil, &schemaError{"This schema, with what it refers to, has more than 64 levels, which MCP clients do not take. Flatten it."}
	}
	defer func() { in.depth-- }()
	if target, ok := object["$ref"].(string); ok {
		return in.reference(target, object)
	}
	for _, name := range []string{"$dynamicRef", "$recursiveRef"} {
		if _, ok := object[name]; ok {
			return nil, &schemaError{"This schema has a " + name + ", which an MCP tool's cannot. Write a $ref to #/components/schemas/NAME."}
		}
	}
	out, err := in.keywords(object)
	if err == nil && in.old {
		modernise(out, object)
	}
	return out, err
}

func (in *inliner) keywords(object map[string]any) (map[string]any, error) {
	out := make(map[string]any, len(object))
	for _, name := range slices.Sorted(maps.Keys(object)) {
		kind := keywordKind(name)
		if kind == 0 {
			continue
		}
		err := in.spend(len(name) + 4)
		if err == nil {
			out[name], err = in.keyword(kind, object[name])
		}
		if err != nil {
			return nil, err
		}
	}
	if in.without != "" {
		dropProperties(out, in.without)
	}
	return out, nil
}

func (in *inliner) keyword(kind int, value any) (any, error) {
	switch kind {
	case holdsSchema:
		return in.schema(value)
	case holdsSchemas:
		list, _ := value.([]any)
		out := make([]any, len(list))
		for i, child := range list {
			var err error
			if out[i], err = in.schema(child); err != nil {
				return nil, err
			}
		}
		return out, nil
	case holdsNamed:
		named, _ := value.(map[string]any)
		out := make(map[string]any, len(named))
		for _, name := range slices.Sorted(maps.Keys(named)) {
			if err := in.spend(len(name) + 4); err != nil {
				return nil, err
			}
			var err error
			if out[name], err = in.schema(named[name]); err != nil {
				return nil, err
			}
		}
		return out, nil
	default:
		values, bytes := measure(value)
		return value, in.spend(4*values + bytes)
	}
}

// reference writes what a reference leads to in its place.
func (in *inliner) reference(target string, object map[string]any) (any, error) {
	path, local := strings.CutPrefix(target, "#/")
	if !local {
		return nil, &schemaError{"This schema refers to another document or to a named anchor, which an MCP tool's cannot. Write it under components, and refer to it as #/components/schemas/NAME."}
	}
	if slices.Contains(in.active, path) {
		in.cut = true
		const again = "The same again: a schema that is a part of itself."
		return map[string]any{"description": again}, in.spend(len(again) + 20)
	}
	found, ok := lookup(in.root, path)
	if !ok {
		return nil, &schemaError{"This schema refers to one that is not there. Correct the reference."}
	}
	in.active = append(in.active, path)
	defer func() { in.active = in.active[:len(in.active)-1] }()
	resolved, err := in.schema(found)
	if err != nil || in.old || len(object) == 1 {
		return resolved, err // in OpenAPI 3.0 what stands beside a $ref is ignored
	}
	beside := maps.Clone(object)
	delete(beside, "$ref")
	more, err := in.keywords(beside)
	if err != nil || len(more) == 0 {
		return resolved, err
	}
	base, ok := resolved.(map[string]any)
	if !ok {
		return map[string]any{"allOf": []any{resolved, more}}, nil
	}
	out := maps.Clone(base)
	for name, value := range more {
		if !slices.Contains(annotations[:], name) {
			return map[string]any{"allOf": []any{resolved, more}}, nil
		}
		out[name] = value
	}
	return out, nil
}

// annotations are the keywords that describe a value and refuse none.
var annotations = [...]string{"title", "description", "default", "deprecated", "examples", "readOnly", "writeOnly"}

// modernise writes what OpenAPI 3.0 says in words of its own as JSON Schema does.
func modernise(out, object map[string]any) {
	if null, _ := object["nullable"].(bool); null {
		if kind, ok := out["type"].(string); ok {
			out["type"] = []any{kind, "null"}
			if values, ok := out["enum"].([]any); ok && !slices.Contains(values, nil) {
				out["enum"] = append(slices.Clone(values), nil)
			}
		}
	}
	for exclusive, bound := range map[string]string{"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"} {
		is, ok := out[exclusive].(bool)
		if !ok {
			continue
		}
		delete(out, exclusive)
		if value, there := out[bound]; is && there {
			out[exclusive] = value
			delete(out, bound)
		}
	}
}

// dropProperties removes the properties that have a keyword set, also from those that are required.
func dropProperties(schema map[string]any, keyword string) {
	properties, _ := schema["properties"].(map[string]any)
	for name, property := range properties {
		object, _ := property.(map[string]any)
		if drop, _ := object[keyword].(bool); !drop {
			continue
		}
		delete(properties, name)
		if required, ok := schema["required"].([]any); ok {
			schema["required"] = slices.DeleteFunc(slices.Clone(required), func(r any) bool { return r == any(name) })
		}
	}
}

// flatten makes one object's schema of one that is composed by allOf, where that says the same. It
// answers false for a schema that is no object's, or that says more than which properties there are.
func flatten(value any) (map[string]any, bool) {
	schema, ok := value.(map[string]any)
	if !ok {
		return nil, false
	}
	out := map[string]any{"type": "object"}
	properties, required := map[string]any{}, []any{}
	isObject := false
	for name, value := range schema {
		switch name {
		case "type":
			if value != any("object") {
				return nil, false
			}
			isObject = true
		case "properties":
			named, _ := value.(map[string]any)
			mergeProperties(properties, named)
			isObject = true
		case "required":
			list, _ := value.([]any)
			required = append(required, list...)
		case "additionalProperties", "title", "description":
			out[name] = value
		case "default", "deprecated", "examples", "readOnly", "writeOnly":
		case "allOf": // below
		default:
			return nil, false
		}
	}
	parts, _ := schema["allOf"].([]any)
	for _, part := range parts {
		flat, ok := flatten(part)
		if _, closed := flat["additionalProperties"]; !ok || closed {
			return nil, false // a part that is closed refuses the properties of the others
		}
		isObject = true
		named, _ := flat["properties"].(map[string]any)
		mergeProperties(properties, named)
		list, _ := flat["required"].([]any)
		required = append(required, list...)
	}
	if _, closed := out["additionalProperties"]; closed && len(parts) > 0 || !isObject {
		return nil, false
	}
	out["properties"] = properties
	if names := distinct(required); len(names) > 0 {
		out["required"] = names
	}
	return out, true
}

func mergeProperties(into, from map[string]any) {
	for name, schema := range from {
		if there, twice := into[name]; twice {
			schema = map[string]any{"allOf": []any{there, schema}}
		}
		into[name] = schema
	}
}

// distinct returns the texts of a list in order, each once.
func distinct(list []any) []any {
	var names []string
	for _, value := range list {
		if name, ok := value.(string); ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var out []any
	for _, name := range slices.Compact(names) {
		out = append(out, name)
	}
	return out
}

package project

import (
	"maps"
	"slices"
	"strings"
)

// This file recognizes the schemas of files in multipart forms. It also finds the types of values that other schemas allow.
// All schemas are inlined: they have no references.

// fileSchema returns the schema of the file if a property is a file or a list of files. Otherwise it returns nil. types are
// the media types that the encoding of the property allows.
func (f *formBuilder) fileSchema(property any, types []string) (file map[string]any, isList bool) {
	schema := withoutNull(property)
	isFile := func(schema map[string]any) bool {
		return isBinary(schema, types) || !f.isOpenAPI30 && len(types) == 0 && isEmpty(schema)
	}
	if isFile(schema) {
		return schema, false
	}
	if items := withoutNull(schema["items"]); schema["type"] == any("array") && isFile(items) {
		return items, true
	}
	return nil, false
}

// isEmpty reports whether a schema allows every value. As a property of a multipart form, it describes
// a file (OpenAPI 3.1, "Encoding Object": the default is application/octet-stream).
func isEmpty(schema map[string]any) bool {
	for name := range schema {
		if !slices.Contains(annotations[:], name) {
			return false
		}
	}
	return schema != nil
}

// withoutNull returns a schema without the alternative null. If allOf, anyOf and oneOf then have only one schema together,
// it returns this schema in their place. It returns nil for a schema that is not an object.
func withoutNull(value any) map[string]any {
	schema, _ := value.(map[string]any)
	for range maxParts {
		var parts []any
		for _, name := range []string{"allOf", "anyOf", "oneOf"} {
			list, _ := schema[name].([]any)
			parts = append(parts, list...)
		}
		parts = slices.DeleteFunc(slices.Clone(parts), func(part any) bool {
			object, _ := part.(map[string]any)
			return object["type"] == any("null")
		})
		if len(parts) != 1 || schema["type"] != nil && schema["type"] != any("string") {
			break
		}
		part, _ := parts[0].(map[string]any)
		out := maps.Clone(part)
		if description, ok := schema["description"]; ok && out != nil {
			out["description"] = description
		}
		schema = out
	}
	if list, _ := schema["type"].([]any); len(list) == 2 {
		out := maps.Clone(schema)
		for i, name := range list {
			if name == any("null") {
				out["type"] = list[1-i]
				return out
			}
		}
	}
	return schema
}

// isBinary reports whether a schema describes a file: a string of the format binary (OpenAPI 3.0), a string without
// contentEncoding whose contentMediaType is not text (OpenAPI 3.1), or a string for which types has only media types that
// are not text.
func isBinary(schema map[string]any, types []string) bool {
	if schema == nil || schema["type"] != nil && schema["type"] != any("string") || schema["contentEncoding"] != nil {
		return false
	}
	for _, name := range []string{
		"properties", "items", "additionalProperties", "allOf", "anyOf", "oneOf", "enum", "const", "$ref",
	} {
		if schema[name] != nil {
			return false
		}
	}
	if schema["format"] == any("binary") {
		return true
	}
	if mediaType, _ := schema["contentMediaType"].(string); mediaType != "" {
		return !isText(mediaType)
	}
	return len(types) > 0 && !slices.ContainsFunc(types, isText) &&
		(schema["format"] == nil || schema["type"] == nil)
}

// isText reports whether content of a media type or range can be text.
func isText(mediaType string) bool {
	base := baseType(mediaType)
	subtype := base[strings.IndexByte(base, '/')+1:]
	return isJSON(base) || strings.HasPrefix(base, "text/") || base == "*/*" || base == "application/*" ||
		strings.HasSuffix(base, "+xml") || slices.Contains([]string{
		"xml", "javascript", "yaml", "x-yaml", "toml", "sql", "graphql", "x-www-form-urlencoded", "x-ndjson", "jsonl", "pem",
	}, subtype)
}

// hasFile reports whether a schema has a string of the format binary anywhere.
func hasFile(value any) bool {
	switch v := value.(type) {
	case map[string]any:
		if v["format"] == any("binary") && (v["type"] == nil || v["type"] == any("string")) {
			return true
		}
		for _, child := range v {
			if hasFile(child) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, hasFile)
	}
	return false
}

// asBase64 returns the schema of the argument for a file or a list of files, whose contents are sent in Base64. property is
// the schema of the property, and file is the schema of the file.
func asBase64(property any, file map[string]any, isList bool) map[string]any {
	content := map[string]any{"type": "string", "contentEncoding": "base64"}
	for _, name := range []string{"title", "deprecated", "contentMediaType"} {
		if value, ok := file[name]; ok {
			content[name] = value
		}
	}
	const advice = "The content of the file in Base64."
	description, _ := file["description"].(string)
	content["description"] = strings.TrimSpace(description + " " + advice)
	if !isList {
		return content
	}
	out := maps.Clone(withoutNull(property))
	out["items"] = content
	return out
}

// allowsType reports whether a schema allows values of a type of JSON.
func allowsType(value any, name string, depth int) bool {
	schema, isObject := value.(map[string]any)
	if !isObject || depth == maxSchemaDepth {
		return value != any(false)
	}
	switch kind := schema["type"].(type) {
	case string:
		if kind != name {
			return false
		}
	case []any:
		if !slices.Contains(kind, any(name)) {
			return false
		}
	}
	allows := func(part any) bool { return allowsType(part, name, depth+1) }
	parts, _ := schema["allOf"].([]any)
	if slices.ContainsFunc(parts, func(part any) bool { return !allows(part) }) {
		return false
	}
	for _, keyword := range []string{"anyOf", "oneOf"} {
		if list, ok := schema[keyword].([]any); ok && !slices.ContainsFunc(list, allows) {
			return false
		}
	}
	return true
}

// elementsOf returns the schemas of the elements in all lists that a schema allows.
func elementsOf(value any) []any {
	schema, _ := value.(map[string]any)
	if schema == nil {
		return nil
	}
	var out []any
	if items, ok := schema["items"]; ok {
		out = append(out, items)
	}
	for _, keyword := range []string{"allOf", "anyOf", "oneOf"} {
		parts, _ := schema[keyword].([]any)
		for _, part := range parts {
			out = append(out, elementsOf(part)...)
		}
	}
	return out
}

// allowsObject reports whether a property can be an object, a list of objects, or a list of lists. depth is 0 for a
// property, and 1 for the elements of a list.
func allowsObject(value any, depth int) bool {
	if allowsType(value, "object", 0) {
		return true
	}
	if !allowsType(value, "array", 0) {
		return false
	}
	elements := elementsOf(value)
	return len(elements) == 0 || depth > 0 || slices.ContainsFunc(elements, func(element any) bool {
		return allowsObject(element, depth+1)
	})
}

// allowsText reports whether a property can be a string or a list of strings. If numbers is set, numbers and booleans count
// as strings. depth is as in allowsObject.
func allowsText(value any, numbers bool, depth int) bool {
	if allowsType(value, "string", 0) {
		return true
	}
	if numbers {
		for _, name := range []string{"number", "integer", "boolean"} {
			if allowsType(value, name, 0) {
				return true
			}
		}
	}
	if depth > 0 || !allowsType(value, "array", 0) {
		return false
	}
	elements := elementsOf(value)
	return len(elements) == 0 || slices.ContainsFunc(elements, func(element any) bool {
		return allowsText(element, numbers, depth+1)
	})
}

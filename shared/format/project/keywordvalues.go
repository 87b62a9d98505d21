package project

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// OpenAPI's own schema checks the keywords of schemas only in version 3.0: since version 3.1, the schemas of a document can
// have other dialects. So this file checks them. The gateway ignores a keyword with an invalid value, and the build warns
// about it. The rest of the schema still has its effect.

// jsonTypeNames are the names of types that the keyword type can have.
var jsonTypeNames = []string{"null", "boolean", "object", "array", "number", "string", "integer"}

// neededValue returns the kind of value that a keyword of schemas requires, such as "a list of schemas", if the value is of
// another kind. It returns "" for a valid value and for an unknown keyword.
func neededValue(name string, value any) string {
	var needed string
	var isValid bool
	switch keywordKind(name) {
	case kindSchema:
		needed, isValid = "a schema", isSchema(value)
	case kindSchemaList:
		list, isList := value.([]any)
		needed, isValid = "a list of schemas, with at least one", isList && len(list) > 0 && allMatch(list, isSchema)
	case kindSchemaMap:
		named, isObject := value.(map[string]any)
		needed, isValid = "an object with schemas", isObject
		for _, schema := range named {
			isValid = isValid && isSchema(schema)
		}
	default:
		needed, isValid = neededData(name, value)
	}
	if isValid {
		return ""
	}
	return needed
}

// neededData is like neededValue, for keywords whose values contain no schemas. needed is "" for an unknown keyword.
func neededData(name string, value any) (needed string, isValid bool) {
	_, isText := value.(string)
	list, isList := value.([]any)
	number, isNumber := value.(json.Number)
	switch name {
	case "type":
		isKnown := func(v any) bool {
			name, _ := v.(string)
			return slices.Contains(jsonTypeNames, name)
		}
		return "one of " + strings.Join(jsonTypeNames, ", ") + ", or a list of them",
			isKnown(value) || isList && len(list) > 0 && allMatch(list, isKnown)
	case "$ref", "format", "pattern", "contentEncoding", "contentMediaType":
		return "a string", isText
	case "maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum":
		return "a number", isNumber
	case "multipleOf":
		return "a number above 0", isNumber && !strings.HasPrefix(number.String(), "-") &&
			strings.ContainsAny(mantissa(number.String()), "123456789")
	case "maxLength", "minLength", "maxItems", "minItems", "maxContains", "minContains", "maxProperties", "minProperties":
		return "a whole number of 0 or more", isNumber && strings.Trim(number.String(), "0123456789") == ""
	case "uniqueItems", "readOnly", "writeOnly":
		_, isBool := value.(bool)
		return "true or false", isBool
	case "required":
		return "a list of the names of properties", isList && allMatch(list, isString)
	case "enum":
		return "a list of values", isList
	case "dependentRequired":
		named, isObject := value.(map[string]any)
		for _, names := range named {
			list, isList := names.([]any)
			isObject = isObject && isList && allMatch(list, isString)
		}
		return "an object with lists of the names of properties", isObject
	case "discriminator":
		object, _ := value.(map[string]any)
		property, _ := object["propertyName"].(string)
		return "an object with a propertyName", property != ""
	}
	return "", true
}

// mantissa returns a number without its exponent.
func mantissa(number string) string {
	before, _, _ := strings.Cut(strings.ToLower(number), "e")
	return before
}

func isSchema(value any) bool {
	switch value.(type) {
	case map[string]any, bool:
		return true
	}
	return false
}

func isString(value any) bool {
	_, ok := value.(string)
	return ok
}

// allMatch reports whether all values of a list match.
func allMatch(list []any, matches func(any) bool) bool {
	return !slices.ContainsFunc(list, func(value any) bool { return !matches(value) })
}

// withoutInvalid returns a schema without the keywords that have invalid values. It returns the schema itself if all are
// valid.
func withoutInvalid(schema map[string]any) map[string]any {
	var out map[string]any
	for name, value := range schema {
		if neededValue(name, value) == "" {
			continue
		}
		if out == nil {
			out = maps.Clone(schema)
		}
		delete(out, name)
	}
	if out == nil {
		return schema
	}
	return out
}

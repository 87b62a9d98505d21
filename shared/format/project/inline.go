package project

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
)

// inliner converts schemas of an OpenAPI document to JSON Schema 2020-12 without references, for MCP clients and the
// models that use them. It replaces each reference with the referenced schema. Where a schema contains itself, it writes a
// schema that has only the type: the route or the upstream validates the value too. It removes keywords that do not
// describe a JSON value (xml, x-…). It replaces a schema with a discriminator and a mapping by its subtypes (subtypes.go).
type inliner struct {
	// doc is the document of the schema that is being inlined. In a schema of another file, it is this file.
	doc *document
	// isOpenAPI30 reports whether the document is OpenAPI 3.0, whose schemas have their own dialect.
	isOpenAPI30 bool
	// excluded is the keyword that marks properties to leave out: "readOnly" for requests, "writeOnly" for responses.
	excluded string
	// dropped has the names of all properties that were left out, at any level of the schema.
	dropped map[string]bool
	// remaining is the number of bytes that the schema may still have, within the budget "tool".
	remaining int
	// active are the references that are being followed. truncated is set when a schema refers to one of them again.
	active    []string
	truncated bool
	// depth is the number of schemas that are being inlined: the current schema and those around it.
	depth int
	// baseOnly leaves out all subtypes. isBase is set for a schema that stays the base type although it has a mapping: the
	// root of a form or of a response, a subtype, and a part of an allOf that combines schemas. inSubtype is set for the
	// parts of a subtype. basePath is the reference to the base type of the current subtype, and usesBase is set when the
	// subtype has followed it.
	baseOnly, isBase, inSubtype bool
	basePath                    string
	usesBase                    bool
	// target is the reference that the next call of inline follows, or "" for none.
	target string
	// expanded is set when a schema is replaced by its subtypes, and unmapped
	// when a mapping names a schema that does not exist.
	expanded, unmapped bool
}

// schemaError is a mistake in a schema that a tool needs, as a message for the author. isReference is set for a
// reference that cannot be followed, which checkObjects reports too.
type schemaError struct {
	text        string
	isReference bool
}

// Error implements error.
func (e *schemaError) Error() string { return e.text }

// maxSchemaDepth is the maximum number of levels in a tool's schema. Clients have
// limits too, and the schema of API arguments usually has five or ten levels.
const maxSchemaDepth = 64

// The kinds of values that keywords of a schema can have.
const (
	kindData       = iota + 1 // a value that is copied
	kindSchema                // a schema
	kindSchemaList            // a list of schemas
	kindSchemaMap             // schemas by name
)

// keywordKind returns the kind of a keyword's value. It returns 0 for a keyword that is left out.
func keywordKind(name string) int {
	switch name {
	case "type", "title", "description", "format", "pattern", "multipleOf", "maximum", "minimum", "exclusiveMaximum",
		"exclusiveMinimum",
		"maxLength", "minLength", "maxItems", "minItems", "uniqueItems", "maxContains", "minContains", "maxProperties",
		"minProperties",
		"required", "dependentRequired", "deprecated", "readOnly", "writeOnly", "contentEncoding", "contentMediaType",
		"default", "enum", "const", "examples":
		return kindData
	case "not", "if", "then", "else", "items", "contains", "additionalProperties", "propertyNames", "unevaluatedItems",
		"unevaluatedProperties":
		return kindSchema
	case "allOf", "anyOf", "oneOf", "prefixItems":
		return kindSchemaList
	case "properties", "patternProperties", "dependentSchemas":
		return kindSchemaMap
	}
	return 0
}

// spend subtracts bytes from the budget and fails if the budget is exceeded.
func (in *inliner) spend(bytes int) error {
	if in.remaining -= bytes; in.remaining < 0 {
		return &schemaError{text: BudgetExceeded("tool", int64(maxToolBytes-in.remaining),
			"Expose an operation with smaller parameters and bodies, or refer to fewer schemas.")}
	}
	return nil
}

// inline returns a schema without its references. The result is a map or a bool.
func (in *inliner) inline(value any) (any, error) {
	path := in.target
	in.target = ""
	object, ok := value.(map[string]any)
	if !ok {
		allow, _ := value.(bool)
		return allow, in.spend(len("false"))
	}
	if in.depth++; in.depth > maxSchemaDepth {
		return nil, &schemaError{text: "This schema, with what it refers to, has more than 64 levels, which MCP clients do " +
			"not take. Flatten it."}
	}
	defer func() { in.depth-- }()
	if err := in.spend(len("{}") + len(object)); err != nil {
		return nil, err
	}
	if target, ok := object["$ref"].(string); ok {
		return in.inlineReference(target, object)
	}
	for _, name := range []string{"$dynamicRef", "$recursiveRef"} {
		if _, ok := object[name]; ok {
			return nil, &schemaError{text: "This schema has a " + name + ", which an MCP tool's cannot. Write a $ref to " +
				"#/components/schemas/NAME."}
		}
	}
	if property, all, err := in.subtypes(object); err != nil {
		return nil, err
	} else if len(all) > 0 {
		return in.inlineSubtypes(object, path, property, all)
	}
	out, err := in.inlineKeywords(object)
	if err == nil && in.isOpenAPI30 {
		modernize(out, object)
	}
	return out, err
}

// inlineKeywords returns the keywords of a schema that keywordKind knows, with inlined values.
func (in *inliner) inlineKeywords(object map[string]any) (map[string]any, error) {
	out := make(map[string]any, len(object))
	for _, name := range slices.Sorted(maps.Keys(object)) {
		kind := keywordKind(name)
		if kind == 0 {
			continue
		}
		err := in.spend(len(name) + 4)
		if err == nil {
			isBase, inSubtype := in.isBase, in.inSubtype
			in.isBase = name == "allOf" && (isBase || !isWrapper(object))
			in.inSubtype = name == "allOf" && inSubtype
			out[name], err = in.inlineKeyword(kind, object[name])
			in.isBase, in.inSubtype = isBase, inSubtype
		}
		if err != nil {
			return nil, err
		}
	}
	if in.excluded != "" {
		in.dropProperties(out)
	}
	return out, nil
}

// inlineKeyword returns the value of one keyword, with inlined schemas.
func (in *inliner) inlineKeyword(kind int, value any) (any, error) {
	switch kind {
	case kindSchema:
		return in.inline(value)
	case kindSchemaList:
		list, _ := value.([]any)
		out := make([]any, len(list))
		for i, child := range list {
			var err error
			if out[i], err = in.inline(child); err != nil {
				return nil, err
			}
		}
		return out, nil
	case kindSchemaMap:
		named, _ := value.(map[string]any)
		out := make(map[string]any, len(named))
		for _, name := range slices.Sorted(maps.Keys(named)) {
			if err := in.spend(len(name) + 4); err != nil {
				return nil, err
			}
			var err error
			if out[name], err = in.inline(named[name]); err != nil {
				return nil, err
			}
		}
		return out, nil
	default:
		values, bytes := measure(value)
		return value, in.spend(4*values + bytes)
	}
}

// inlineReference returns the schema that target refers to. object is the schema that has the $ref. The result also has
// the other keywords of object, except in OpenAPI 3.0.
func (in *inliner) inlineReference(target string, object map[string]any) (any, error) {
	found, problem := in.doc.resolve(target)
	if found.doc == nil {
		text := cmp.Or(problem, "This schema refers to a file that cannot be read.")
		return nil, &schemaError{text, !isURLReference(target)}
	}
	path := found.id()
	if slices.Contains(in.active, path) && !in.followsBase(path) {
		in.truncated = true
		const note = "The same again: a schema that is a part of itself."
		out := map[string]any{"description": note}
		if name := typeOf(found); name != "" {
			out["type"] = name
			if in.isOpenAPI30 {
				modernize(out, found.object())
			}
		}
		return out, in.spend(len(note) + 40)
	}
	in.usesBase = in.usesBase || in.inSubtype && path == in.basePath
	in.active = append(in.active, path)
	defer func() { in.active = in.active[:len(in.active)-1] }()
	in.target = path
	doc := in.doc
	in.doc = found.doc
	resolved, err := in.inline(found.value)
	in.doc = doc
	if err != nil || in.isOpenAPI30 || len(object) == 1 {
		return resolved, err // OpenAPI 3.0 ignores keywords next to a $ref
	}
	siblings := maps.Clone(object)
	delete(siblings, "$ref")
	extra, err := in.inlineKeywords(siblings)
	if err != nil || len(extra) == 0 {
		return resolved, err
	}
	base, ok := resolved.(map[string]any)
	if !ok {
		return map[string]any{"allOf": []any{resolved, extra}}, nil
	}
	out := maps.Clone(base)
	for name, value := range extra {
		if !slices.Contains(annotations[:], name) {
			return map[string]any{"allOf": []any{resolved, extra}}, nil
		}
		out[name] = value
	}
	return out, nil
}

// typeOf returns the type of the values that a schema allows, if the schema or a part of its allOf names a single one.
// Otherwise it returns "".
func typeOf(schema place) string {
	if name, ok := schema.object()["type"].(string); ok {
		return name
	}
	parts := schema.member("allOf")
	list, _ := parts.value.([]any)
	for i, part := range list {
		resolved, _ := place{parts.doc, parts.at + "/" + strconv.Itoa(i), part}.deref()
		if name, ok := resolved.object()["type"].(string); ok && resolved.object()["nullable"] != true {
			return name
		}
	}
	return ""
}

// annotations are the keywords that describe a value without restricting it.
var annotations = [...]string{"title", "description", "default", "deprecated", "examples", "readOnly", "writeOnly"}

// modernize converts keywords of OpenAPI 3.0 to JSON Schema. object is the original schema, out its inlined copy.
func modernize(out, object map[string]any) {
	if null, _ := object["nullable"].(bool); null {
		if kind, ok := out["type"].(string); ok {
			out["type"] = []any{kind, "null"}
			if values, ok := out["enum"].([]any); ok && !slices.Contains(values, nil) {
				out["enum"] = append(slices.Clone(values), nil)
			}
		}
	}
	for exclusive, bound := range map[string]string{"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"} {
		isExclusive, ok := out[exclusive].(bool)
		if !ok {
			continue
		}
		delete(out, exclusive)
		if value, found := out[bound]; isExclusive && found {
			out[exclusive] = value
			delete(out, bound)
		}
	}
}

// dropProperties removes the properties whose schemas have the excluded keyword, also from the list of required
// properties. It records their names.
func (in *inliner) dropProperties(schema map[string]any) {
	properties, _ := schema["properties"].(map[string]any)
	for name, property := range properties {
		object, _ := property.(map[string]any)
		if drop, _ := object[in.excluded].(bool); !drop {
			continue
		}
		if in.dropped == nil {
			in.dropped = map[string]bool{}
		}
		in.dropped[name] = true
		delete(properties, name)
		if required, ok := schema["required"].([]any); ok {
			schema["required"] = slices.DeleteFunc(slices.Clone(required), func(r any) bool { return r == any(name) })
		}
	}
}

// flatten merges the parts of a schema's allOf into one object schema with the same meaning. It returns
// false if the schema does not describe an object, or has constraints that the merged schema cannot express.
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
		case "allOf": // merged below
		default:
			return nil, false
		}
	}
	parts, _ := schema["allOf"].([]any)
	for _, part := range parts {
		flat, ok := flatten(part)
		if _, restricts := flat["additionalProperties"]; !ok || restricts {
			return nil, false // a part with additionalProperties also restricts the properties of the other parts
		}
		isObject = true
		named, _ := flat["properties"].(map[string]any)
		mergeProperties(properties, named)
		list, _ := flat["required"].([]any)
		required = append(required, list...)
	}
	if _, restricts := out["additionalProperties"]; restricts && len(parts) > 0 || !isObject {
		return nil, false
	}
	out["properties"] = properties
	if names := distinct(required); len(names) > 0 {
		out["required"] = names
	}
	return out, true
}

// mergeProperties adds the properties of src to dst. A property of both has to match both schemas.
func mergeProperties(dst, src map[string]any) {
	for name, schema := range src {
		if existing, duplicate := dst[name]; duplicate {
			schema = map[string]any{"allOf": []any{existing, schema}}
		}
		dst[name] = schema
	}
}

// distinct returns the strings of a list, sorted and without duplicates.
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

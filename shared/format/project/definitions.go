package project

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// definer converts the schemas of OpenAPI documents to JSON Schema 2020-12, for policies that validate requests and
// responses. It keeps references, so that a schema can contain itself: each schema that is referred to becomes a
// definition. It leaves out keywords that restrict no value, such as descriptions and examples.
//
// The schemas of requests and of responses differ: a property with readOnly is not allowed in requests, and a property
// with writeOnly is not allowed in responses. Neither is required there.
type definer struct {
	c *compiler
	// names has the name of each definition. pending are the definitions that are not converted yet.
	names   map[definitionKey]string
	pending []definitionKey
	// hidden has the results of hiddenProperties. unchecked has the results of uncheckedReason, by pattern.
	hidden    map[hiddenKey][]string
	unchecked map[string]string
}

// definitionKey identifies a definition.
type definitionKey struct {
	doc     *document
	path    string // the pointer of the schema, without its first slash
	keyword string // the keyword of properties that are not allowed: readOnly or writeOnly
	// optional has names of properties that are not required even if the schema requires them, each followed by a NUL:
	// another part of a schema with this one in its allOf marks these properties with the keyword.
	optional string
}

// hiddenKey identifies a schema in a tree, and a keyword.
type hiddenKey struct {
	object  uintptr
	keyword string
}

// schemaContext is what converting a schema depends on in addition to the schema.
type schemaContext struct {
	doc     *document
	keyword string // as in definitionKey
	// optional are the names of properties that are not required even if the schema requires them.
	optional []string
}

// The keywords of properties that only one direction has.
const (
	keywordReadOnly  = "readOnly"
	keywordWriteOnly = "writeOnly"
)

// schema converts a schema and encodes it. at is the pointer of the schema. It returns nil for a schema that allows
// every value.
func (d *definer) schema(in schemaContext, at string, value any) json.RawMessage {
	converted := d.convert(in, at, value)
	if object, ok := converted.(map[string]any); converted == true || ok && len(object) == 0 {
		return nil
	}
	return encodeTree(converted)
}

// finish converts the definitions that were referred to, and adds them to the artifact. It ends early if the artifact
// is too large, which is reported.
func (d *definer) finish() {
	for len(d.pending) > 0 && !d.c.stopped() {
		key := d.pending[0]
		d.pending = d.pending[1:]
		value, _ := lookup(key.doc.root, key.path)
		in := schemaContext{doc: key.doc, keyword: key.keyword}
		if key.optional != "" {
			in.optional = strings.Split(strings.TrimSuffix(key.optional, "\x00"), "\x00")
		}
		encoded := encodeTree(d.convert(in, "/"+key.path, value))
		if !d.c.addSize(key.doc.file, "/"+key.path, len(encoded)+routeOverhead/10) {
			return
		}
		if d.c.artifact.Definitions == nil {
			d.c.artifact.Definitions = map[string]json.RawMessage{}
		}
		d.c.artifact.Definitions[d.names[key]] = encoded
	}
}

// convert returns a schema of JSON Schema 2020-12 with the same meaning. The result is a map or a bool. at is the
// pointer of the schema, for warnings.
func (d *definer) convert(in schemaContext, at string, value any) any {
	object, ok := value.(map[string]any)
	if !ok {
		return value != false // a value that is no schema is already reported
	}
	target, isReference := object["$ref"].(string)
	if isReference && in.doc.isOpenAPI30() {
		return d.convertReference(in, at, target) // OpenAPI 3.0 ignores the other members
	}
	inside := in
	inside.optional = distinctNames(in.optional, d.hiddenProperties(in, object))
	out := make(map[string]any, len(object))
	if isReference {
		switch reference := d.convertReference(inside, at, target).(type) {
		case map[string]any:
			maps.Copy(out, reference)
		default:
			return reference
		}
	}
	eachPattern(object, func(text string, member ...string) {
		reason, known := d.unchecked[text]
		if !known {
			reason = uncheckedReason(text)
			d.unchecked[text] = reason
		}
		if reason != "" {
			d.c.warn(in.doc.file, at+pointer(member...), uncheckedPattern, reason)
		}
	})
	for _, name := range slices.Sorted(maps.Keys(object)) {
		d.convertKeyword(inside, out, at, name, object[name])
	}
	if in.doc.isOpenAPI30() {
		return allowNull(out, object)
	}
	return out
}

// convertKeyword adds a keyword to a converted schema. at is the pointer of the schema that has the keyword.
func (d *definer) convertKeyword(in schemaContext, out map[string]any, at, name string, value any) {
	part := schemaContext{doc: in.doc, keyword: in.keyword} // of another value: a property or an item
	at += pointer(name)
	switch {
	case name == "required":
		if names := d.requiredNames(in, value); len(names) > 0 {
			out[name] = names
		}
	case name == "properties":
		properties, _ := value.(map[string]any)
		converted := make(map[string]any, len(properties))
		for property, schema := range properties {
			if d.isHidden(in, schema) {
				converted[property] = false
			} else {
				converted[property] = d.convert(part, at+pointer(property), schema)
			}
		}
		out[name] = converted
	case slices.Contains(inPlaceLists[:], name):
		list, _ := value.([]any)
		converted := make([]any, len(list))
		for i, schema := range list {
			converted[i] = d.convert(in, at+"/"+strconv.Itoa(i), schema)
		}
		out[name] = converted
	case slices.Contains(inPlaceSchemas[:], name):
		out[name] = d.convert(in, at, value)
	case name == "dependentSchemas":
		out[name] = d.convertNamed(in, at, value)
	case slices.Contains(annotations[:], name) || slices.Contains(unsupportedKeywords[:], name):
		d.warnUnsupported(in.doc.file, at, name)
	default:
		switch keywordKind(name) {
		case kindSchema:
			out[name] = d.convert(part, at, value)
		case kindSchemaList:
			list, _ := value.([]any)
			converted := make([]any, len(list))
			for i, schema := range list {
				converted[i] = d.convert(part, at+"/"+strconv.Itoa(i), schema)
			}
			out[name] = converted
		case kindSchemaMap:
			out[name] = d.convertNamed(part, at, value)
		case kindData:
			out[name] = value
		}
	}
}

// convertNamed converts schemas by name.
func (d *definer) convertNamed(in schemaContext, at string, value any) map[string]any {
	named, _ := value.(map[string]any)
	converted := make(map[string]any, len(named))
	for name, schema := range named {
		converted[name] = d.convert(in, at+pointer(name), schema)
	}
	return converted
}

// The keywords with schemas that a value has to match in addition to the schema that has the keyword. The schemas of not
// and if are not among them: without a required property, they would match other values.
var (
	inPlaceLists   = [...]string{"allOf", "anyOf", "oneOf"}
	inPlaceSchemas = [...]string{"then", "else"}
)

// unsupportedKeywords are keywords that restrict values and that are not validated.
var unsupportedKeywords = [...]string{"$dynamicRef", "$recursiveRef"}

// warnUnsupported warns about a keyword of a schema that is not validated although it restricts values.
func (d *definer) warnUnsupported(file, at, name string) {
	if slices.Contains(unsupportedKeywords[:], name) {
		d.c.warn(file, at, "Values are not checked with this reference, because the gateway does not follow %s. Write a $ref "+
			"to #/components/schemas/NAME.", name)
	}
}

// convertReference returns a schema that refers to the definition of a referenced schema. It warns about a reference
// that it cannot follow, and returns a schema that allows every value for it.
func (d *definer) convertReference(in schemaContext, at, target string) any {
	path, isLocal := strings.CutPrefix(target, "#/")
	if !isLocal && target != "#" {
		d.c.warn(in.doc.file, at+"/$ref", "Values are not checked with this schema, because the gateway does not follow "+
			"references to other documents and to anchors. Write the schema under components of this document.")
		return true
	}
	value, found := lookup(in.doc.root, path)
	if !found {
		return true // already reported
	}
	key := definitionKey{doc: in.doc, path: path, keyword: in.keyword}
	if len(in.optional) > 0 {
		hidden := d.hiddenProperties(in, asObject(value))
		for _, name := range d.requiredBy(in, value, nil) {
			if slices.Contains(in.optional, name) && !slices.Contains(hidden, name) {
				key.optional += name + "\x00"
			}
		}
	}
	name, exists := d.names[key]
	if !exists {
		name = strconv.Itoa(len(d.names))
		d.names[key] = name
		d.pending = append(d.pending, key)
	}
	return map[string]any{"$ref": "#/$defs/" + name}
}

// requiredNames returns the names in the keyword required that in.optional does not have.
func (d *definer) requiredNames(in schemaContext, value any) []any {
	list, _ := value.([]any)
	var out []any
	for _, entry := range list {
		if name, ok := entry.(string); ok && !slices.Contains(in.optional, name) {
			out = append(out, name)
		}
	}
	return out
}

// requiredBy returns the distinct names of the properties that a schema requires, with those of its references and of
// its allOf, anyOf and oneOf. visited are the schemas that are being read.
func (d *definer) requiredBy(in schemaContext, value any, visited []uintptr) []string {
	object, found := dereference(in.doc.root, value)
	if id := identity(object); !found || slices.Contains(visited, id) || len(visited) > maxSchemaDepth {
		return nil
	} else { //nolint:revive // id is needed in both branches
		visited = append(visited, id)
	}
	var out []string
	list, _ := object["required"].([]any)
	for _, entry := range list {
		if name, ok := entry.(string); ok {
			out = append(out, name)
		}
	}
	for _, keyword := range inPlaceLists {
		parts, _ := object[keyword].([]any)
		for _, part := range parts {
			out = distinctNames(out, d.requiredBy(in, part, visited))
		}
	}
	return distinctNames(out, nil)
}

// hiddenProperties returns the names of the properties that a schema marks with in.keyword, including the parts of its
// allOf and the schemas that it refers to.
func (d *definer) hiddenProperties(in schemaContext, object map[string]any) []string {
	if object == nil {
		return nil
	}
	key := hiddenKey{identity(object), in.keyword}
	if names, known := d.hidden[key]; known {
		return names // nil while the schema is being read: it contains itself
	}
	d.hidden[key] = nil
	var out []string
	if _, isReference := object["$ref"]; isReference {
		if target, found := dereference(in.doc.root, object); found {
			out = d.hiddenProperties(in, target)
		}
		if in.doc.isOpenAPI30() {
			d.hidden[key] = out
			return out
		}
	}
	properties, _ := object["properties"].(map[string]any)
	for name, schema := range properties {
		if d.isHidden(in, schema) {
			out = append(out, name)
		}
	}
	parts, _ := object["allOf"].([]any)
	for _, part := range parts {
		out = append(out, d.hiddenProperties(in, asObject(part))...)
	}
	out = distinctNames(out, nil)
	d.hidden[key] = out
	return out
}

// isHidden reports whether the schema of a property, or a schema that it refers to, has in.keyword.
func (d *definer) isHidden(in schemaContext, schema any) bool {
	object, _ := schema.(map[string]any)
	if object == nil {
		return false
	}
	_, isReference := object["$ref"]
	if marked, has := object[in.keyword].(bool); has && !(isReference && in.doc.isOpenAPI30()) {
		return marked
	}
	if !isReference {
		return false
	}
	target, _ := dereference(in.doc.root, object)
	marked, _ := target[in.keyword].(bool)
	return marked
}

// allowNull converts the keywords of OpenAPI 3.0. In addition to modernize, it makes a schema with nullable and without
// a type allow null: authors expect that of a nullable schema whose type stands in its allOf.
func allowNull(out, object map[string]any) any {
	modernize(out, object)
	if _, hasType := object["type"]; object["nullable"] != true || hasType || len(out) == 0 {
		return out
	}
	return map[string]any{"anyOf": []any{map[string]any{"type": "null"}, out}}
}

// asObject returns a value as an object, or nil.
func asObject(value any) map[string]any {
	object, _ := value.(map[string]any)
	return object
}

// distinctNames returns the names of two lists, sorted and without duplicates.
func distinctNames(a, b []string) []string {
	if len(a)+len(b) == 0 {
		return nil
	}
	out := slices.Concat(a, b)
	slices.Sort(out)
	return slices.Compact(out)
}

package project

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// definer converts the schemas of OpenAPI documents to JSON Schema 2020-12, for policies that validate requests and
// responses. Each schema to which a reference leads becomes a definition, so that schemas can contain themselves. The
// definer leaves out keywords that restrict no value, such as descriptions and examples.
//
// A schema is converted differently for requests and for responses. In requests, a property with readOnly is neither
// allowed nor required. In responses, the same applies to a property with writeOnly.
type definer struct {
	c *compiler
	// names has the name of each definition. pending are the definitions that are not converted yet.
	names   map[definitionKey]string
	pending []definition
	// defined has the converted definitions by name, and order their names in the order of conversion.
	defined map[string]definedSchema
	order   []string
	// hidden has the results of hiddenProperties, and required those of requiredBy. unchecked has the results of
	// uncheckedReason, by pattern.
	hidden    map[hiddenKey][]string
	required  map[uintptr][]string
	unchecked map[string]string
}

func newDefiner(c *compiler) *definer {
	return &definer{
		c: c, names: map[definitionKey]string{}, defined: map[string]definedSchema{}, hidden: map[hiddenKey][]string{},
		required: map[uintptr][]string{}, unchecked: map[string]string{},
	}
}

// schemaContext has the conditions of a conversion: a schema is converted differently in different contexts.
type schemaContext struct {
	keyword     string // the keyword that marks properties that are not allowed: keywordReadOnly or keywordWriteOnly
	isOpenAPI30 bool   // whether the document that declares the route is OpenAPI 3.0
	// inSubtype is set for the schemas that a subtype applies to the same value. Their discriminators are ignored, because
	// the subtype is already selected.
	inSubtype bool
}

// value returns the context of schemas for parts of the value: for properties and items.
func (in schemaContext) value() schemaContext {
	in.inSubtype = false
	return in
}

// The keywords that mark properties of only requests or only responses.
const (
	keywordReadOnly  = "readOnly"
	keywordWriteOnly = "writeOnly"
)

// definitionKey identifies a definition.
type definitionKey struct {
	schemaContext
	id string // place.id of the schema
	// optional has the names of definition.optional, separated by NUL.
	optional string
}

// definition is a definition that is not converted yet.
type definition struct {
	schemaContext
	name  string
	place place
	// optional are the names of properties that are not required even if the schema requires them: the schema is a part of
	// an allOf, and another part marks these properties with the keyword.
	optional []string
}

// hiddenKey identifies an object in a tree (identity), and the context of its conversion.
type hiddenKey struct {
	schemaContext
	object uintptr
}

// schema converts a schema and encodes it. It returns nil for a schema that allows every value.
func (d *definer) schema(in schemaContext, p place) json.RawMessage {
	converted := d.convert(in, p, nil)
	if object, ok := converted.(map[string]any); converted == true || ok && len(object) == 0 {
		return nil
	}
	return encodeTree(converted)
}

// finish converts the pending definitions and those to which they refer, and adds them to the artifact. If the artifact is
// too large, finish reports this and stops. It also reports a definition that applies itself without an end.
func (d *definer) finish() {
	for len(d.pending) > 0 && !d.c.stopped() {
		next := d.pending[0]
		d.pending = d.pending[1:]
		converted := d.convert(next.schemaContext, next.place, next.optional)
		d.defined[next.name] = definedSchema{next.place, appliedDefinitions(converted)}
		d.order = append(d.order, next.name)
		encoded := encodeTree(converted)
		if !d.c.addSize(next.place.doc.file, next.place.at, len(encoded)+definitionOverhead) {
			return
		}
		if d.c.artifact.Definitions == nil {
			d.c.artifact.Definitions = map[string]json.RawMessage{}
		}
		d.c.artifact.Definitions[next.name] = encoded
	}
	d.reportCycle()
}

// definitionOverhead estimates the size of a definition's encoding without its schema.
const definitionOverhead = 20

// convert returns a schema of JSON Schema 2020-12 with the same meaning. The result is a map or a bool. optional are
// the names of properties that are not required even if the schema requires them.
func (d *definer) convert(in schemaContext, p place, optional []string) any {
	object := p.object()
	if object == nil {
		return p.value != false // the checks of the document report a value that is no schema
	}
	if !in.isOpenAPI30 {
		object = withoutInvalid(object)
	}
	_, isReference := object["$ref"].(string)
	if isReference && in.isOpenAPI30 {
		return d.convertReference(in, p, optional) // OpenAPI 3.0 ignores the other members
	}
	optional = distinctNames(optional, d.hiddenProperties(in, p))
	out := make(map[string]any, len(object))
	if isReference {
		reference, ok := d.convertReference(in, p, optional).(map[string]any)
		if ok {
			maps.Copy(out, reference)
		}
	}
	eachPattern(object, func(text string, member ...string) {
		reason, known := d.unchecked[text]
		if !known {
			reason = uncheckedReason(text)
			d.unchecked[text] = reason
		}
		if reason != "" {
			d.c.warn(p.doc.file, p.at+pointer(member...), uncheckedPattern, reason)
		}
	})
	for _, name := range slices.Sorted(maps.Keys(object)) {
		d.convertKeyword(in, out, name, place{p.doc, p.at + pointer(name), object[name]}, optional)
	}
	if conditions := d.subtypeConditions(in, p); len(conditions) > 0 {
		parts, _ := out["allOf"].([]any)
		out["allOf"] = append(parts, conditions...)
	}
	if in.isOpenAPI30 {
		return allowNull(out, object)
	}
	return out
}

// subtypeConditions returns a condition for each subtype of a discriminator: an object whose property has the name of the
// subtype has to match the schema of the subtype. The names are those in the mapping, and the names of the schemas to which
// oneOf and anyOf refer.
func (d *definer) subtypeConditions(in schemaContext, p place) (out []any) {
	discriminator := p.member("discriminator")
	property, _ := discriminator.object()["propertyName"].(string)
	if in.inSubtype || property == "" {
		return nil
	}
	in.inSubtype = true
	subtypes := map[string]place{}
	for _, keyword := range []string{"oneOf", "anyOf"} {
		alternatives, _ := p.object()[keyword].([]any)
		for _, alternative := range alternatives {
			at := place{doc: p.doc, value: alternative}
			target, _ := p.doc.resolve(at.reference())
			if names := tokens(target.at); target.doc != nil && len(names) > 0 {
				subtypes[names[len(names)-1]] = target
			}
		}
	}
	mapping := discriminator.member("mapping").object()
	for _, name := range slices.Sorted(maps.Keys(mapping)) {
		target, _ := p.doc.resolve(p.doc.mappedReference(mapping[name]))
		if target.doc == nil {
			d.c.warn(p.doc.file, discriminator.at+pointer("mapping", name), "This names a schema that does not exist, so "+
				"values of this type are only checked with the base type. Write a name of components/schemas, or "+
				"#/components/schemas/NAME.")
			continue
		}
		subtypes[name] = target
	}
	for _, name := range slices.Sorted(maps.Keys(subtypes)) {
		if identity(subtypes[name].object()) == identity(p.object()) {
			continue // the base type itself
		}
		out = append(out, map[string]any{
			"if": map[string]any{
				"properties": map[string]any{property: map[string]any{"const": name}}, "required": []any{property},
			},
			"then": d.definitionOf(in, subtypes[name], nil),
		})
	}
	return out
}

// convertKeyword adds a keyword to a converted schema. p is the place of the keyword's value.
func (d *definer) convertKeyword(in schemaContext, out map[string]any, name string, p place, optional []string) {
	switch {
	case name == "required":
		list, _ := p.value.([]any)
		names := slices.DeleteFunc(slices.Clone(list), func(entry any) bool {
			text, _ := entry.(string)
			return slices.Contains(optional, text)
		})
		if len(names) > 0 {
			out[name] = names
		}
	case name == "properties":
		converted := d.convertNamed(in.value(), p, nil)
		for property, schema := range p.object() {
			if d.isHidden(in, place{doc: p.doc, value: schema}) {
				converted[property] = false
			}
		}
		out[name] = converted
	case name == "dependentSchemas":
		out[name] = d.convertNamed(in, p, optional)
	case slices.Contains(inPlaceLists[:], name):
		out[name] = d.convertList(in, p, optional)
	case name == "then", name == "else":
		out[name] = d.convert(in, p, optional)
	case name == "not", name == "if": // they keep all required names, because without one they would match other values
		out[name] = d.convert(in, p, nil)
	case slices.Contains(unsupportedReferences[:], name):
		d.c.warn(p.doc.file, p.at, "Values are not checked with this reference, because the gateway does not follow %s. "+
			"Write a $ref to #/components/schemas/NAME.", name)
	case slices.Contains(annotations[:], name):
	default:
		switch keywordKind(name) {
		case kindSchema:
			out[name] = d.convert(in.value(), p, nil)
		case kindSchemaList:
			out[name] = d.convertList(in.value(), p, nil)
		case kindSchemaMap:
			out[name] = d.convertNamed(in.value(), p, nil)
		case kindData:
			out[name] = p.value
		}
	}
}

// convertList converts a list of schemas.
func (d *definer) convertList(in schemaContext, p place, optional []string) []any {
	list, _ := p.value.([]any)
	converted := make([]any, len(list))
	for i, schema := range list {
		converted[i] = d.convert(in, place{p.doc, p.at + "/" + strconv.Itoa(i), schema}, optional)
	}
	return converted
}

// convertNamed converts schemas by name.
func (d *definer) convertNamed(in schemaContext, p place, optional []string) map[string]any {
	named := p.object()
	converted := make(map[string]any, len(named))
	for _, name := range slices.Sorted(maps.Keys(named)) { // definitions are numbered in this order
		converted[name] = d.convert(in, place{p.doc, p.at + pointer(name), named[name]}, optional)
	}
	return converted
}

// inPlaceLists are the keywords with lists of schemas for the same value as the schema that has the keyword.
var inPlaceLists = [...]string{"allOf", "anyOf", "oneOf"}

// unsupportedReferences are the keywords of references that the gateway does not follow.
var unsupportedReferences = [...]string{"$dynamicRef", "$recursiveRef"}

// convertReference returns a schema that refers to the definition of the referenced schema. For a reference that cannot be
// followed, which is already reported, it returns true: the schema that allows every value.
func (d *definer) convertReference(in schemaContext, p place, optional []string) any {
	target, _ := p.doc.resolve(p.reference())
	if target.doc == nil {
		return true
	}
	return d.definitionOf(in, target, optional)
}

// definitionOf returns a schema that refers to the definition of the schema in a place.
func (d *definer) definitionOf(in schemaContext, target place, optional []string) map[string]any {
	next := definition{schemaContext: in, place: target}
	if len(optional) > 0 {
		hidden := d.hiddenProperties(in, target)
		for _, name := range d.requiredBy(target) {
			if slices.Contains(optional, name) && !slices.Contains(hidden, name) {
				next.optional = append(next.optional, name)
			}
		}
	}
	key := definitionKey{in, target.id(), strings.Join(next.optional, "\x00")}
	name, exists := d.names[key]
	if !exists {
		name = strconv.Itoa(len(d.names))
		next.name, d.names[key] = name, name
		d.pending = append(d.pending, next)
	}
	return map[string]any{"$ref": definitionsPointer + name}
}

// definitionsPointer is the part of a reference to a definition before its name.
const definitionsPointer = "#/$defs/"

// requiredBy returns the names of the properties that a schema requires, including those that its references and the
// schemas in its allOf, anyOf and oneOf require. The names are sorted and distinct.
func (d *definer) requiredBy(p place) []string {
	p, found := p.deref()
	if !found {
		return nil
	}
	id := identity(p.object())
	if names, known := d.required[id]; known {
		return names // nil while the schema is being read: it contains itself
	}
	d.required[id] = nil
	var out []string
	list, _ := p.object()["required"].([]any)
	for _, entry := range list {
		if name, ok := entry.(string); ok {
			out = append(out, name)
		}
	}
	for _, keyword := range inPlaceLists {
		parts, _ := p.object()[keyword].([]any)
		for _, part := range parts {
			out = append(out, d.requiredBy(place{doc: p.doc, value: part})...)
		}
	}
	d.required[id] = distinctNames(out, nil)
	return d.required[id]
}

// hiddenProperties returns the names of the properties that have in.keyword in a schema, in the schemas of its allOf, or in
// the schema to which it refers. The names are sorted and distinct.
func (d *definer) hiddenProperties(in schemaContext, p place) []string {
	object := p.object()
	if object == nil {
		return nil
	}
	key := hiddenKey{in.value(), identity(object)}
	if names, known := d.hidden[key]; known {
		return names // nil while the schema is being read: it contains itself
	}
	d.hidden[key] = nil
	var out []string
	if p.reference() != "" {
		if target, found := p.deref(); found {
			out = slices.Clone(d.hiddenProperties(in, target))
		}
	}
	if p.reference() == "" || !in.isOpenAPI30 {
		properties, _ := object["properties"].(map[string]any)
		for name, schema := range properties {
			if d.isHidden(in, place{doc: p.doc, value: schema}) {
				out = append(out, name)
			}
		}
		parts, _ := object["allOf"].([]any)
		for _, part := range parts {
			out = append(out, d.hiddenProperties(in, place{doc: p.doc, value: part})...)
		}
	}
	d.hidden[key] = distinctNames(out, nil)
	return d.hidden[key]
}

// isHidden reports whether the schema of a property, or a schema that it refers to, has in.keyword.
func (d *definer) isHidden(in schemaContext, p place) bool {
	isReference := p.reference() != ""
	if marked, has := p.object()[in.keyword].(bool); has && !(isReference && in.isOpenAPI30) {
		return marked
	}
	if !isReference {
		return false
	}
	target, found := p.deref()
	return found && target.object()[in.keyword] == true
}

// allowNull converts the keywords of OpenAPI 3.0 with modernize. A schema with nullable and without a type then allows null
// too: authors expect that of a nullable schema whose type is in its allOf.
func allowNull(out, object map[string]any) any {
	modernize(out, object)
	if _, hasType := object["type"]; object["nullable"] != true || hasType || len(out) == 0 {
		return out
	}
	return map[string]any{"anyOf": []any{map[string]any{"type": "null"}, out}}
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

package project

import (
	"maps"
	"reflect"
	"slices"
	"strings"
)

// This file offers the subtypes of a schema: if a schema has a discriminator with a mapping, and no
// alternatives of its own, tools offer the mapped schemas as alternatives instead of the base type alone.

// noteMappingName records that the parser has read a name of a discriminator's mapping.
// Tools offer the subtypes in the order of the mapping.
func (p *parser) noteMappingName(object map[string]any, name string) {
	n := len(p.at)
	if n < 3 || p.at[n-3] != "discriminator" || p.at[n-2] != "mapping" {
		return
	}
	if p.doc.mappings == nil {
		p.doc.mappings = map[uintptr][]string{}
	}
	id := identity(object)
	p.doc.mappings[id] = append(p.doc.mappings[id], name)
}

// mappingNames returns the names of a discriminator's mapping in the order of the document,
// or in alphabetical order if the document does not know its order.
func (d *document) mappingNames(mapping map[string]any) []string {
	if names := d.mappings[identity(mapping)]; len(names) == len(mapping) {
		return names
	}
	return slices.Sorted(maps.Keys(mapping))
}

// subtype is a mapped schema, and the values of the discriminator's property that select it.
type subtype struct {
	target string
	values []any
}

// isOpen reports whether values of a schema can be of a type that its discriminator's mapping does not name: if
// another schema of components extends the schema by allOf, directly or through others. The name of such a
// schema is a value of the discriminator's property (OpenAPI 3.1, "Discriminator Object").
func (d *document) isOpen(object, mapping map[string]any) bool {
	c, id := d.compiler, identity(object)
	if open, known := c.open[id]; known {
		return open
	}
	if c.open == nil {
		c.open = map[uintptr]bool{}
		c.readExtensions()
	}
	c.open[id] = false
	seen := map[uintptr]bool{id: true}
	mapped := map[uintptr]bool{}
	for _, value := range mapping {
		reference := map[string]any{"$ref": d.mappedReference(value)}
		target, _ := place{doc: d, value: reference}.deref()
		mapped[identity(target.object())] = true
	}
	schemas := slices.Clone(c.extensions[id])
	for len(schemas) > 0 && !c.open[id] {
		next := schemas[0]
		schemas = schemas[1:]
		if nextID := identity(next); !seen[nextID] {
			seen[nextID] = true
			c.open[id] = !mapped[nextID]
			schemas = append(schemas, c.extensions[nextID]...)
		}
	}
	return c.open[id]
}

// readExtensions sets c.extensions to the extensions in all files that were read.
func (c *compiler) readExtensions() {
	c.extensions = map[uintptr][]map[string]any{}
	for _, doc := range c.loadedDocuments() {
		schemas, _ := doc.resolve("#/components/schemas")
		for _, schema := range schemas.object() {
			object, _ := schema.(map[string]any)
			doc.addExtensions(object, object)
		}
	}
}

// addExtensions records that a schema extends the schemas that the allOf of part refers to.
// part is the schema itself or a part of it.
func (d *document) addExtensions(schema, part map[string]any) {
	parts, _ := part["allOf"].([]any)
	for _, child := range parts {
		object, _ := child.(map[string]any)
		if _, isReference := object["$ref"]; !isReference {
			d.addExtensions(schema, object)
			continue
		}
		if base, found := (place{doc: d, value: object}).deref(); found {
			id := identity(base.object())
			d.compiler.extensions[id] = append(d.compiler.extensions[id], schema)
		}
	}
}

// identity returns a number that identifies an object of a document's tree.
func identity(object map[string]any) uintptr { return reflect.ValueOf(object).Pointer() }

// mappedReference returns the reference to the schema that a value of a mapping names. The value can be a reference, or the
// name of a schema in components. A value that looks like a reference is a name if there is a schema with this name.
func (d *document) mappedReference(value any) string {
	target, _ := value.(string)
	name := "#" + pointer("components", "schemas", target)
	if strings.HasPrefix(target, "#/") {
		return target
	}
	if found, _ := d.resolve(name); found.doc == nil && (strings.ContainsAny(target, "#/") || IsReferable(target)) {
		return target
	}
	return name
}

// mappingBytesPerUnit is the number of bytes in the targets of a mapping that cost one byte of the budget: resolving
// them takes time, although the tool's schema does not contain them.
const mappingBytesPerUnit = 32

// subtypes returns the property of a schema's discriminator, and the mapped schemas in the order of the mapping. It
// returns none for a schema without a mapping, for a schema that lists its alternatives itself, and if the mapping does
// not have all values that are valid: a defaultMapping allows any value, and isOpen reports other types. Its error says
// that the mapping exceeds the budget.
func (in *inliner) subtypes(object map[string]any) (property string, all []subtype, err error) {
	discriminator, _ := object["discriminator"].(map[string]any)
	mapping, _ := discriminator["mapping"].(map[string]any)
	property, _ = discriminator["propertyName"].(string)
	if in.baseOnly || in.isBase || property == "" || object["oneOf"] != nil || object["anyOf"] != nil ||
		discriminator["defaultMapping"] != nil {
		return "", nil, nil
	}
	bytes := 0
	for _, value := range mapping {
		target, _ := value.(string)
		bytes += len(target)
	}
	if err := in.spend(2*len(mapping) + bytes/mappingBytesPerUnit); err != nil {
		in.expanded = true // the base type alone can fit
		return "", nil, err
	}
	indexes := map[string]int{} // the indexes of all by their targets
	for _, name := range in.doc.mappingNames(mapping) {
		target := in.doc.mappedReference(mapping[name])
		if found, _ := in.doc.resolve(target); found.doc == nil {
			in.unmapped = true
			continue
		}
		i, known := indexes[target]
		if !known {
			i = len(all)
			indexes[target], all = i, append(all, subtype{target: target})
		}
		all[i].values = append(all[i].values, name)
	}
	if len(all) > 0 && in.doc.isOpen(object, mapping) {
		return "", nil, nil
	}
	return property, all, nil
}

// inlineSubtypes returns a schema whose alternatives are the mapped schemas. In each of them, the discriminator's
// property must have one of the mapped values, so that a value matches a single alternative. path is the reference to the
// base type that was followed, or "" for none.
func (in *inliner) inlineSubtypes(object map[string]any, path, property string, all []subtype) (any, error) {
	in.expanded = true
	// A client does not send a property that is left out, so it cannot distinguish the alternatives.
	hidden := false
	if properties, _ := object["properties"].(map[string]any); in.excluded != "" {
		schema, _ := properties[property].(map[string]any)
		hidden, _ = schema[in.excluded].(bool)
	}
	alternatives := []any{}
	for _, s := range all {
		schema, err := in.inlineSubtype(object, path, s.target)
		if err == nil && !hidden {
			schema = withValues(schema, property, s.values)
			values, bytes := measure(s.values)
			err = in.spend(2*len(property) + 4*values + bytes + 60)
		}
		if err != nil {
			return nil, err
		}
		alternatives = append(alternatives, schema)
	}
	if nullable, _ := object["nullable"].(bool); nullable && in.isOpenAPI30 {
		alternatives = append(alternatives, map[string]any{"type": "null"})
	}
	out := map[string]any{"oneOf": alternatives}
	if hidden {
		out = map[string]any{"anyOf": alternatives}
	}
	for _, name := range []string{"title", "description"} {
		if text, ok := object[name].(string); ok {
			out[name] = text
			if err := in.spend(len(name) + len(text) + 8); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// inlineSubtype returns the inlined schema of one subtype. It adds the keywords of the base type to a subtype that does
// not refer to the base type.
func (in *inliner) inlineSubtype(object map[string]any, path, target string) (any, error) {
	outer := *in
	defer func() {
		in.isBase, in.inSubtype, in.basePath, in.usesBase = outer.isBase, outer.inSubtype, outer.basePath, outer.usesBase
	}()
	in.isBase, in.inSubtype, in.basePath, in.usesBase = true, true, path, false
	schema, err := in.inlineReference(target, map[string]any{"$ref": target})
	if err != nil || in.usesBase {
		return schema, err
	}
	base, err := in.inlineKeywords(object)
	if err != nil {
		return nil, err
	}
	if in.isOpenAPI30 {
		modernize(base, object)
	}
	delete(base, "title")
	delete(base, "description")
	return map[string]any{"allOf": []any{base, schema}}, nil
}

// followsBase reports whether a reference leads from a subtype to its base type, which is
// then a part of the subtype. It returns false if the base type was followed already.
func (in *inliner) followsBase(path string) bool {
	if !in.inSubtype || path != in.basePath {
		return false
	}
	first := slices.Index(in.active, path)
	return !slices.Contains(in.active[first+1:], path)
}

// isWrapper reports whether a schema has one part and otherwise only describes it,
// such as {"allOf": [{"$ref": …}], "description": …}.
func isWrapper(object map[string]any) bool {
	parts, _ := object["allOf"].([]any)
	for name := range object {
		if name != "allOf" && keywordKind(name) != 0 && !slices.Contains(annotations[:], name) {
			return false
		}
	}
	return len(parts) == 1
}

// withValues returns a schema whose property must have one of the values.
func withValues(schema any, property string, values []any) any {
	narrowed := map[string]any{"type": "string", "enum": values}
	flat, ok := flatten(schema)
	if !ok {
		return map[string]any{"allOf": []any{schema, map[string]any{
			"type": "object", "properties": map[string]any{property: narrowed}, "required": []any{property},
		}}}
	}
	properties, _ := flat["properties"].(map[string]any)
	if existing, _ := properties[property].(map[string]any); existing["description"] != nil {
		narrowed["description"] = existing["description"]
	}
	properties[property] = narrowed
	required, _ := flat["required"].([]any)
	flat["required"] = distinct(append(required, property))
	return flat
}

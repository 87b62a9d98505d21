package api

import (
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json"
)

// bodyShape describes a value in a body: the names of its fields, and the shapes of the
// values in it. It is nil for data whose form the caller chooses, such as metadata.
//
// Names are exact. encoding/json accepts {"NAME": …} for the field name, and every other spelling that is
// equal after Unicode case folding. huma does not, so such a field would bypass the bounds that huma checks.
// The decoder of this package accepts only exact names (docs/decisions/0030-bodies-by-exact-names.md).
// Unknown fields are ignored, because existing clients send some (contract 1.4). A name that differs from
// the name of a field only in the case of its letters is a mistake, which is refused and not ignored.
type bodyShape struct {
	fields map[string]*bodyShape
	// entries is the shape of an array's entries. values is the shape of a map's values.
	entries, values *bodyShape
}

// newBodyShape returns the shape of a body from the schemas that describe it.
func newBodyShape(schemas huma.Registry, variants ...*huma.Schema) *bodyShape {
	return shapeOf(schemas, maxDepth, variants)
}

// shapeOf returns the shape of a value from the schemas that describe it. depth is the maximum number of further
// levels.
func shapeOf(schemas huma.Registry, depth int, variants []*huma.Schema) *bodyShape {
	var entries, values []*huma.Schema
	fields := map[string][]*huma.Schema{}
	for i := 0; i < len(variants); i++ { // the loop extends variants
		s := variants[i]
		for s != nil && s.Ref != "" {
			s = schemas.SchemaFromRef(s.Ref)
		}
		if s == nil {
			continue
		}
		variants = slices.Concat(variants, s.OneOf, s.AnyOf, s.AllOf)
		if s.Items != nil {
			entries = append(entries, s.Items)
		}
		if value, ok := s.AdditionalProperties.(*huma.Schema); ok {
			values = append(values, value)
		}
		for name, field := range s.Properties {
			fields[name] = append(fields[name], field)
		}
	}
	if depth == 0 || len(entries)+len(values)+len(fields) == 0 {
		return nil
	}
	shape := &bodyShape{
		fields:  make(map[string]*bodyShape, len(fields)),
		entries: shapeOf(schemas, depth-1, entries), values: shapeOf(schemas, depth-1, values),
	}
	for name, field := range fields {
		shape.fields[name] = shapeOf(schemas, depth-1, field)
	}
	return shape
}

// allowNull changes the schemas of a body so that its optional fields may also be null. It leaves out fields whose
// schema has no type of its own. huma treats null like an absent field.
func allowNull(schemas huma.Registry, s *huma.Schema) {
	seen := map[*huma.Schema]bool{}
	var walk func(s *huma.Schema)
	walk = func(s *huma.Schema) {
		for s != nil && s.Ref != "" {
			s = schemas.SchemaFromRef(s.Ref)
		}
		if s == nil || seen[s] {
			return
		}
		seen[s] = true
		for _, variant := range slices.Concat(s.OneOf, s.AnyOf, s.AllOf) {
			walk(variant)
		}
		walk(s.Items)
		for name, field := range s.Properties {
			walk(field)
			if field.Type != "" && !slices.Contains(s.Required, name) {
				field.Nullable = true
				if len(field.Enum) > 0 && !slices.Contains(field.Enum, nil) {
					field.Enum = append(field.Enum, nil)
				}
			}
		}
	}
	walk(s)
}

// entry returns the shape of an array's entries.
func (s *bodyShape) entry() *bodyShape {
	if s == nil {
		return nil
	}
	return s.entries
}

// field returns the shape of the field with this name, or of a map's values if no such field is declared.
func (s *bodyShape) field(name string) *bodyShape {
	if s == nil {
		return nil
	}
	if shape, ok := s.fields[name]; ok {
		return shape
	}
	return s.values
}

// exactName returns the field whose name differs from the given name only in the case of its letters, if there is such
// a field.
func (s *bodyShape) exactName(name string) (exactField string, ok bool) {
	if s == nil {
		return "", false
	}
	if _, exact := s.fields[name]; exact {
		return "", false
	}
	for field := range s.fields {
		if strings.EqualFold(field, name) {
			return field, true
		}
	}
	return "", false
}

// decode decodes a body, or a part of a body. It accepts only exact names.
func decode(raw []byte, dst any) error { return json.Unmarshal(raw, dst) }

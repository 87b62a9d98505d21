package api

import (
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json"
)

// form is what is known of a value in a body: the names of its fields, and the
// forms of what is in it. Of what is the caller's own, such as metadata, nothing
// is known: a nil form.
//
// Names are exact. encoding/json takes {"NAME": …} for name, in every spelling
// that Unicode folds together, and would read past the bounds that huma has
// checked, since huma does not; what decodes bodies here does not either
// (docs/decisions/0030-bodies-by-exact-names.md). Fields that are not known are
// let pass, since existing clients send some (contract 1.4); one that is a field
// of ours but for the case of its letters is a mistake that nobody wants passed
// over in silence.
type form struct {
	fields map[string]*form
	// entries is the form of an array's entries, values that of a map's values.
	entries, values *form
}

// formOf reads the form of a body from the schemas that may describe it.
func formOf(schemas huma.Registry, of ...*huma.Schema) *form { return nested(schemas, maxDepth, of) }

func nested(schemas huma.Registry, depth int, of []*huma.Schema) *form {
	var entries, values []*huma.Schema
	fields := map[string][]*huma.Schema{}
	for i := 0; i < len(of); i++ { // of grows
		s := of[i]
		for s != nil && s.Ref != "" {
			s = schemas.SchemaFromRef(s.Ref)
		}
		if s == nil {
			continue
		}
		of = slices.Concat(of, s.OneOf, s.AnyOf, s.AllOf)
		if s.Items != nil {
			entries = append(entries, s.Items)
		}
		if each, ok := s.AdditionalProperties.(*huma.Schema); ok {
			values = append(values, each)
		}
		for name, field := range s.Properties {
			fields[name] = append(fields[name], field)
		}
	}
	if depth == 0 || len(entries)+len(values)+len(fields) == 0 {
		return nil
	}
	f := &form{
		fields:  make(map[string]*form, len(fields)),
		entries: nested(schemas, depth-1, entries), values: nested(schemas, depth-1, values),
	}
	for name, field := range fields {
		f.fields[name] = nested(schemas, depth-1, field)
	}
	return f
}

// letNull has the document say what huma does: a field of a body that may be left
// out may be null, too, which counts as left out.
func letNull(schemas huma.Registry, s *huma.Schema) {
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
		for _, one := range slices.Concat(s.OneOf, s.AnyOf, s.AllOf) {
			walk(one)
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

// entry is the form of an array's entries.
func (f *form) entry() *form {
	if f == nil {
		return nil
	}
	return f.entries
}

// field is the form of an object's field, or of a map's value.
func (f *form) field(name string) *form {
	if f == nil {
		return nil
	}
	if of, ok := f.fields[name]; ok {
		return of
	}
	return f.values
}

// respelt finds the field that name is another spelling of.
func (f *form) respelt(name string) (right string, ok bool) {
	if f == nil {
		return "", false
	}
	if _, exact := f.fields[name]; exact {
		return "", false
	}
	for field := range f.fields {
		if strings.EqualFold(field, name) {
			return field, true
		}
	}
	return "", false
}

// decode decodes a body, or a part of one, by exact names.
func decode(raw []byte, into any) error { return json.Unmarshal(raw, into) }

package pages

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// schema is what is read of a JSON schema.
type schema struct {
	Ref                                      string `json:"$ref"`
	Type                                     kinds
	Format, Pattern, Description             string
	Enum                                     []any
	Default                                  any
	MinLength, MaxLength, MinItems, MaxItems *int64
	Minimum, Maximum                         *json.Number
	MinProperties, MaxProperties             *int64
	Properties                               map[string]schema
	Required                                 []string
	Items                                    *schema
	OneOf                                    []schema
	AdditionalProperties                     values
}

// kinds are the types that a value may have: one, or a list of them.
type kinds []string

// UnmarshalJSON implements json.Unmarshaler.
func (k *kinds) UnmarshalJSON(raw []byte) error {
	if raw[0] == '[' {
		return json.Unmarshal(raw, (*[]string)(k))
	}
	*k = kinds{""}
	return json.Unmarshal(raw, &(*k)[0])
}

// values are the schema of a map's values, nil where it has none of them or any.
type values struct{ *schema }

// UnmarshalJSON implements json.Unmarshaler.
func (v *values) UnmarshalJSON(raw []byte) error {
	if raw[0] != '{' {
		return nil
	}
	return json.Unmarshal(raw, &v.schema)
}

// shape is what a body holds: its own type, and the fields at every depth.
type shape struct {
	Top    field
	Fields []field
}

// field is one of a body, or a parameter.
type field struct {
	// Name is the way to it: services[].name.
	Name, In, Type, Bounds, Pattern, Description string
	Required                                     bool
}

const refPrefix = "#/components/schemas/"

// of is the schema that stands for another.
func (d *document) of(s schema) schema {
	for s.Ref != "" {
		description := s.Description
		s = d.Components.Schemas[strings.TrimPrefix(s.Ref, refPrefix)]
		if description != "" {
			s.Description = description // what it is here goes before what it is in general
		}
	}
	return s
}

func (d *document) shapeOf(s schema) *shape {
	out := &shape{Top: d.fieldOf("", s)}
	d.fields(s, "", nil, func(f field) { out.Fields = append(out.Fields, f) })
	return out
}

// fields gives the fields below a schema to f. above are the names of the schemas that it is in:
// one that holds itself is not followed again.
func (d *document) fields(s schema, prefix string, above []string, f func(field)) {
	if s.Ref != "" {
		if slices.Contains(above, s.Ref) {
			return
		}
		above = append(slices.Clone(above), s.Ref)
	}
	s = d.of(s)
	for _, one := range s.OneOf {
		d.fields(one, prefix, above, f)
	}
	if s.Items != nil {
		d.fields(*s.Items, prefix+"[]", above, f)
	}
	if s.AdditionalProperties.schema != nil {
		d.fields(*s.AdditionalProperties.schema, join(prefix, "*"), above, f)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		one := d.fieldOf(join(prefix, name), s.Properties[name])
		one.Required = slices.Contains(s.Required, name)
		f(one)
		d.fields(s.Properties[name], one.Name, above, f)
	}
}

func join(prefix, name string) string {
	if prefix == "" {
		return name
	}
	return prefix + "." + name
}

// fieldOf describes a value by itself.
func (d *document) fieldOf(name string, s schema) field {
	s = d.of(s)
	return field{Name: name, Type: d.typeOf(s), Bounds: d.bounds(s), Pattern: s.Pattern, Description: s.Description}
}

// typeOf is a type in words: "string or null", "array of string".
func (d *document) typeOf(s schema) string {
	s = d.of(s)
	var all []string
	for _, one := range s.OneOf {
		all = append(all, d.typeOf(one))
	}
	for _, kind := range s.Type {
		switch {
		case kind == "array" && s.Items != nil:
			kind = "array of " + inner(d.typeOf(*s.Items))
		case kind == "object" && s.AdditionalProperties.schema != nil:
			kind = "object of " + inner(d.typeOf(*s.AdditionalProperties.schema))
		case s.Format != "" && s.Format != "int64" && kind == "string":
			kind += " (" + s.Format + ")"
		}
		all = append(all, kind)
	}
	if len(all) == 0 {
		return "any"
	}
	return strings.Join(all, " or ")
}

// inner is a type within another, whose alternatives are its own.
func inner(name string) string {
	if strings.Contains(name, " or ") {
		return "(" + name + ")"
	}
	return name
}

// bounds are what limits a value, in words, "" for nothing.
func (d *document) bounds(s schema) string {
	var all []string
	add := func(text string) {
		if text != "" {
			all = append(all, text)
		}
	}
	if len(s.Enum) > 0 {
		var names []string
		for _, v := range s.Enum {
			names = append(names, fmt.Sprint(v))
		}
		add("one of " + strings.Join(names, ", "))
	}
	add(span(s.MinLength, s.MaxLength, "characters"))
	add(span(s.MinItems, s.MaxItems, "entries"))
	add(span(s.MinProperties, s.MaxProperties, "fields"))
	add(span(s.Minimum, s.Maximum, ""))
	if s.Default != nil {
		add(fmt.Sprintf("default %v", s.Default))
	}
	if s.Items != nil {
		if within := d.bounds(d.of(*s.Items)); within != "" {
			add("each " + within)
		}
	}
	return strings.Join(all, "; ")
}

// span is from least to most of something, "" for no bound.
func span[T any](least, most *T, of string) string {
	out := ""
	switch {
	case least != nil && most != nil:
		out = fmt.Sprintf("%v to %v %s", *least, *most, of)
	case most != nil:
		out = fmt.Sprintf("at most %v %s", *most, of)
	case least != nil:
		out = fmt.Sprintf("at least %v %s", *least, of)
	}
	return strings.TrimSpace(out)
}

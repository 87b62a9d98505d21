package pages

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// schema has the parts of a JSON Schema that the reference shows.
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

// kinds are the allowed types of a value. In JSON, they are one string or a list of strings.
type kinds []string

// UnmarshalJSON implements json.Unmarshaler.
func (k *kinds) UnmarshalJSON(raw []byte) error {
	if raw[0] == '[' {
		return json.Unmarshal(raw, (*[]string)(k))
	}
	*k = kinds{""}
	return json.Unmarshal(raw, &(*k)[0])
}

// values has the schema of a map's values. The schema is nil if
// an object has no further values, or if any value is allowed.
type values struct{ *schema }

// UnmarshalJSON implements json.Unmarshaler.
func (v *values) UnmarshalJSON(raw []byte) error {
	if raw[0] != '{' {
		return nil
	}
	return json.Unmarshal(raw, &v.schema)
}

// shape is the content of a body: the type of the body, and its fields at every depth.
type shape struct {
	Top    field
	Fields []field
}

// field is a field of a body, or a parameter.
type field struct {
	// Name is the path to the field, such as services[].name. In is the place of a parameter in a request, such as
	// query, and "" for a field of a body. Type and Bounds are in words.
	Name, In, Type, Bounds, Pattern, Description string
	Required                                     bool
}

const refPrefix = "#/components/schemas/"

// resolve returns the schema to which a schema refers, or the schema itself if it is not a reference.
func (d *document) resolve(s schema) schema {
	for s.Ref != "" {
		description := s.Description
		s = d.Components.Schemas[strings.TrimPrefix(s.Ref, refPrefix)]
		if description != "" {
			s.Description = description // the description next to the reference takes precedence
		}
	}
	return s
}

func (d *document) newShape(s schema) *shape {
	out := &shape{Top: d.newField("", s)}
	d.fields(s, "", nil, func(f field) { out.Fields = append(out.Fields, f) })
	return out
}

// fields calls f with each field of a schema, at every depth. parents are the references of the
// enclosing schemas: fields does not follow a reference in parents, so that it terminates for a recursive schema.
func (d *document) fields(s schema, prefix string, parents []string, f func(field)) {
	if s.Ref != "" {
		if slices.Contains(parents, s.Ref) {
			return
		}
		parents = append(slices.Clone(parents), s.Ref)
	}
	s = d.resolve(s)
	for _, item := range s.OneOf {
		d.fields(item, prefix, parents, f)
	}
	if s.Items != nil {
		d.fields(*s.Items, prefix+"[]", parents, f)
	}
	if s.AdditionalProperties.schema != nil {
		d.fields(*s.AdditionalProperties.schema, join(prefix, "*"), parents, f)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		item := d.newField(join(prefix, name), s.Properties[name])
		item.Required = slices.Contains(s.Required, name)
		f(item)
		d.fields(s.Properties[name], item.Name, parents, f)
	}
}

func join(prefix, name string) string {
	if prefix == "" {
		return name
	}
	return prefix + "." + name
}

// newField describes a value, without the fields of the value.
func (d *document) newField(name string, s schema) field {
	s = d.resolve(s)
	return field{Name: name, Type: d.typeText(s), Bounds: d.bounds(s), Pattern: s.Pattern, Description: s.Description}
}

// typeText returns a type in words: "string or null", "array of string".
func (d *document) typeText(s schema) string {
	s = d.resolve(s)
	var all []string
	for _, variant := range s.OneOf {
		all = append(all, d.typeText(variant))
	}
	for _, kind := range s.Type {
		switch {
		case kind == "array" && s.Items != nil:
			kind = "array of " + parenthesize(d.typeText(*s.Items))
		case kind == "object" && s.AdditionalProperties.schema != nil:
			kind = "object of " + parenthesize(d.typeText(*s.AdditionalProperties.schema))
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

// parenthesize returns the name of a type for use in the name of
// another type. It adds parentheses if the type has alternatives.
func parenthesize(name string) string {
	if strings.Contains(name, " or ") {
		return "(" + name + ")"
	}
	return name
}

// bounds returns the limits of a value in words, or "" if there are none.
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
	add(rangeText(s.MinLength, s.MaxLength, "characters"))
	add(rangeText(s.MinItems, s.MaxItems, "entries"))
	add(rangeText(s.MinProperties, s.MaxProperties, "fields"))
	add(rangeText(s.Minimum, s.Maximum, ""))
	if s.Default != nil {
		add(fmt.Sprintf("default %v", s.Default))
	}
	if s.Items != nil {
		if itemBounds := d.bounds(d.resolve(*s.Items)); itemBounds != "" {
			add("each " + itemBounds)
		}
	}
	return strings.Join(all, "; ")
}

// rangeText returns the range from lo to hi in words, with a unit.
// A nil lo or hi means no bound. Without both, it returns "".
func rangeText[T any](lo, hi *T, unit string) string {
	out := ""
	switch {
	case lo != nil && hi != nil:
		out = fmt.Sprintf("%v to %v %s", *lo, *hi, unit)
	case hi != nil:
		out = fmt.Sprintf("at most %v %s", *hi, unit)
	case lo != nil:
		out = fmt.Sprintf("at least %v %s", *lo, unit)
	}
	return strings.TrimSpace(out)
}

package options

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// Option is the declaration of an option, for documentation and editors.
type Option struct {
	Name string
	// Type is a type of JSON Schema, or "" for an option of any type.
	Type     string
	Required bool
	// Default is the value in JSON of an option that a project does not set, "" if there is none.
	Default string
	// Enum has the valid values of a text, nil if all texts are valid. For a list, these are the valid elements.
	Enum []string
	// Minimum and Maximum are the bounds of a number, "" for none.
	Minimum, Maximum string
	// Description says in a sentence what the option does. It is in Markdown.
	Description string
	// Options are the options within an object, nil for an object with any members.
	Options []Option
	// Item is the type of a list's elements, nil for other options.
	Item *Option
}

// Describe returns the declared options of a struct with default values, in the order of the fields. descriptions has the
// description of each option by its name. The name of an option within an object follows the name of the object and a
// dot.
func Describe(defaults any, descriptions map[string]string) []Option {
	return describeFields(reflect.ValueOf(defaults), "", descriptions)
}

// describeFields is Describe for a struct within options. prefix is the name of the object and a dot.
func describeFields(v reflect.Value, prefix string, descriptions map[string]string) []Option {
	out := make([]Option, 0, v.NumField())
	for i := range v.NumField() {
		field := v.Type().Field(i)
		name := field.Tag.Get("json")
		o := describe(field.Type, field.Tag, prefix+name+".", descriptions)
		o.Name, o.Description = name, descriptions[prefix+name]
		o.Required = field.Tag.Get("required") == "true"
		if value := v.Field(i); !o.Required && isDefault(value) {
			o.Default = encodeDefault(value)
		}
		out = append(out, o)
	}
	return out
}

// isDefault reports whether a field has a default that a project could write: nil and empty texts mean that there is
// none.
func isDefault(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Bool, reflect.Int, reflect.Int64, reflect.Float64:
		return true
	case reflect.Pointer, reflect.Map, reflect.Slice, reflect.String:
		return !v.IsZero()
	default:
		return false
	}
}

func encodeDefault(v reflect.Value) string {
	text, err := json.Marshal(v.Interface())
	if err != nil {
		panic(fmt.Sprintf("options: encode a default: %v", err)) // defaults are texts, numbers, booleans and lists of these
	}
	return string(text)
}

// describe returns the type and the constraints of an option.
func describe(t reflect.Type, tag reflect.StructTag, prefix string, descriptions map[string]string) Option {
	o := Option{Minimum: tag.Get("minimum"), Maximum: tag.Get("maximum")}
	if enum := tag.Get("enum"); enum != "" {
		o.Enum = strings.Split(enum, ",")
	}
	switch {
	case t == reflect.TypeFor[json.RawMessage]():
		return o
	case t.Kind() == reflect.Pointer:
		return describe(t.Elem(), tag, prefix, descriptions)
	case t.Kind() == reflect.Slice:
		item := describe(t.Elem(), tag, prefix, descriptions)
		o.Type, o.Item = "array", &item
		return o
	case t.Kind() == reflect.Struct:
		o.Type, o.Options = "object", describeFields(reflect.New(t).Elem(), prefix, descriptions)
		return o
	}
	o.Type = map[reflect.Kind]string{
		reflect.Map: "object", reflect.String: "string", reflect.Bool: "boolean", reflect.Int: "integer",
		reflect.Int64: "integer", reflect.Float64: "number",
	}[t.Kind()]
	return o
}

// variable is the pattern of a text that takes the value of a variable.
const variable = `\$env\(`

// Schema returns the JSON Schema of options, for editors. It allows a text with a variable in place of each text, number
// and boolean.
func Schema(all []Option) map[string]any {
	properties, required := map[string]any{}, []any{}
	for _, o := range all {
		properties[o.Name] = o.schema()
		if o.Required {
			required = append(required, o.Name)
		}
	}
	out := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		out["required"] = required
	}
	return out
}

// schema returns the schema of one option.
func (o Option) schema() map[string]any {
	out := map[string]any{}
	withVariable := func(value map[string]any) {
		out["anyOf"] = []any{value, map[string]any{"type": "string", "pattern": variable}}
	}
	switch {
	case o.Type == "array":
		out["type"], out["items"] = "array", o.Item.schema()
	case o.Type == "object" && o.Options != nil:
		out = Schema(o.Options)
	case o.Enum != nil:
		withVariable(map[string]any{"enum": o.Enum})
	case o.Type == "boolean", o.Type == "integer", o.Type == "number":
		value := map[string]any{"type": o.Type}
		if o.Minimum != "" {
			value["minimum"] = json.Number(o.Minimum)
		}
		if o.Maximum != "" {
			value["maximum"] = json.Number(o.Maximum)
		}
		withVariable(value)
	case o.Type != "":
		out["type"] = o.Type
	}
	if o.Default != "" {
		out["default"] = json.RawMessage(o.Default)
	}
	if o.Description != "" {
		out["description"] = o.Description
	}
	return out
}

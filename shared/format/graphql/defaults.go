package graphql

import (
	"strings"

	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/parser"
)

// Default values are texts in the GraphQL language. They can contain the names of all
// fields of their type, including fields that are hidden because their types are hidden.

// shownType is a type that a response shows.
type shownType struct {
	kind string
	// fields maps the visible fields of an input type to the names of their types. It is empty for other types.
	fields map[string]string
}

// defaultValue is a default value in a response. typeName is the name of its type.
type defaultValue struct {
	node     *node
	typeName string
}

// shownType returns the shown type with a name. If there is none, it adds one.
func (f *filterPass) shownType(name string) *shownType {
	if f.shownTypes[name] == nil {
		f.shownTypes[name] = &shownType{fields: map[string]string{}}
	}
	return f.shownTypes[name]
}

// collectDefaults records the default values of an argument or input field.
func (f *filterPass) collectDefaults(n *node, typeName string) {
	for _, m := range n.members {
		if f.defaultKeys[m.name] && m.value.text() != "" {
			f.defaultValues = append(f.defaultValues, defaultValue{m.value, typeName})
		}
	}
}

// removeHiddenDefaults removes default values that contain hidden names, or fields that the response does not show.
// Call it when all visible types are known.
func (f *filterPass) removeHiddenDefaults() {
	for _, v := range f.defaultValues {
		text := v.node.text()
		if f.mentions(text) || strings.Contains(text, "{") && !f.allFieldsVisible(text, v.typeName) {
			v.node.setText(nil)
		}
	}
}

// allFieldsVisible reports whether all fields in a default value are visible in the response. It returns false if text
// is not a value, or if the response does not show the type, since the fields are unknown then.
func (f *filterPass) allFieldsVisible(text, typeName string) bool {
	// The parser has no function for a single value, so parse the default value as the default of a variable.
	parsed, err := parser.ParseQueryWithTokenLimit(&ast.Source{Input: "query($v:A=" + text + "){a}"}, MaxTokens)
	if err != nil || len(parsed.Operations) != 1 || len(parsed.Operations[0].VariableDefinitions) != 1 {
		return false
	}
	return f.valueVisible(parsed.Operations[0].VariableDefinitions[0].DefaultValue, typeName)
}

// valueVisible reports whether all fields in a value of this type are visible.
func (f *filterPass) valueVisible(value *ast.Value, typeName string) bool {
	shown := f.shownTypes[typeName]
	if shown != nil && shown.kind == "SCALAR" {
		return true // names in a scalar are not fields
	}
	for _, child := range value.Children {
		childType := typeName
		if value.Kind == ast.ObjectValue {
			if shown == nil {
				return false
			}
			fieldType, visible := shown.fields[child.Name]
			if !visible {
				return false
			}
			childType = fieldType
		}
		if !f.valueVisible(child.Value, childType) {
			return false
		}
	}
	return true
}

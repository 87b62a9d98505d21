package graphql

import (
	"strings"

	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/parser"
)

// A default value is a text of the language, within which may be names of whatever its type has: also
// of fields that are hidden because their types are.

// inputType is a type as an answer shows it.
type inputType struct {
	kind string
	// fields are those of an input that are shown, with their types' names.
	fields map[string]string
}

// defaultValue is one of an answer, of the type of the name.
type defaultValue struct {
	text *node
	is   string
}

func (f *filtering) input(name string) *inputType {
	if f.inputs[name] == nil {
		f.inputs[name] = &inputType{fields: map[string]string{}}
	}
	return f.inputs[name]
}

// defaultsOf notes the default values of an argument or input field.
func (f *filtering) defaultsOf(n *node, is string) {
	for _, m := range n.members {
		if f.defaults[m.name] && m.value.text() != "" {
			f.values = append(f.values, defaultValue{m.value, is})
		}
	}
}

// leaveOutDefaults takes default values out that name what is hidden, once it is known what is shown.
func (f *filtering) leaveOutDefaults() {
	for _, v := range f.values {
		text := v.text.text()
		if f.mentions(text) || strings.Contains(text, "{") && !f.showsAllOf(text, v.is) {
			v.text.setText(nil)
		}
	}
}

// showsAllOf is whether a default value has fields alone that the answer shows. Of a type of which the answer has
// nothing, that can't be known.
func (f *filtering) showsAllOf(text, is string) bool {
	parsed, err := parser.ParseQueryWithTokenLimit(&ast.Source{Input: "query($v:A=" + text + "){a}"}, MaxTokens)
	if err != nil || len(parsed.Operations) != 1 || len(parsed.Operations[0].VariableDefinitions) != 1 {
		return false
	}
	return f.shows(parsed.Operations[0].VariableDefinitions[0].DefaultValue, is)
}

func (f *filtering) shows(value *ast.Value, is string) bool {
	known := f.inputs[is]
	if known != nil && known.kind == "SCALAR" {
		return true // the names in it are nobody else's
	}
	for _, child := range value.Children {
		of := is
		if value.Kind == ast.ObjectValue {
			if known == nil {
				return false
			}
			field, shown := known.fields[child.Name]
			if !shown {
				return false
			}
			of = field
		}
		if !f.shows(child.Value, of) {
			return false
		}
	}
	return true
}

package api

import (
	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json"
)

// allNames stands for all scopes, or for all projects.
const allNames = "all"

// The bounds of lists of names.
const maxNames, maxNameChars = 1000, 256

// Names is a list of names, or all names. In JSON, all names are the
// string "all" and not a list, because a project can have the name all.
type Names struct {
	All  bool
	List []string // nil if the field is absent
}

// Schema implements huma.SchemaProvider.
func (Names) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{OneOf: []*huma.Schema{
		{Type: huma.TypeString, Description: "All of them.", Enum: []any{allNames}},
		{
			Type: huma.TypeArray, Items: &huma.Schema{Type: huma.TypeString, MaxLength: new(maxNameChars)},
			MaxItems: new(maxNames),
		},
	}}
}

// UnmarshalJSON reads a string or a list. It reads "all" as all names, and any other string as a list with
// this name. It reads null as a list with the name "", which nothing has.
func (n *Names) UnmarshalJSON(b []byte) error {
	var text string
	if json.Unmarshal(b, &text) == nil {
		*n = Names{All: text == allNames, List: []string{text}}
		return nil
	}
	return json.Unmarshal(b, &n.List)
}

// NewNames returns Names of one kind: all of them if isAll is true, otherwise names.
func NewNames[N ~string](isAll bool, names []N) Names {
	return Names{All: isAll, List: Map(names, func(name N) string { return string(name) })}
}

// MarshalJSON writes all names as the string "all".
func (n Names) MarshalJSON() ([]byte, error) {
	if n.All {
		return json.Marshal(allNames)
	}
	return json.Marshal(n.List)
}

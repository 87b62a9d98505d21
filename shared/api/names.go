package api

import (
	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json"
)

// all stands for every one of them: scopes, or projects.
const all = "all"

// The bounds of lists of names.
const maxNames, maxNameChars = 1000, 256

// Names are a list of names, or all of them, which is a text and no list: a project
// may be called all.
type Names struct {
	All bool
	Of  []string // nil where nothing was given
}

// Schema implements huma.SchemaProvider.
func (Names) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{OneOf: []*huma.Schema{
		{Type: huma.TypeString, Description: "All of them.", Enum: []any{all}},
		{Type: huma.TypeArray, Items: &huma.Schema{Type: huma.TypeString, MaxLength: new(maxNameChars)}, MaxItems: new(maxNames)},
	}}
}

// UnmarshalJSON tells the two apart. null, which is neither, is a name that nothing has.
func (n *Names) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*n = Names{All: one == all, Of: []string{one}}
		return nil
	}
	return json.Unmarshal(b, &n.Of)
}

// NamesOf are names of one kind, which are all that there are, or are not.
func NamesOf[N ~string](whole bool, of []N) Names {
	return Names{All: whole, Of: Each(of, func(name N) string { return string(name) })}
}

// MarshalJSON writes all as a text.
func (n Names) MarshalJSON() ([]byte, error) {
	if n.All {
		return json.Marshal(all)
	}
	return json.Marshal(n.Of)
}

package graphql

import (
	"strings"

	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/formatter"
)

// Introspection is how the answer to an introspection is read that Amend has made.
type Introspection struct {
	// roots are the keys of the answer that have the introspection and nothing else, at
	// whatever depth; defaults are those of default values in it.
	roots, defaults map[string]bool
}

// mark begins the keys that Amend adds. Clients' own may not begin so.
const mark = "_gatewright"

// The keys that Amend adds to each selection of the introspection, so that each object of the
// answer says what it is, whatever the client has selected and under whatever names.
const (
	markSchema    = mark + "Schema"    // of __Schema: __typename
	markQuery     = mark + "Query"     // of __Schema: the query type
	markType      = mark + "Type"      // of __Type: its name
	markKind      = mark + "Kind"      // of __Type: its kind
	markOf        = mark + "Of"        // of __Type: what it wraps
	markField     = mark + "Field"     // of __Field: its name
	markInput     = mark + "Input"     // of __InputValue: its name
	markIn        = mark + "In"        // of both: the type
	markValue     = mark + "Value"     // of __EnumValue: its name
	markDirective = mark + "Directive" // of __Directive: its name
)

// maxWrapping is how many lists and non-nulls around a type are looked through. Tools ask for
// seven to nine.
const maxWrapping = 10

// leaf is the type of a field of the introspection without a selection.
const leaf = ""

// metaTypes are the types of the introspection with their fields, by the types of these: those of
// all versions of the specification, and what GraphQL.js has beside it. Others may show what
// nothing here knows of.
func metaTypes() map[string]map[string]string {
	return map[string]map[string]string{
		"__Schema": {
			"description": leaf, "types": "__Type", "queryType": "__Type", "mutationType": "__Type",
			"subscriptionType": "__Type", "directives": "__Directive",
		},
		"__Type": {
			"kind": leaf, "name": leaf, "description": leaf, "specifiedByURL": leaf, "specifiedByUrl": leaf, "isOneOf": leaf,
			"fields": "__Field", "interfaces": "__Type", "possibleTypes": "__Type", "enumValues": "__EnumValue",
			"inputFields": "__InputValue", "ofType": "__Type",
		},
		"__Field": {
			"name": leaf, "description": leaf, "isDeprecated": leaf, "deprecationReason": leaf,
			"args": "__InputValue", "type": "__Type",
		},
		"__InputValue": {
			"name": leaf, "description": leaf, "defaultValue": leaf, "isDeprecated": leaf, "deprecationReason": leaf,
			"type": "__Type",
		},
		"__EnumValue": {"name": leaf, "description": leaf, "isDeprecated": leaf, "deprecationReason": leaf},
		"__Directive": {
			"name": leaf, "description": leaf, "isRepeatable": leaf, "locations": leaf, "isDeprecated": leaf, "deprecationReason": leaf,
			"onOperation": leaf, "onFragment": leaf, "onField": leaf, "args": "__InputValue",
		},
	}
}

// marks are the selections that are added, by the type that they are of.
func marks() map[string]ast.SelectionSet {
	named := func(key, name string) *ast.Field { return &ast.Field{Alias: key, Name: name} }
	var of func(key, name string, levels int) *ast.Field
	of = func(key, name string, levels int) *ast.Field {
		f := &ast.Field{Alias: key, Name: name, SelectionSet: ast.SelectionSet{named("name", "name")}}
		if levels > 0 {
			f.SelectionSet = append(f.SelectionSet, of("ofType", "ofType", levels-1))
		}
		return f
	}
	in := of(markIn, "type", maxWrapping)
	return map[string]ast.SelectionSet{
		"__Schema":     {named(markSchema, typenameField), of(markQuery, "queryType", 0)},
		"__Type":       {named(markType, "name"), named(markKind, "kind"), of(markOf, "ofType", maxWrapping-1)},
		"__Field":      {named(markField, "name"), in},
		"__InputValue": {named(markInput, "name"), in},
		"__EnumValue":  {named(markValue, "name")},
		"__Directive":  {named(markDirective, "name")},
	}
}

// Amend has a document that introspects ask for what its answer is filtered by (Hidden.Filter): in
// each selection of the introspection the names of what it selects. Why not filter by what
// a client asks for: it may select the fields of all types without their names, or under
// names of its own. Fields that the introspection of the specification does not have are refused.
//
// It answers the document anew, without its comments.
func Amend(text string) (string, *Introspection, *Error) {
	parsed, refused := parse(text)
	if refused != nil {
		return "", nil, refused
	}
	a := &amender{
		types: metaTypes(), marks: marks(),
		introspection: &Introspection{roots: map[string]bool{}, defaults: map[string]bool{}}, data: map[string]bool{},
	}
	for _, o := range parsed.Operations {
		o.SelectionSet = a.set(o.SelectionSet, "")
	}
	for _, f := range parsed.Fragments {
		f.SelectionSet = a.set(f.SelectionSet, f.TypeCondition)
	}
	if a.refused != nil {
		return "", nil, a.refused
	}
	for key := range a.data {
		delete(a.introspection.roots, key)
	}
	var out strings.Builder
	formatter.NewFormatter(&out, formatter.WithIndent("")).FormatQueryDocument(parsed)
	return out.String(), a.introspection, nil
}

type amender struct {
	types         map[string]map[string]string
	marks         map[string]ast.SelectionSet
	introspection *Introspection
	// data are the keys of fields that are none of the introspection's.
	data    map[string]bool
	refused *Error
}

// set amends a selection of a type: "" for one that is none of the introspection's.
func (a *amender) set(set ast.SelectionSet, of string) ast.SelectionSet {
	for _, selection := range set {
		switch s := selection.(type) {
		case *ast.Field:
			a.field(s, of)
		case *ast.InlineFragment:
			within := of
			if s.TypeCondition != "" {
				within = s.TypeCondition
			}
			s.SelectionSet = a.set(s.SelectionSet, within)
		}
	}
	return append(set, a.marks[of]...)
}

func (a *amender) field(f *ast.Field, of string) {
	fields, meta := a.types[of]
	is := ""
	switch {
	case strings.HasPrefix(f.Alias, mark):
		a.refuse(f, "The name of a field begins with "+mark+", which is kept for the gateway. Choose another alias.")
		return
	case f.Name == schemaField:
		is = "__Schema"
		a.introspection.roots[f.Alias] = true
	case f.Name == typeField:
		is = "__Type"
		a.introspection.roots[f.Alias] = true
	case meta && f.Name != typenameField:
		known, has := fields[f.Name]
		if is = known; !has || (is == leaf) != (len(f.SelectionSet) == 0) {
			a.refuse(f, "The introspection has a field here that the specification has not, and what it shows can't be filtered. Leave it out.")
			return
		}
	case !meta:
		a.data[f.Alias] = true
	}
	if f.Name == "defaultValue" {
		a.introspection.defaults[f.Alias] = true
	}
	if len(f.SelectionSet) > 0 {
		f.SelectionSet = a.set(f.SelectionSet, is)
	}
}

func (a *amender) refuse(f *ast.Field, message string) {
	if a.refused == nil {
		a.refused = refuse(CodeValidation, locate(f.Position), "%s", message)
	}
}

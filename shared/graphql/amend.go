package graphql

import (
	"strings"

	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/lexer"
)

// Introspection is how the answer to an introspection is read that Amend has made.
type Introspection struct {
	// roots are the keys of the answer that have the introspection and nothing else, at
	// whatever depth; defaults are those of default values in it. current are those of input fields without
	// the deprecated ones: that nothing else is left says nothing of their type, and tools ask so unless they are told to.
	roots, defaults, current map[string]bool
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
	markRoot      = mark + "Root"      // beside a field __type: the query type
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

// marks are the selections that are added, by the type that they are of, and those beside a field __type under its name.
func marks() map[string]string {
	var of func(levels int) string
	of = func(levels int) string {
		if levels == 0 {
			return "{name}"
		}
		return "{name ofType" + of(levels-1) + "}"
	}
	named := func(key, name string) string { return " " + key + ":" + name }
	in := named(markIn, "type") + of(maxWrapping)
	return map[string]string{
		"__Schema":     named(markSchema, typenameField) + named(markQuery, "queryType{name}"),
		"__Type":       named(markType, "name") + named(markKind, "kind") + named(markOf, "ofType") + of(maxWrapping-1),
		"__Field":      named(markField, "name") + in,
		"__InputValue": named(markInput, "name") + in,
		"__EnumValue":  named(markValue, "name"),
		"__Directive":  named(markDirective, "name"),
		typeField:      named(markRoot, schemaField) + "{queryType{name}}",
	}
}

// Amend has a document that introspects ask for what its answer is filtered by (Hidden.Filter): in
// each selection of the introspection the names of what it selects. Why not filter by what
// a client asks for: it may select the fields of all types without their names, or under
// names of its own. Fields that the introspection of the specification does not have are refused.
//
// What is added stands before the brackets that end selections; all else of the document stays as it was written.
func Amend(text string) (string, *Introspection, *Error) {
	a := &amender{
		types: metaTypes(), data: map[string]bool{},
		introspection: &Introspection{roots: map[string]bool{}, defaults: map[string]bool{}, current: map[string]bool{}},
	}
	s := scanner{text: text}
	for s.at < len(text) {
		if text[s.at] == '}' {
			a.brackets = append(a.brackets, s.at)
		}
		if refused := s.next(); refused != nil {
			return "", nil, refused
		}
	}
	r := reader{lexer: lexer.New(&ast.Source{Input: text}), amender: a}
	r.document()
	switch {
	case r.refused != nil:
		return "", nil, r.refused
	case r.brackets != len(a.brackets):
		return "", nil, noGraphQL(Location{Line: 1, Column: 1}) // not read as it was scanned
	}
	for key := range a.data {
		delete(a.introspection.roots, key)
	}
	return a.written(text), a.introspection, nil
}

// amender is what a reader tells of a document on its way through it.
type amender struct {
	types         map[string]map[string]string
	introspection *Introspection
	// data are the keys of fields that are none of the introspection's.
	data map[string]bool
	// brackets are where curly ones are closed, in bytes.
	brackets []int
	// of is the type that is selected of: "" for one that is none of the introspection's. typed says that the
	// selection has a field __type.
	of    string
	typed bool
	added []addition
}

// addition is what is added before a bracket: the marks of a type.
type addition struct {
	at    int
	marks string
}

// within begins what is selected of a type, and returns what was selected of before. It is called for nothing where
// nobody amends.
func (a *amender) within(of string) string {
	if a == nil {
		return ""
	}
	before := a.of
	a.of = of
	return before
}

// conditioned is within for a fragment on a type.
func (a *amender) conditioned(on string) string {
	if a == nil {
		return ""
	}
	if on == "" {
		on = a.of
	}
	return a.within(on)
}

// open begins a selection, and returns whether the one around it has a field __type so far.
func (a *amender) open() bool {
	if a == nil {
		return false
	}
	typed := a.typed
	a.typed = false
	return typed
}

// close ends one at the nth bracket that closes.
func (a *amender) close(around bool, n int) {
	if a == nil || n > len(a.brackets) {
		return
	}
	if _, meta := a.types[a.of]; meta {
		a.added = append(a.added, addition{a.brackets[n-1], a.of})
	}
	if a.typed {
		a.added = append(a.added, addition{a.brackets[n-1], typeField})
	}
	a.typed = around
}

// field notes a field, which may ask for what is deprecated as well, and returns the type that is selected of it. The
// error is for one that can't be filtered.
func (a *amender) field(alias, name string, deprecatedToo, selects bool, at Location) (is string, refused *Error) {
	fields, meta := a.types[a.of]
	switch {
	case strings.HasPrefix(alias, mark):
		return "", refuse(CodeValidation, at, "The name of a field begins with "+mark+", which is kept for the gateway. Choose another alias.")
	case name == schemaField:
		is = "__Schema"
		a.introspection.roots[alias] = true
	case name == typeField:
		is = "__Type"
		a.introspection.roots[alias], a.typed = true, true
	case meta && name != typenameField:
		known, has := fields[name]
		if is = known; !has || (is == leaf) == selects {
			return "", refuse(CodeValidation, at, "The introspection has a field here that the specification has not, and what it shows can't be filtered. Leave it out.")
		}
	case !meta:
		a.data[alias] = true
	}
	if name == "defaultValue" {
		a.introspection.defaults[alias] = true
	}
	if meta && name == "inputFields" && !deprecatedToo {
		a.introspection.current[alias] = true
	}
	return is, nil
}

// written is the document with what is added.
func (a *amender) written(text string) string {
	texts := marks()
	var out strings.Builder
	from := 0
	for _, added := range a.added {
		out.WriteString(text[from:added.at])
		out.WriteString(texts[added.marks])
		from = added.at
	}
	out.WriteString(text[from:])
	return out.String()
}

package graphql

import (
	"strings"

	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/lexer"
)

// Introspection describes how to read the response to an introspection that Amend has extended.
type Introspection struct {
	// roots are the response keys that contain only introspection, at any depth. defaultKeys are the keys of default
	// values. nonDeprecated are the keys of lists of input fields that exclude deprecated fields. Tools request these
	// lists by default. If filtering empties such a list, the type can still have deprecated fields.
	roots, defaultKeys, nonDeprecated map[string]bool
}

// markPrefix is the prefix of the keys that Amend adds. Keys of clients must not have it.
const markPrefix = "_gatewright"

// The keys that Amend adds to each selection of the introspection. Each object of the
// response then identifies itself, independent of the client's fields and aliases.
const (
	markSchema    = markPrefix + "Schema"    // of __Schema: __typename
	markQuery     = markPrefix + "Query"     // of __Schema: the query type
	markType      = markPrefix + "Type"      // of __Type: its name
	markKind      = markPrefix + "Kind"      // of __Type: its kind
	markOfType    = markPrefix + "Of"        // of __Type: the type that it wraps
	markField     = markPrefix + "Field"     // of __Field: its name
	markInput     = markPrefix + "Input"     // of __InputValue: its name
	markTypeRef   = markPrefix + "In"        // of __Field and __InputValue: the type
	markValue     = markPrefix + "Value"     // of __EnumValue: its name
	markDirective = markPrefix + "Directive" // of __Directive: its name
	markRoot      = markPrefix + "Root"      // next to a field __type: the query type
)

// maxWrapping is the maximum number of list and non-null wrappers around a type that are removed to find its name.
// Tools request seven to nine.
const maxWrapping = 10

// leaf is the type of introspection fields without a selection.
const leaf = ""

// metaTypes returns the introspection types with their fields and the fields' types. It has the fields of all versions
// of the specification, and additions of GraphQL.js. Amend refuses other fields: they could reveal hidden names.
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
			"name": leaf, "description": leaf, "isRepeatable": leaf, "locations": leaf, "isDeprecated": leaf,
			"deprecationReason": leaf,
			"onOperation":       leaf, "onFragment": leaf, "onField": leaf, "args": "__InputValue",
		},
	}
}

// marks returns the added selections by the type that they belong to. Under
// typeField it returns the selections that are added next to a field __type.
func marks() map[string]string {
	var nestedType func(levels int) string
	nestedType = func(levels int) string {
		if levels == 0 {
			return "{name}"
		}
		return "{name ofType" + nestedType(levels-1) + "}"
	}
	aliased := func(key, name string) string { return " " + key + ":" + name }
	typeRef := aliased(markTypeRef, "type") + nestedType(maxWrapping)
	return map[string]string{
		"__Schema": aliased(markSchema, typenameField) + aliased(markQuery, "queryType{name}"),
		"__Type": aliased(markType, "name") + aliased(markKind, "kind") + aliased(markOfType,
			"ofType") + nestedType(maxWrapping-1),
		"__Field":      aliased(markField, "name") + typeRef,
		"__InputValue": aliased(markInput, "name") + typeRef,
		"__EnumValue":  aliased(markValue, "name"),
		"__Directive":  aliased(markDirective, "name"),
		typeField:      aliased(markRoot, schemaField) + "{queryType{name}}",
	}
}

// Amend extends an introspection so that Hidden.Filter can filter the response: it adds the names of the selected
// objects to each selection of the introspection. A filter that relied on the client's selections would fail: clients
// can select the fields of all types without their names, or under aliases. Amend refuses introspection fields that
// metaTypes does not have, and aliases that begin with markPrefix.
//
// Amend only inserts selections before closing brackets. The rest of the document stays unchanged.
func Amend(text string) (string, *Introspection, *Error) {
	a := &amender{
		types: metaTypes(), dataKeys: map[string]bool{},
		introspection: &Introspection{
			roots: map[string]bool{}, defaultKeys: map[string]bool{},
			nonDeprecated: map[string]bool{},
		},
	}
	s := scanner{text: text}
	for s.at < len(text) {
		if text[s.at] == '}' {
			a.bracketOffsets = append(a.bracketOffsets, s.at)
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
	case r.brackets != len(a.bracketOffsets):
		return "", nil, parseError(Location{Line: 1, Column: 1}) // scanner and reader found different brackets
	}
	for key := range a.dataKeys {
		delete(a.introspection.roots, key)
	}
	return a.apply(text), a.introspection, nil
}

// amender collects what Amend has to add to a document, and the Introspection, while a reader reads the document.
type amender struct {
	types         map[string]map[string]string
	introspection *Introspection
	// dataKeys are the response keys of fields that do not belong to the introspection.
	dataKeys map[string]bool
	// bracketOffsets are the offsets of closing curly brackets, in bytes.
	bracketOffsets []int
	// parent is the type that the selection belongs to. It is "" for types outside the introspection. hasTypeField
	// reports whether the selection has a field __type.
	parent       string
	hasTypeField bool
	additions    []addition
}

// addition is a place where apply inserts text: before the bracket at the offset at. key is the key of the text in the
// result of marks().
type addition struct {
	at  int
	key string
}

// enter sets the type of the current selection and returns the previous type. It does nothing on a nil amender.
func (a *amender) enter(typeName string) string {
	if a == nil {
		return ""
	}
	outer := a.parent
	a.parent = typeName
	return outer
}

// enterFragment is like enter, for a fragment on a type. If on is "", the fragment has the type of the current
// selection.
func (a *amender) enterFragment(on string) string {
	if a == nil {
		return ""
	}
	if on == "" {
		on = a.parent
	}
	return a.enter(on)
}

// open begins a selection. It reports whether the surrounding selection has had a field __type so far. Pass the result
// to close.
func (a *amender) open() bool {
	if a == nil {
		return false
	}
	outer := a.hasTypeField
	a.hasTypeField = false
	return outer
}

// close ends a selection at the nth closing bracket. outer is the result of open for this selection.
func (a *amender) close(outer bool, n int) {
	if a == nil || n > len(a.bracketOffsets) {
		return
	}
	if _, isMeta := a.types[a.parent]; isMeta {
		a.additions = append(a.additions, addition{a.bracketOffsets[n-1], a.parent})
	}
	if a.hasTypeField {
		a.additions = append(a.additions, addition{a.bracketOffsets[n-1], typeField})
	}
	a.hasTypeField = outer
}

// field records a field and returns the type of its selection. includeDeprecated reports whether the field includes
// deprecated items, and selects whether it has a selection. It returns an error for an alias that begins with
// markPrefix, and for a field whose response cannot be filtered.
func (a *amender) field(
	alias, name string, includeDeprecated, selects bool, at Location,
) (fieldType string, refused *Error) {
	fields, isMeta := a.types[a.parent]
	switch {
	case strings.HasPrefix(alias, markPrefix):
		return "", refuse(CodeValidation, at, "The name of a field begins with "+
			markPrefix+", which is kept for the gateway. Choose another alias.")
	case name == schemaField:
		fieldType = "__Schema"
		a.introspection.roots[alias] = true
	case name == typeField:
		fieldType = "__Type"
		a.introspection.roots[alias], a.hasTypeField = true, true
	case isMeta && name != typenameField:
		known, exists := fields[name]
		if fieldType = known; !exists || (fieldType == leaf) == selects {
			return "", refuse(CodeValidation, at, "The introspection has a field here that the specification has not, and "+
				"what it shows can't be filtered. Leave it out.")
		}
	case !isMeta:
		a.dataKeys[alias] = true
	}
	if name == "defaultValue" {
		a.introspection.defaultKeys[alias] = true
	}
	if isMeta && name == "inputFields" && !includeDeprecated {
		a.introspection.nonDeprecated[alias] = true
	}
	return fieldType, nil
}

// apply returns the document with the additions.
func (a *amender) apply(text string) string {
	texts := marks()
	var out strings.Builder
	from := 0
	for _, addition := range a.additions {
		out.WriteString(text[from:addition.at])
		out.WriteString(texts[addition.key])
		from = addition.at
	}
	out.WriteString(text[from:])
	return out.String()
}

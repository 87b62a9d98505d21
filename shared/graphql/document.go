package graphql

import (
	"slices"
	"strconv"
)

// Document is what is known of a document without the schema that it is for.
type Document struct {
	Operations []Operation
	// Tokens is how many there are, comments counted.
	Tokens int
	// Introspects is where the first field __schema or __type stands, the zero Location for
	// nowhere. Fragments that no operation uses count too.
	Introspects Location
	// Loops is where such a field asks for lists within lists within lists of the
	// introspection, whose answers grow with each level; the zero Location for nowhere.
	Loops Location
}

// Operation is one operation of a document.
type Operation struct {
	// Name is "" for an unnamed one.
	Name string
	// Type is query, mutation or subscription.
	Type string
	At   Location
	// Depth is how deep fields are nested: 0 for fields without a selection.
	Depth int
	// Complexity is how many fields there are, but for __typename, those of a fragment
	// counted each time that it is spread. Beyond MaxComplexity it is MaxComplexity.
	Complexity int
	// Free is how many selections there are beside those that Complexity counts: __typename,
	// spreads and inline fragments, counted as fields are.
	Free int
}

// MaxComplexity is where counting ends: the largest number that all readers of JSON have exactly.
const MaxComplexity = 1<<53 - 1

// Operation returns the operation that a request means, nil where servers would refuse the
// name. It is for telling, not for deciding: whatever decides looks at all operations.
func (d *Document) Operation(name string) *Operation {
	if name == "" && len(d.Operations) != 1 {
		return nil
	}
	for i := range d.Operations {
		if name == "" || d.Operations[i].Name == name {
			return &d.Operations[i]
		}
	}
	return nil
}

// Meta fields: of them, __typename alone is in every object.
const (
	schemaField   = "__schema"
	typeField     = "__type"
	typenameField = "__typename"
)

// Analyse parses a document and counts what it asks for. Fields of the names in ignored, and those
// in __schema and __type, add nothing to the depth (contract 4.4).
func Analyse(text string, ignored []string) (*Document, *Error) {
	o, refused := read(text)
	if refused != nil {
		return nil, refused
	}
	w, refused := newWalk(o, ignored)
	if refused != nil {
		return nil, refused
	}
	return w.document()
}

func tooManyTokens() *Error {
	return refuse(CodeValidation, Location{}, "The document has more than %d tokens. Ask for less at once.", MaxTokens)
}

// TooLongIntrospection is the error of documents that introspect and are too long to be amended, the last of them at a
// place.
func TooLongIntrospection(at Location) *Error {
	return refuse(CodeValidation, at, "What introspects here has more than %d tokens, and this route reads all of it anew. Ask for less at once.", MaxAmendedTokens)
}

// TooManyTogether is the error of a batch whose documents have more than MaxTokens together.
func TooManyTogether() *Error {
	return refuse(CodeValidation, Location{}, "The documents of the batch have more than %d tokens together. Ask for less at once.", MaxTokens)
}

func noGraphQL(at Location) *Error {
	return refuse(CodeParse, at, "The document is no GraphQL at line %d, column %d. Correct it there.", at.Line, at.Column)
}

// saturate adds numbers that are not negative, up to MaxComplexity.
func saturate(a, b int) int { return min(a+b, MaxComplexity) }

// Over is the error of a document of which an operation is deeper or more complex than so much, and nil
// for others. A limit below 0 is none.
func (d *Document) Over(depth, complexity int) *Error {
	for i := range d.Operations {
		o := &d.Operations[i]
		switch {
		case depth >= 0 && o.Depth > depth:
			return refuse(CodeDepth, o.At, "%s has a depth of %d, and this route allows %d. Ask for less deeply nested fields, or in several requests.", o.called(), o.Depth, depth)
		case complexity >= 0 && o.Complexity > complexity:
			found := strconv.Itoa(o.Complexity)
			if o.Complexity == MaxComplexity {
				found += " or more"
			}
			return refuse(CodeComplexity, o.At, "%s has a complexity of %s, and this route allows %d. Ask for fewer fields, or in several requests.", o.called(), found, complexity)
		case o.Free > MaxFree:
			return refuse(CodeComplexity, o.At, "%s has more than %d spreads and fields __typename with all of its fragments written out. Spread fewer fragments within others.", o.called(), MaxFree)
		}
	}
	if d.Loops != (Location{}) {
		return refuse(CodeComplexity, d.Loops, "The introspection asks for lists within lists within lists, and this route allows %d. Ask for the fields of types by their names.", maxLists)
	}
	return nil
}

// maxShownName bounds how much of a name is told.
const maxShownName = 64

func (o *Operation) called() string {
	switch {
	case o.Name == "":
		return "The unnamed operation"
	case len(o.Name) > maxShownName:
		return "The operation " + o.Name[:maxShownName] + "…"
	}
	return "The operation " + o.Name
}

// OnlySubscribes is whether all operations of the document are subscriptions: what else is executed of it
// answers at once.
func (d *Document) OnlySubscribes() bool {
	return !slices.ContainsFunc(d.Operations, func(o Operation) bool { return o.Type != "subscription" })
}

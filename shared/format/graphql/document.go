package graphql

import (
	"slices"
	"strconv"
)

// Document has the properties of a document that do not depend on a schema.
type Document struct {
	Operations []Operation
	// Tokens is the number of tokens, including comments.
	Tokens int
	// IntrospectionAt is the place of a field __schema or __type, or the zero Location if there is none. The field can
	// also be in a fragment that no operation uses.
	IntrospectionAt Location
	// DeepIntrospectionAt is the place of a field __schema or __type that exceeds maxLists, or the zero Location if there
	// is none. The response grows with each level of nested lists.
	DeepIntrospectionAt Location
}

// Operation is one operation of a document.
type Operation struct {
	// Name is "" for an unnamed operation.
	Name string
	// Type is query, mutation or subscription.
	Type string
	At   Location
	// Depth is the nesting depth of the fields that have a selection set: 0 for {a}, and 1 for {a{b}}.
	Depth int
	// Complexity is the number of fields, except __typename. The fields of a fragment count each time that the fragment
	// is spread. The maximum is MaxComplexity.
	Complexity int
	// Uncounted is the number of selections that Complexity does not count: __typename, spreads and inline fragments.
	// Those of a fragment count each time that the fragment is spread.
	Uncounted int
}

// MaxComplexity is the number at which counting stops: the largest integer that all JSON readers represent exactly.
const MaxComplexity = 1<<53 - 1

// Operation returns the operation that a request selects, or nil if servers would
// refuse the name. Use it for reports only: decisions must consider all operations.
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

// Meta fields. Only __typename is valid in every object.
const (
	schemaField   = "__schema"
	typeField     = "__type"
	typenameField = "__typename"
)

// Analyze parses a document and computes its cost. Fields with a name in ignored, __schema and __type do not add to
// the depth. The fields within them do not add to it either (contract 4.4).
func Analyze(text string, ignored []string) (*Document, *Error) {
	o, refused := read(text)
	if refused != nil {
		return nil, refused
	}
	w, refused := newCostWalker(o, ignored)
	if refused != nil {
		return nil, refused
	}
	return w.document()
}

func tooManyTokens() *Error {
	return refuse(CodeValidation, Location{}, "The document has more than %d tokens. Ask for less at once.", MaxTokens)
}

// IntrospectionTooLong returns the error for documents with introspection that together have more than
// MaxAmendedTokens. at is the place of the introspection in the last of these documents.
func IntrospectionTooLong(at Location) *Error {
	return refuse(CodeValidation, at, "What introspects here has more than %d tokens, and this route reads all of it "+
		"anew. Ask for less at once.", MaxAmendedTokens)
}

// BatchTooLong returns the error for a batch whose documents together have more than MaxTokens.
func BatchTooLong() *Error {
	return refuse(CodeValidation, Location{},
		"The documents of the batch have more than %d tokens together. Ask for less at once.", MaxTokens)
}

func parseError(at Location) *Error {
	return refuse(CodeParse, at, "The document is no GraphQL at line %d, column %d. Correct it there.", at.Line, at.Column)
}

// addSaturated adds numbers that are not negative, up to MaxComplexity.
func addSaturated(a, b int) int { return min(a+b, MaxComplexity) }

// CheckLimits returns an error if an operation of the document exceeds a limit: depth, complexity or MaxUncounted. It
// also returns an error for an introspection that exceeds maxLists. It returns nil otherwise. A negative depth or
// complexity means no limit.
func (d *Document) CheckLimits(depth, complexity int) *Error {
	for i := range d.Operations {
		o := &d.Operations[i]
		switch {
		case depth >= 0 && o.Depth > depth:
			return refuse(CodeDepth, o.At, "%s has a depth of %d, and this route allows %d. Ask for less deeply nested "+
				"fields, or in several requests.", o.label(), o.Depth, depth)
		case complexity >= 0 && o.Complexity > complexity:
			actual := strconv.Itoa(o.Complexity)
			if o.Complexity == MaxComplexity {
				actual += " or more"
			}
			return refuse(CodeComplexity, o.At, "%s has a complexity of %s, and this route allows %d. Ask for fewer fields, "+
				"or in several requests.", o.label(), actual, complexity)
		case o.Uncounted > MaxUncounted:
			return refuse(CodeComplexity, o.At, "%s has more than %d spreads and fields __typename with all of its fragments "+
				"written out. Spread fewer fragments within others.", o.label(), MaxUncounted)
		}
	}
	if d.DeepIntrospectionAt != (Location{}) {
		return refuse(CodeComplexity, d.DeepIntrospectionAt, "The introspection asks for lists within lists within lists, "+
			"and this route allows %d. Ask for the fields of types by their names.", maxLists)
	}
	return nil
}

// maxShownName is the maximum length of an operation's name in an error, in bytes.
const maxShownName = 64

func (o *Operation) label() string {
	switch {
	case o.Name == "":
		return "The unnamed operation"
	case len(o.Name) > maxShownName:
		return "The operation " + o.Name[:maxShownName] + "…"
	}
	return "The operation " + o.Name
}

// OnlySubscribes reports whether all operations of the document are subscriptions. The response to such a document can
// be a stream of events.
func (d *Document) OnlySubscribes() bool {
	return !slices.ContainsFunc(d.Operations, func(o Operation) bool { return o.Type != "subscription" })
}

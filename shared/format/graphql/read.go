package graphql

import (
	"slices"

	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/lexer"
)

// kind is the kind of a selection.
type kind uint8

const (
	field kind = iota
	spread
	inline
)

// selection is a field, a fragment spread or an inline fragment. The selections inside it follow it in
// outline.selections.
type selection struct {
	name         string // the name of the field (not its alias) or of the spread fragment
	line, column int32
	end          int32 // the index after the selections inside it
	kind         kind
}

func (s *selection) at() Location { return Location{Line: int(s.line), Column: int(s.column)} }

// definition is an operation or a fragment. Its selections have the indices from first up to, but not including, end.
type definition struct {
	operation  ast.Operation // "" for a fragment
	name       string
	at         Location
	first, end int
}

// outline has the parts of a document that determine its cost.
type outline struct {
	selections            []selection
	operations, fragments []definition
	tokens                int
}

// read reads a document within the bounds. It accepts the documents that both scan and gqlparser accept (FuzzDocuments
// compares them), with three exceptions. read refuses documents without an operation, with a letter directly after a
// number, and with "on" in quotation marks after three dots.
//
// read uses the lexer of gqlparser, but not its parser, which builds a tree of the whole document. Building the tree
// takes three times as long as the rest of a request's processing. For a document of 15,000 tokens that is refused in
// the end, it would take twice the time that a refusal may take.
func read(text string) (*outline, *Error) {
	if err := scan(text); err != nil {
		return nil, err
	}
	r := reader{lexer: lexer.New(&ast.Source{Input: text})}
	r.document()
	if r.refused == nil && len(r.operations) == 0 {
		r.refused = refuse(CodeValidation, Location{},
			"The document has no operation. Add a query, a mutation or a subscription.")
	}
	if r.refused != nil {
		return nil, r.refused
	}
	return &r.outline, nil
}

// reader implements the grammar (specification October 2021, 2.3 to 2.12) with the extensions of
// gqlparser: descriptions of operations, fragments and variables, and variables of fragments.
type reader struct {
	outline
	lexer   lexer.Lexer
	token   lexer.Token // the next token
	amender *amender    // nil if the document is not extended
	// brackets is the number of closing curly brackets up to and including the next token. lastClosed is the value that
	// brackets had at the closing bracket of the list that ended last.
	brackets, lastClosed int
	refused              *Error
}

// next advances to the next token that is not a comment. After an error, it does nothing.
func (r *reader) next() {
	for r.refused == nil {
		var err error
		if r.token, err = r.lexer.ReadToken(); err != nil {
			r.token.Kind = lexer.Invalid
		}
		if r.token.Kind == lexer.EOF {
			return
		}
		if r.tokens++; r.tokens > MaxTokens {
			r.refused = tooManyTokens()
		}
		if r.token.Kind == lexer.BraceR {
			r.brackets++
		}
		if r.token.Kind != lexer.Comment {
			return
		}
	}
}

// fail reports a syntax error at the next token, unless an error was reported before.
func (r *reader) fail() {
	if r.refused == nil {
		r.refused = parseError(r.at())
	}
}

func (r *reader) at() Location { return Location{Line: r.token.Pos.Line, Column: r.token.Pos.Column} }

// accept advances past the next token if the token is of this kind, and reports whether it is.
func (r *reader) accept(kind lexer.Type) bool {
	if r.refused != nil || r.token.Kind != kind {
		return false
	}
	r.next()
	return true
}

func (r *reader) expect(kind lexer.Type) {
	if !r.accept(kind) {
		r.fail()
	}
}

func (r *reader) isKeyword(text string) bool {
	return r.token.Kind == lexer.Name && r.token.Value == text
}

func (r *reader) name() string {
	name := r.token.Value
	r.expect(lexer.Name)
	return name
}

// list calls item for each item up to the closing bracket, and advances past this bracket. At least one item is
// required unless allowEmpty is true.
func (r *reader) list(end lexer.Type, allowEmpty bool, item func()) {
	if !allowEmpty && r.token.Kind == end {
		r.fail()
	}
	for r.refused == nil && r.token.Kind != end {
		item()
	}
	r.lastClosed = r.brackets
	r.next()
}

func (r *reader) document() {
	for r.next(); r.refused == nil && r.token.Kind != lexer.EOF; {
		hasDescription := r.description()
		d, on := definition{at: r.at(), first: len(r.selections)}, ""
		switch {
		case r.token.Kind == lexer.BraceL && !hasDescription:
			d.operation = ast.Query
		case r.isKeyword("query"), r.isKeyword("mutation"), r.isKeyword("subscription"):
			d.operation = ast.Operation(r.name())
			if r.token.Kind == lexer.Name {
				d.name = r.name()
			}
			r.variables()
			r.directives()
		case r.isKeyword("fragment"):
			r.next()
			if r.isKeyword("on") {
				r.fail()
			}
			d.name = r.name()
			r.variables()
			if !r.isKeyword("on") {
				r.fail()
			}
			r.next()
			on = r.name()
			r.directives()
		default:
			r.fail()
		}
		r.amender.enter(on)
		r.selectionSet()
		if d.end = len(r.selections); d.operation != "" {
			r.operations = append(r.operations, d)
		} else {
			r.fragments = append(r.fragments, d)
		}
	}
}

func (r *reader) description() bool { return r.accept(lexer.String) || r.accept(lexer.BlockString) }

// selectionSet reads a selection set. It is recursive: scan bounds the
// nesting of brackets, and thereby the depth of the recursion.
func (r *reader) selectionSet() {
	r.expect(lexer.BraceL)
	outer := r.amender.open()
	r.list(lexer.BraceR, false, r.selection)
	if r.refused == nil {
		r.amender.close(outer, r.lastClosed)
	}
}

func (r *reader) selection() {
	if r.accept(lexer.Spread) {
		r.fragment()
		return
	}
	i := r.add(field)
	alias := r.name()
	name := alias
	if r.accept(lexer.Colon) {
		name = r.name()
	}
	r.selections[i].name = name
	outer := r.fieldDetails(alias, name, r.selections[i].at())
	if r.token.Kind == lexer.BraceL {
		r.selectionSet()
	}
	r.amender.enter(outer)
	r.close(i)
}

// fieldDetails reads the arguments and directives of a field and passes the field to
// the amender, if there is one. It returns the type of the surrounding selection.
func (r *reader) fieldDetails(alias, name string, at Location) (outer string) {
	includeDeprecated := r.arguments()
	r.directives()
	if r.amender == nil || r.refused != nil {
		return ""
	}
	fieldType, refused := r.amender.field(alias, name, includeDeprecated, r.token.Kind == lexer.BraceL, at)
	if refused != nil {
		r.refused = refused
	}
	return r.amender.enter(fieldType)
}

// fragment reads a fragment spread or an inline fragment, after its three dots.
func (r *reader) fragment() {
	i, on := r.add(inline), ""
	if r.token.Kind == lexer.Name && r.token.Value != "on" {
		r.selections[i].kind, r.selections[i].name = spread, r.name()
	} else if r.accept(lexer.Name) {
		on = r.name()
	}
	r.directives()
	if r.selections[i].kind == inline {
		outer := r.amender.enterFragment(on)
		r.selectionSet()
		r.amender.enter(outer)
	}
	r.close(i)
}

// add begins a selection at the next token and returns the index of the selection.
func (r *reader) add(kind kind) int {
	if len(r.selections) == cap(r.selections) {
		// Most documents have less than one selection for each 16 bytes, and all have less than one for each two bytes.
		size := len(r.lexer.Input)/16 + 8
		if len(r.selections) > 0 {
			size = min(len(r.lexer.Input)/2, MaxTokens)
		}
		r.selections = slices.Grow(r.selections, size-len(r.selections))
	}
	// Lines and columns are below 128 Ki.
	r.selections = append(r.selections,
		selection{kind: kind, line: int32(r.token.Pos.Line), column: int32(r.token.Pos.Column)}) //nolint:gosec // G115: see above
	return len(r.selections) - 1
}

// close ends the selection with the index i.
func (r *reader) close(i int) {
	r.selections[i].end = int32(len(r.selections)) //nolint:gosec // G115: at most MaxTokens
}

// arguments reads the arguments of a field or directive. It reports whether one of them includes deprecated items.
func (r *reader) arguments() (includeDeprecated bool) {
	if r.accept(lexer.ParenL) {
		r.list(lexer.ParenR, false, func() {
			name := r.name()
			r.expect(lexer.Colon)
			includeDeprecated = includeDeprecated || name == "includeDeprecated" && r.isKeyword("true")
			r.value(false)
		})
	}
	return includeDeprecated
}

// member reads a field of an object: a name and a value.
func (r *reader) member(constant bool) {
	r.name()
	r.expect(lexer.Colon)
	r.value(constant)
}

func (r *reader) directives() {
	for r.accept(lexer.At) {
		r.name()
		r.arguments()
	}
}

func (r *reader) variables() {
	if r.accept(lexer.ParenL) {
		r.list(lexer.ParenR, false, r.variable)
	}
}

func (r *reader) variable() {
	r.description()
	r.expect(lexer.Dollar)
	r.name()
	r.expect(lexer.Colon)
	r.typeReference()
	if r.accept(lexer.Equals) {
		r.value(true)
	}
	r.directives()
}

func (r *reader) typeReference() {
	if r.accept(lexer.BracketL) {
		r.typeReference()
		r.expect(lexer.BracketR)
	} else {
		r.name()
	}
	r.accept(lexer.Bang)
}

// value reads a value. Constants must not contain variables.
func (r *reader) value(constant bool) {
	switch kind := r.token.Kind; kind {
	case lexer.BracketL:
		r.next()
		r.list(lexer.BracketR, true, func() { r.value(constant) })
	case lexer.BraceL:
		r.next()
		r.list(lexer.BraceR, true, func() { r.member(constant) })
	case lexer.Dollar:
		if constant {
			r.fail()
		}
		r.next()
		r.name()
	case lexer.Int, lexer.Float:
		end := r.token.Pos.End
		r.next()
		// A letter directly after a number is invalid in the specification (October 2021, 2.9.1), but gqlparser reads it as a
		// name.
		if r.token.Kind == lexer.Name && r.token.Pos.Start == end {
			r.fail()
		}
	case lexer.String, lexer.BlockString, lexer.Name:
		r.next()
	default:
		r.fail()
	}
}

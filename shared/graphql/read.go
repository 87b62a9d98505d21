package graphql

import (
	"slices"

	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/lexer"
)

// kind is what a selection is.
type kind uint8

const (
	field kind = iota
	spread
	inline
)

// selection is a field, a spread of a fragment or a fragment of its own, with what is selected of it.
type selection struct {
	name         string // of the field, not its alias, or of the fragment that is spread
	line, column int32
	end          int32 // the index behind its own selections, which follow it
	kind         kind
}

func (s *selection) at() Location { return Location{Line: int(s.line), Column: int(s.column)} }

// definition is an operation or a fragment. Its selections are those from first on, up to end.
type definition struct {
	operation  ast.Operation // "" for a fragment
	name       string
	at         Location
	first, end int
}

// outline is of a document what its cost follows from.
type outline struct {
	selections            []selection
	operations, fragments []definition
	tokens                int
}

// read reads a document, within bounds, as gqlparser does, whose lexer it is by: what stands where is decided there.
// Why not by its parser: that one makes a tree of all that a document says, which is three times as much work as all else
// that is done about a request, and 15,000 tokens of a document that is refused in the end cost twice what a refusal may.
// FuzzDocuments holds that both read the same.
func read(text string) (*outline, *Error) {
	if err := scan(text); err != nil {
		return nil, err
	}
	r := reader{lexer: lexer.New(&ast.Source{Input: text})}
	r.document()
	if r.refused == nil && len(r.operations) == 0 {
		r.refused = refuse(CodeValidation, Location{}, "The document has no operation. Add a query, a mutation or a subscription.")
	}
	if r.refused != nil {
		return nil, r.refused
	}
	return &r.outline, nil
}

// reader has the grammar (specification October 2021, 2.3 to 2.12) with what gqlparser takes beyond it: descriptions of
// operations, fragments and variables, and variables of fragments.
type reader struct {
	outline
	lexer   lexer.Lexer
	token   lexer.Token // the next one
	amender *amender    // nil where nobody amends
	// brackets is how many curly ones were closed, up to the next token, closed how many up to the end of what each has read.
	brackets, closed int
	refused          *Error
}

// next goes on to the next token that is no comment. There is none behind an error.
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

// fail refuses the next token.
func (r *reader) fail() {
	if r.refused == nil {
		r.refused = noGraphQL(r.at())
	}
}

func (r *reader) at() Location { return Location{Line: r.token.Pos.Line, Column: r.token.Pos.Column} }

// take goes on behind a token of a kind, if it is the next one.
func (r *reader) take(kind lexer.Type) bool {
	if r.refused != nil || r.token.Kind != kind {
		return false
	}
	r.next()
	return true
}

func (r *reader) expect(kind lexer.Type) {
	if !r.take(kind) {
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

// each reads what stands between two brackets: something at least, where it may not be nothing.
func (r *reader) each(end lexer.Type, nothing bool, one func()) {
	if !nothing && r.token.Kind == end {
		r.fail()
	}
	for r.refused == nil && r.token.Kind != end {
		one()
	}
	r.closed = r.brackets
	r.next()
}

func (r *reader) document() {
	for r.next(); r.refused == nil && r.token.Kind != lexer.EOF; {
		described := r.description()
		d, on := definition{at: r.at(), first: len(r.selections)}, ""
		switch {
		case r.token.Kind == lexer.BraceL && !described:
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
		r.amender.within(on)
		r.set()
		if d.end = len(r.selections); d.operation != "" {
			r.operations = append(r.operations, d)
		} else {
			r.fragments = append(r.fragments, d)
		}
	}
}

func (r *reader) description() bool { return r.take(lexer.String) || r.take(lexer.BlockString) }

// set reads a selection set. It calls itself as deep as brackets are nested, which scan bounds.
func (r *reader) set() {
	r.expect(lexer.BraceL)
	around := r.amender.open()
	r.each(lexer.BraceR, false, r.selection)
	if r.refused == nil {
		r.amender.close(around, r.closed)
	}
}

func (r *reader) selection() {
	if r.take(lexer.Spread) {
		r.fragment()
		return
	}
	i := r.add(field)
	alias := r.name()
	name := alias
	if r.take(lexer.Colon) {
		name = r.name()
	}
	r.selections[i].name = name
	around := r.amended(alias, name, r.selections[i].at())
	if r.token.Kind == lexer.BraceL {
		r.set()
	}
	r.amender.within(around)
	r.close(i)
}

// amended reads the arguments and directives of a field, and has the amender, if there is one, know of it. It returns
// what the field was selected of.
func (r *reader) amended(alias, name string, at Location) (around string) {
	deprecatedToo := r.arguments()
	r.directives()
	if r.amender == nil || r.refused != nil {
		return ""
	}
	is, refused := r.amender.field(alias, name, deprecatedToo, r.token.Kind == lexer.BraceL, at)
	if refused != nil {
		r.refused = refused
	}
	return r.amender.within(is)
}

// fragment reads what follows three dots.
func (r *reader) fragment() {
	i, on := r.add(inline), ""
	if r.token.Kind == lexer.Name && r.token.Value != "on" {
		r.selections[i].kind, r.selections[i].name = spread, r.name()
	} else if r.take(lexer.Name) {
		on = r.name()
	}
	r.directives()
	if r.selections[i].kind == inline {
		around := r.amender.conditioned(on)
		r.set()
		r.amender.within(around)
	}
	r.close(i)
}

// add begins a selection at the next token, and gives its index.
func (r *reader) add(kind kind) int {
	if len(r.selections) == cap(r.selections) {
		// Most documents have less than one for each 16 bytes, and all have less than one for each two.
		size := len(r.lexer.Input)/16 + 8
		if len(r.selections) > 0 {
			size = min(len(r.lexer.Input)/2, MaxTokens)
		}
		r.selections = slices.Grow(r.selections, size-len(r.selections))
	}
	// Lines and columns are below 128 Ki.
	r.selections = append(r.selections, selection{kind: kind, line: int32(r.token.Pos.Line), column: int32(r.token.Pos.Column)}) //nolint:gosec // G115: see above
	return len(r.selections) - 1
}

// close ends a selection.
func (r *reader) close(i int) {
	r.selections[i].end = int32(len(r.selections)) //nolint:gosec // G115: MaxTokens at most
}

// arguments reads those of a field or directive, and reports whether one of them asks for what is deprecated as well.
func (r *reader) arguments() (deprecatedToo bool) {
	if r.take(lexer.ParenL) {
		r.each(lexer.ParenR, false, func() {
			name := r.name()
			r.expect(lexer.Colon)
			deprecatedToo = deprecatedToo || name == "includeDeprecated" && r.isKeyword("true")
			r.value(false)
		})
	}
	return deprecatedToo
}

// member reads a field of an object: a name and a value.
func (r *reader) member(constant bool) {
	r.name()
	r.expect(lexer.Colon)
	r.value(constant)
}

func (r *reader) directives() {
	for r.take(lexer.At) {
		r.name()
		r.arguments()
	}
}

func (r *reader) variables() {
	if r.take(lexer.ParenL) {
		r.each(lexer.ParenR, false, r.variable)
	}
}

func (r *reader) variable() {
	r.description()
	r.expect(lexer.Dollar)
	r.name()
	r.expect(lexer.Colon)
	r.typeReference()
	if r.take(lexer.Equals) {
		r.value(true)
	}
	r.directives()
}

func (r *reader) typeReference() {
	if r.take(lexer.BracketL) {
		r.typeReference()
		r.expect(lexer.BracketR)
	} else {
		r.name()
	}
	r.take(lexer.Bang)
}

// value reads a value: a constant has no variables.
func (r *reader) value(constant bool) {
	switch kind := r.token.Kind; kind {
	case lexer.BracketL:
		r.next()
		r.each(lexer.BracketR, true, func() { r.value(constant) })
	case lexer.BraceL:
		r.next()
		r.each(lexer.BraceR, true, func() { r.member(constant) })
	case lexer.Dollar:
		if constant {
			r.fail()
		}
		r.next()
		r.name()
	case lexer.Int, lexer.Float:
		end := r.token.Pos.End
		r.next()
		// A letter right behind a number is a mistake to the specification (October 2021, 2.9.1), and to gqlparser a name.
		if r.token.Kind == lexer.Name && r.token.Pos.Start == end {
			r.fail()
		}
	case lexer.String, lexer.BlockString, lexer.Name:
		r.next()
	default:
		r.fail()
	}
}

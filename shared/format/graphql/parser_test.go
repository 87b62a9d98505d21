package graphql

import (
	"errors"
	"fmt"

	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
	"github.com/vektah/gqlparser/v2/parser"
)

// parse parses a document within the bounds with gqlparser's parser. read() must accept the same documents, with the
// exceptions in compareWithParser.
func parse(text string) (*ast.QueryDocument, *Error) {
	if err := scan(text); err != nil {
		return nil, err
	}
	parsed, err := parser.ParseQueryWithTokenLimit(&ast.Source{Input: text}, MaxTokens)
	if err != nil {
		return nil, syntaxError(err)
	}
	if len(parsed.Operations) == 0 {
		return nil, refuse(CodeValidation, Location{},
			"The document has no operation. Add a query, a mutation or a subscription.")
	}
	return parsed, nil
}

// syntaxError returns the error of this package for a syntax error of gqlparser, with the same place.
func syntaxError(err error) *Error {
	at := Location{}
	if parsed, ok := errors.AsType[*gqlerror.Error](err); ok {
		if parsed.Message == fmt.Sprintf("exceeded token limit of %d", MaxTokens) {
			return tooManyTokens()
		}
		if len(parsed.Locations) > 0 {
			at = Location{Line: parsed.Locations[0].Line, Column: parsed.Locations[0].Column}
		}
	}
	return parseError(at)
}

func locate(p *ast.Position) Location {
	if p == nil {
		return Location{}
	}
	return Location{Line: p.Line, Column: p.Column}
}

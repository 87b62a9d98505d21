// Package graphql reads what clients send to GraphQL servers, as strictly as a gateway has to
// which decides about it: bodies (request.go), documents and what they cost (document.go,
// cost.go), and answers: what an introspection may show (amend.go, filter.go), and of what
// class their errors are (answer.go).
//
// It is no GraphQL server: it knows no schema, executes nothing and speaks no HTTP. The
// tokens of documents are those of github.com/vektah/gqlparser (read.go); what parsers are known to read in two
// ways is refused before (scan.go), since what is checked here is executed elsewhere, by whatever
// reads it there. For the same reason nothing goes on but what Body.Encode writes.
//
// Read this file first, then request.go and document.go. The rules are those of specification 2
// ("GraphQL routes"), contract 4.4 and design, section 7; docs/graphql.md has them by
// examples.
package graphql

import (
	"encoding/json"
	"fmt"
)

// Bounds of what is read.
const (
	// MaxBodyBytes is how large a request's body may be.
	MaxBodyBytes = 1 << 20
	// MaxDocumentBytes is how long a document may be: what is read of it costs a millisecond or two then.
	MaxDocumentBytes = 128 << 10
	// MaxNames and MaxValues are how many names of members, and how many values, a body may have, and
	// MaxNameBytes how long the names may be together. Each name is compared with the others of its object.
	MaxNames     = 10_000
	MaxNameBytes = 256 << 10
	MaxValues    = 50_000
	// MaxEscapes is how many characters of a body may be escaped.
	MaxEscapes = 50_000
	// MaxBatch is how many requests a body may have, in an array.
	MaxBatch = 10
	// MaxTokens is how many tokens a document may have, comments counted, and all documents of a body together.
	MaxTokens = 15_000
	// MaxAmendedTokens is how many those documents of a body may have together that Amend is asked for: it makes a
	// tree of each. What tools ask for has 200 to 500.
	MaxAmendedTokens = 4_000
	// MaxFree is how many selections an operation may have that complexity does not count, with all of its
	// fragments written out: what fragments that spread the next one twice have without any field
	// but __typename. Not every server looks at a fragment once.
	MaxFree = 50_000
	// MaxNesting is how deep brackets may be nested, in a document and in a body. Parsers behind
	// us recurse, and not all of them end with an error.
	MaxNesting = 128
)

// The codes of errors, in their extensions. Those that others have too mean the same there
// (Apollo's servers have the first four).
const (
	CodeParse      = "GRAPHQL_PARSE_FAILED"
	CodeValidation = "GRAPHQL_VALIDATION_FAILED"
	CodeInput      = "BAD_USER_INPUT"
	// CodePersisted has Apollo's clients send the query that they left out.
	CodePersisted  = "PERSISTED_QUERY_NOT_SUPPORTED"
	CodeDepth      = "DEPTH_LIMIT_EXCEEDED"
	CodeComplexity = "COMPLEXITY_LIMIT_EXCEEDED"
)

// Error is why a request is refused, in the form that GraphQL's clients read. Of the request it
// repeats names of operations at most.
type Error struct {
	Message string
	// At is the place in the document, the zero Location for none.
	At   Location
	Code string
}

// Location is a place in a document. Both count from 1, columns in characters.
type Location struct {
	Line   int `json:"line"`
	Column int `json:"column"`
}

func (e *Error) Error() string { return e.Message }

func refuse(code string, at Location, format string, args ...any) *Error {
	return &Error{Message: fmt.Sprintf(format, args...), At: at, Code: code}
}

// OfBatch is the error of one request of several, by its index.
func (e *Error) OfBatch(i int) *Error {
	return &Error{Message: fmt.Sprintf("Request %d of the batch: %s", i+1, e.Message), At: e.At, Code: e.Code}
}

// Body is the answer that tells a client of the error (contract 4.4).
func (e *Error) Body() []byte {
	type told struct {
		Message    string            `json:"message"`
		Locations  []Location        `json:"locations,omitempty"`
		Extensions map[string]string `json:"extensions"`
	}
	one := told{Message: e.Message, Extensions: map[string]string{"code": e.Code}}
	if e.At != (Location{}) {
		one.Locations = []Location{e.At}
	}
	body, err := json.Marshal(map[string][]told{"errors": {one}})
	if err != nil {
		panic("graphql: encode an error: " + err.Error()) // texts and numbers always encode
	}
	return body
}

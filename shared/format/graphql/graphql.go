// Package graphql reads the requests and responses of GraphQL clients for a gateway that allows, refuses and filters
// them. It reads the bodies of requests (request.go), and computes the cost of documents (document.go, cost.go). In
// responses, it filters introspections and errors (amend.go, filter.go, event.go) and reads the codes of errors
// (result.go).
//
// The package is not a GraphQL server: it has no schema, executes nothing and does not use HTTP. The lexer of
// github.com/vektah/gqlparser splits documents into tokens (read.go). The upstream reads the same documents with
// another parser. The package therefore refuses texts that parsers are known to read differently (scan.go), and the
// gateway forwards only the output of Response.Encode.
//
// Read this file first, then request.go and document.go. Specification 2 ("GraphQL routes"),
// contract 4.4 and section 7 of the design have the rules; docs/graphql.md has examples.
package graphql

import (
	"encoding/json"
	"fmt"
)

// Bounds of requests.
const (
	// MaxBodyBytes is the maximum size of a request's body.
	MaxBodyBytes = 1 << 20
	// MaxDocumentBytes is the maximum length of a document. Reading such a document takes a millisecond or two.
	MaxDocumentBytes = 128 << 10
	// MaxNames is the maximum number of member names in a body, because each name is compared with the other names of
	// its object. MaxNameBytes is the maximum length of all names together, and MaxValues the maximum number of values.
	MaxNames     = 10_000
	MaxNameBytes = 256 << 10
	MaxValues    = 50_000
	// MaxEscapes is the maximum number of escaped characters in a body.
	MaxEscapes = 50_000
	// MaxBatch is the maximum number of requests of a body, in an array.
	MaxBatch = 10
	// MaxTokens is the maximum number of tokens of all documents of a body together. Comments count as tokens.
	MaxTokens = 15_000
	// MaxAmendedTokens is the maximum number of tokens of all documents of a body that Amend extends. The
	// introspections of tools have 200 to 500 tokens.
	MaxAmendedTokens = 4_000
	// MaxUncounted is the maximum number of selections of an operation that complexity does not count, with all
	// fragments expanded. In a chain of fragments that each spread the next one twice, their number doubles with each
	// fragment, and some servers visit a fragment each time that it is spread.
	MaxUncounted = 50_000
	// MaxNesting is the maximum nesting of brackets, in a document and in a body.
	// Upstream parsers are recursive, and some crash instead of returning an error.
	MaxNesting = 128
)

// The codes of errors, in their extensions. The first four are codes of Apollo's servers, with the same meaning.
const (
	CodeParse      = "GRAPHQL_PARSE_FAILED"
	CodeValidation = "GRAPHQL_VALIDATION_FAILED"
	CodeInput      = "BAD_USER_INPUT"
	// CodePersisted makes Apollo's clients repeat the request with the query, which they had replaced with its hash.
	CodePersisted  = "PERSISTED_QUERY_NOT_SUPPORTED"
	CodeDepth      = "DEPTH_LIMIT_EXCEEDED"
	CodeComplexity = "COMPLEXITY_LIMIT_EXCEEDED"
)

// Error is the reason why a request is refused. Its method Response encodes it for GraphQL clients. The names of
// operations are the only part of the request that its message can repeat.
type Error struct {
	Message string
	// At is the place in the document, or the zero Location if the error has no place.
	At   Location
	Code string
}

// Location is a place in a document. Line and Column begin at 1. Column counts characters.
type Location struct {
	Line   int `json:"line"`
	Column int `json:"column"`
}

func (e *Error) Error() string { return e.Message }

func refuse(code string, at Location, format string, args ...any) *Error {
	return &Error{Message: fmt.Sprintf(format, args...), At: at, Code: code}
}

// WithBatchIndex returns the error with a message that also
// names the request. i is the index of the request in its batch.
func (e *Error) WithBatchIndex(i int) *Error {
	return &Error{Message: fmt.Sprintf("Request %d of the batch: %s", i+1, e.Message), At: e.At, Code: e.Code}
}

// Response returns the response that reports the error to a client (contract 4.4).
func (e *Error) Response() []byte {
	type errorJSON struct {
		Message    string            `json:"message"`
		Locations  []Location        `json:"locations,omitempty"`
		Extensions map[string]string `json:"extensions"`
	}
	entry := errorJSON{Message: e.Message, Extensions: map[string]string{"code": e.Code}}
	if e.At != (Location{}) {
		entry.Locations = []Location{e.At}
	}
	body, err := json.Marshal(map[string][]errorJSON{"errors": {entry}})
	if err != nil {
		panic("graphql: encode an error: " + err.Error()) // strings and numbers can always be encoded
	}
	return body
}

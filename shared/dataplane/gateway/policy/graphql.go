package policy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/gatewright/gatewright/shared/base/bodies"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/pipeline"
	"github.com/gatewright/gatewright/shared/format/graphql"
)

// GraphQLModule is the module of the policies for GraphQL routes.
const GraphQLModule = "$import(@gatewright/graphql)"

// The types of the policies for GraphQL routes (contract 4.4).
const (
	complexityType    = "graphql-complexity-limit-inbound"
	introspectionType = "graphql-disable-introspection-inbound"
	filterType        = "graphql-introspection-filter-outbound"
	analyticsType     = "graphql-analytics-outbound"
)

// The content types of a complete GraphQL response.
const (
	jsonType     = "application/json"
	responseType = "application/graphql-response+json"
)

// graphQLReader reads the bodies of GraphQL requests for the policies of a route.
type graphQLReader struct{ documents *graphql.Cache }

// read parses the exchange's body into x.GraphQL, unless an earlier policy has parsed it. It then replaces the
// body with an encoding of the parsed requests, because servers differ in how they interpret duplicate names
// and where they look for a query. With the original body, each of these differences could bypass the checks.
//
// For an invalid request it returns a response: a problem if the HTTP request
// is invalid, or GraphQL errors if its body or documents are invalid.
func (g *graphQLReader) read(x *pipeline.Exchange) *http.Response {
	if x.GraphQL != nil {
		return nil
	}
	if response := checkForm(x); response != nil {
		return response
	}
	raw, err := bodies.Read(x.Context, x.Body, x.ContentLength, graphql.MaxBodyBytes)
	if sizeErr, isTooLarge := errors.AsType[*http.MaxBytesError](err); isTooLarge &&
		sizeErr.Limit == graphql.MaxBodyBytes {
		return tooLargeForGraphQL(x)
	}
	if err != nil {
		if response := x.RefuseBody(err); response != nil {
			return response
		}
		x.Cause = fmt.Errorf("read a GraphQL request: %w", err)
		return x.Problem(http.StatusBadRequest, "The body could not be read to its end. Send it again.")
	}
	body, refused := graphql.Decode(raw)
	if refused != nil {
		return refuseGraphQL(refused)
	}
	x.GraphQL = &pipeline.GraphQL{Body: body, Documents: make([]*graphql.Document, len(body.Requests))}
	tokens := 0
	for i := range body.Requests {
		document, refused := g.documents.Analyze(body.Requests[i].Query, nil)
		if refused != nil {
			return refuseGraphQL(inBatch(body, i, refused))
		}
		x.GraphQL.Documents[i] = document
		if tokens += document.Tokens; tokens > graphql.MaxTokens {
			return refuseGraphQL(graphql.BatchTooLong())
		}
	}
	x.SetBody(func() ([]byte, *http.Response) {
		encoded, refused := body.Encode()
		if refused != nil {
			return nil, refuseGraphQL(refused)
		}
		return encoded, nil
	}, jsonType)
	return nil
}

func tooLargeForGraphQL(x *pipeline.Exchange) *http.Response {
	return x.Problem(http.StatusRequestEntityTooLarge, fmt.Sprintf("Send a GraphQL request of at most %d bytes.",
		graphql.MaxBodyBytes))
}

// checkForm returns a problem if a server could find another GraphQL
// request than the one in the body, for example in the query string.
func checkForm(x *pipeline.Exchange) *http.Response {
	if x.Method != http.MethodPost {
		response := x.Problem(http.StatusMethodNotAllowed, "This is a GraphQL route. Send its requests by POST.")
		response.Header["Allow"] = []string{http.MethodPost}
		return response
	}
	if x.ContentLength > graphql.MaxBodyBytes {
		return tooLargeForGraphQL(x)
	}
	if !isJSONRequest(x.Header["Content-Type"]) {
		return x.Problem(http.StatusUnsupportedMediaType, "This GraphQL route takes JSON in UTF-8 and nothing else. Send "+
			"the header Content-Type: application/json.")
	}
	for _, encoding := range x.Header["Content-Encoding"] {
		if !strings.EqualFold(strings.TrimSpace(encoding), "identity") {
			response := x.Problem(http.StatusUnsupportedMediaType,
				"This GraphQL route takes no compressed bodies. Send the body as it is, without Content-Encoding.")
			response.Header["Accept-Encoding"] = []string{"identity"} // RFC 9110, section 12.5.3
			return response
		}
	}
	if !isHarmlessQuery(x.Query) {
		return x.Problem(http.StatusBadRequest, "The address of this GraphQL request has parameters that some servers take "+
			"for the request itself. Send query, operationName, variables, extensions and ids of documents in the body alone.")
	}
	return nil
}

// isJSONRequest reports whether there is one Content-Type field, with a type for JSON in UTF-8.
// If the content type were optional, a browser's form could send requests with a user's cookies.
func isJSONRequest(values []string) bool {
	if len(values) != 1 {
		return false
	}
	kind, parameters, err := mime.ParseMediaType(values[0])
	if err != nil || kind != jsonType && kind != responseType {
		return false
	}
	charset, exists := parameters["charset"]
	return !exists || strings.EqualFold(charset, "utf-8") || strings.EqualFold(charset, "utf8")
}

// isHarmlessQuery reports whether a query string has no parameter that a server could read as a GraphQL
// request. Parsers of query strings differ: some split at ";", some read "query[]" as query, some ignore case.
func isHarmlessQuery(raw string) bool {
	for pair := range strings.FieldsFuncSeq(raw, func(r rune) bool { return r == '&' || r == ';' }) {
		name, _, _ := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(name)
		if err != nil {
			return false
		}
		name, _, _ = strings.Cut(name, "[")
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "query", "operationname", "variables", "extensions", "id", "documentid", "doc_id", "queryid", "hash":
			return false
		}
	}
	return true
}

// refuseGraphQL returns a response with GraphQL errors (contract 4.4: 400, and application/json).
func refuseGraphQL(e *graphql.Error) *http.Response {
	body := e.Response()
	return &http.Response{
		StatusCode: http.StatusBadRequest,
		Proto:      "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{
			"Content-Type":   {jsonType},
			"Content-Length": {strconv.Itoa(len(body))},
		},
		ContentLength: int64(len(body)),
		Body:          io.NopCloser(bytes.NewReader(body)),
	}
}

// inBatch adds the index of the request to an error if the body is a batch.
func inBatch(b *graphql.Body, i int, e *graphql.Error) *graphql.Error {
	if !b.Batch {
		return e
	}
	return e.WithBatchIndex(i)
}

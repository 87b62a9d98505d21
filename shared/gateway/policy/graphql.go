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

	"github.com/gatewright/gatewright/shared/bodies"
	"github.com/gatewright/gatewright/shared/gateway/pipeline"
	"github.com/gatewright/gatewright/shared/graphql"
)

// GraphQLModule is where the policies of GraphQL routes are.
const GraphQLModule = "$import(@gatewright/graphql)"

// The types of the policies of GraphQL routes (contract 4.4).
const (
	complexityType    = "graphql-complexity-limit-inbound"
	introspectionType = "graphql-disable-introspection-inbound"
	filterType        = "graphql-introspection-filter-outbound"
	analyticsType     = "graphql-analytics-outbound"
)

// The types of an answer in one piece.
const (
	jsonType     = "application/json"
	responseType = "application/graphql-response+json"
)

// graphQLReader reads the bodies of GraphQL requests for the policies of a route.
type graphQLReader struct{ documents *graphql.Cache }

// read makes the exchange's GraphQL of its body, unless a policy before has. What goes on is what
// was read, written anew: servers differ in what they make of a name that comes twice, and in where
// they look for a query, and each of these ways would lead past the checks.
//
// It answers a response for what is no GraphQL request: a problem for what is wrong with it
// as one of HTTP, GraphQL's errors for what is wrong with its documents.
func (g *graphQLReader) read(x *pipeline.Exchange) *http.Response {
	if x.GraphQL != nil {
		return nil
	}
	if response := checkForm(x); response != nil {
		return response
	}
	sent, err := bodies.Read(x.Context, x.Body, x.ContentLength, graphql.MaxBodyBytes)
	if over, large := errors.AsType[*http.MaxBytesError](err); large && over.Limit == graphql.MaxBodyBytes {
		return tooLargeForGraphQL(x)
	}
	if err != nil {
		if response := x.RefuseBody(err); response != nil {
			return response
		}
		x.Cause = fmt.Errorf("read a GraphQL request: %w", err)
		return x.Problem(http.StatusBadRequest, "The body could not be read to its end. Send it again.")
	}
	body, refused := graphql.Decode(sent)
	if refused != nil {
		return refuseGraphQL(refused)
	}
	x.GraphQL = &pipeline.GraphQL{Body: body, Documents: make([]*graphql.Document, len(body.Requests))}
	tokens := 0
	for i := range body.Requests {
		document, refused := g.documents.Analyse(body.Requests[i].Query, nil)
		if refused != nil {
			return refuseGraphQL(ofBatch(body, i, refused))
		}
		x.GraphQL.Documents[i] = document
		if tokens += document.Tokens; tokens > graphql.MaxTokens {
			return refuseGraphQL(graphql.TooManyTogether())
		}
	}
	x.SetBody(func() ([]byte, *http.Response) {
		written, refused := body.Encode()
		if refused != nil {
			return nil, refuseGraphQL(refused)
		}
		return written, nil
	}, jsonType)
	return nil
}

func tooLargeForGraphQL(x *pipeline.Exchange) *http.Response {
	return x.Problem(http.StatusRequestEntityTooLarge, fmt.Sprintf("Send a GraphQL request of at most %d bytes.", graphql.MaxBodyBytes))
}

// checkForm answers a problem for a request that some server could take for another one than the
// one in its body.
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
		return x.Problem(http.StatusUnsupportedMediaType, "This GraphQL route takes JSON in UTF-8 and nothing else. Send the header Content-Type: application/json.")
	}
	for _, encoding := range x.Header["Content-Encoding"] {
		if !strings.EqualFold(strings.TrimSpace(encoding), "identity") {
			response := x.Problem(http.StatusUnsupportedMediaType, "This GraphQL route takes no compressed bodies. Send the body as it is, without Content-Encoding.")
			response.Header["Accept-Encoding"] = []string{"identity"} // RFC 9110, section 12.5.3
			return response
		}
	}
	if !leavesQueryToBody(x.Query) {
		return x.Problem(http.StatusBadRequest, "The address of this GraphQL request has parameters that some servers take for the request itself. Send query, operationName, variables, extensions and ids of documents in the body alone.")
	}
	return nil
}

// isJSONRequest is whether the one content type means JSON in UTF-8. Without one, a browser's form could
// send requests with the cookies of a user.
func isJSONRequest(values []string) bool {
	if len(values) != 1 {
		return false
	}
	kind, parameters, err := mime.ParseMediaType(values[0])
	if err != nil || kind != jsonType && kind != responseType {
		return false
	}
	charset, has := parameters["charset"]
	return !has || strings.EqualFold(charset, "utf-8") || strings.EqualFold(charset, "utf8")
}

// leavesQueryToBody is whether no server finds a GraphQL request in a query string. Parsers of these
// differ: some split at ";", some read "query[]" as query, some fold cases.
func leavesQueryToBody(raw string) bool {
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

// refuseGraphQL answers GraphQL's errors (contract 4.4: 400, and application/json).
func refuseGraphQL(e *graphql.Error) *http.Response {
	body := e.Body()
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

// ofBatch tells which request of several an error is of.
func ofBatch(b *graphql.Body, i int, e *graphql.Error) *graphql.Error {
	if !b.Batch {
		return e
	}
	return e.OfBatch(i)
}

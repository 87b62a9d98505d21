package policy

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/gatewright/gatewright/shared/dataplane/gateway/options"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/pipeline"
	"github.com/gatewright/gatewright/shared/format/graphql"
	"github.com/gatewright/gatewright/shared/format/project"
)

// filterOptions are the options of graphql-introspection-filter-outbound (contract 4.4).
type filterOptions struct {
	ExcludeTypes []string `json:"excludeTypes"`
	// ExcludeTypeFields has lists of names by type: names of fields, input fields and enum values.
	ExcludeTypeFields map[string]json.RawMessage `json:"excludeTypeFields"`
}

// maxExcluded limits the number of names in a filter.
const maxExcluded = 2_000

// introspectionFilter removes excluded types and fields from introspection results, and from errors that reveal them.
type introspectionFilter struct {
	graphQLReader
	hidden *graphql.Hidden
}

var (
	_ pipeline.Outbound = (*introspectionFilter)(nil)
	_ pipeline.Preparer = (*introspectionFilter)(nil)
)

func newIntrospectionFilter(_ string, raw json.RawMessage, s *Setup) (Provisioned, []project.Problem) {
	var o filterOptions
	problems := options.Read(raw, &o)
	count := len(o.ExcludeTypes)
	check := func(pointer, name string) {
		if !graphQLName().MatchString(name) {
			problems = append(problems, options.Problem(pointer, "Write a name of the schema: letters, digits and _."))
		}
	}
	for i, name := range o.ExcludeTypes {
		check("/excludeTypes/"+strconv.Itoa(i), name)
	}
	fields := map[string][]string{}
	for _, typeName := range slices.Sorted(maps.Keys(o.ExcludeTypeFields)) {
		pointer := options.Member("/excludeTypeFields", typeName)
		var names []string
		problems = append(problems, options.ReadMember(pointer, o.ExcludeTypeFields[typeName], &names, "")...)
		check(pointer, typeName)
		for i, name := range names {
			check(pointer+"/"+strconv.Itoa(i), name)
		}
		fields[typeName] = names
		count += len(names)
	}
	switch {
	case count > maxExcluded:
		problems = append(problems, options.Problem("", "Name at most %d types and fields.", maxExcluded))
	case count == 0 && len(problems) == 0:
		problems = append(problems,
			options.Problem("", `Name types in "excludeTypes" or fields in "excludeTypeFields": nothing is hidden otherwise.`))
	}
	if s == nil || len(problems) > 0 {
		return Provisioned{}, problems
	}
	return Provisioned{Outbound: &introspectionFilter{
		graphQLReader{s.Documents},
		graphql.NewHidden(o.ExcludeTypes, fields),
	}}, nil
}

// Prepare adds the fields to introspections that Outbound needs to filter the result. It makes the upstream send a
// response that the filter can read. It refuses introspections that are too long.
func (f *introspectionFilter) Prepare(x *pipeline.Exchange) *http.Response {
	if response := f.read(x); response != nil {
		return response
	}
	body, introspects, tokens := x.GraphQL.Body, false, 0
	x.GraphQL.Introspections = make([]*graphql.Introspection, len(body.Requests))
	for i, document := range x.GraphQL.Documents {
		if document.IntrospectionAt == (graphql.Location{}) {
			continue
		}
		if tokens += document.Tokens; tokens > graphql.MaxAmendedTokens {
			return refuseGraphQL(inBatch(body, i, graphql.IntrospectionTooLong(document.IntrospectionAt)))
		}
		amended, introspection, refused := graphql.Amend(body.Requests[i].Query)
		if refused != nil {
			return refuseGraphQL(inBatch(body, i, refused))
		}
		// The extensions may contain the hash of the original document.
		body.Requests[i].Query, body.Requests[i].Extensions = amended, nil
		x.GraphQL.Introspections[i], introspects = introspection, true
	}
	streams := !introspects && subscribes(x.GraphQL)
	if !streams { // request a response in one piece, neither in parts nor as events
		x.Header["Accept"] = []string{acceptSingleResponse(x.Header["Accept"])}
	}
	delete(x.Header, "Range")
	delete(x.Header, "If-Range")
	requestReadableEncoding(x)
	if streams { // filterEvents reads uncompressed lines
		x.Header["Accept-Encoding"] = []string{"identity"}
	}
	return nil
}

// subscribes reports whether any of the documents has only subscriptions. The response to such a document may be a
// stream.
func subscribes(g *pipeline.GraphQL) bool {
	return slices.ContainsFunc(g.Documents, (*graphql.Document).OnlySubscribes)
}

// acceptSingleResponse returns the Accept field for a response in one piece. It contains responseType only if
// the client accepts it, because servers choose statuses and codes by the type (GraphQL over HTTP, "Response").
func acceptSingleResponse(accepted []string) string {
	for _, value := range accepted {
		for part := range strings.SplitSeq(value, ",") {
			if kind, _, _ := strings.Cut(part, ";"); strings.EqualFold(strings.TrimSpace(kind), responseType) {
				return responseType + ", " + jsonType + ";q=0.9"
			}
		}
	}
	return jsonType
}

// maxFilteredBytes limits the size of a response that Outbound reads completely: large schemas take a few megabytes.
const maxFilteredBytes = 16 << 20

// Outbound filters the response. A stream of events is filtered line by line. A response that can be neither an
// introspection result nor an error is streamed without filtering. Any other response is read completely, and
// is sent unchanged if it has no excluded names.
func (f *introspectionFilter) Outbound(x *pipeline.Exchange, r *http.Response) *http.Response {
	if x.GraphQL == nil || x.GraphQL.Introspections == nil || r.StatusCode == http.StatusSwitchingProtocols {
		return r
	}
	introspects := slices.ContainsFunc(x.GraphQL.Introspections, func(i *graphql.Introspection) bool { return i != nil })
	if !introspects && isStream(r) {
		return f.filterEvents(x, r)
	}
	gr, err := openResponse(r)
	switch isJSON := isJSONResponse(r); {
	case introspects:
	case err == nil && (gr.startsWithData() || !isJSON && !gr.startsAsJSON()):
		// The server has executed the request, so the response has no
		// validation error, or the response is not a GraphQL response.
		gr.restore(r)
		return r
	case err != nil && !isJSON:
		gr.restore(r)
		return r
	}
	var text []byte
	if err == nil {
		text, err = gr.readAll(maxFilteredBytes)
	}
	if err != nil {
		return f.badResponse(x, r, err)
	}
	filtered, changed, err := f.hidden.Filter(text, x.GraphQL.Introspections, requestedNames(x.GraphQL.Body))
	switch {
	case errors.Is(err, graphql.ErrQueryTypeHidden):
		_ = r.Body.Close()
		return x.Problem(http.StatusForbidden, noIntrospection)
	case err != nil && (introspects || f.hidden.MayReveal(text)):
		return f.badResponse(x, r, err)
	case err != nil || !changed:
		gr.restore(r)
	default:
		pipeline.SetResponseBody(r, filtered)
	}
	return r
}

func (f *introspectionFilter) badResponse(x *pipeline.Exchange, r *http.Response, err error) *http.Response {
	_ = r.Body.Close()
	x.Cause = err
	return x.Problem(http.StatusBadGateway, "The upstream's answer can't be read, and something in it may have to be "+
		"left out. Its operator has to have it answer GraphQL requests in JSON, uncompressed or by gzip.")
}

package policy

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/gatewright/gatewright/shared/gateway/options"
	"github.com/gatewright/gatewright/shared/gateway/pipeline"
	"github.com/gatewright/gatewright/shared/graphql"
	"github.com/gatewright/gatewright/shared/project"
)

// filterOptions are those of graphql-introspection-filter-outbound (contract 4.4).
type filterOptions struct {
	ExcludeTypes []string `json:"excludeTypes"`
	// ExcludeTypeFields has names of fields, input fields and enum values by their types.
	ExcludeTypeFields map[string]json.RawMessage `json:"excludeTypeFields"`
}

// maxExcluded bounds the names of a filter.
const maxExcluded = 2_000

// introspectionFilter takes types and fields out of what the introspection shows.
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
	named := len(o.ExcludeTypes)
	check := func(pointer, name string) {
		if !graphQLName().MatchString(name) {
			problems = append(problems, options.Problem(pointer, "Write a name of the schema: letters, digits and _."))
		}
	}
	for i, name := range o.ExcludeTypes {
		check("/excludeTypes/"+strconv.Itoa(i), name)
	}
	fields := map[string][]string{}
	for _, of := range slices.Sorted(maps.Keys(o.ExcludeTypeFields)) {
		pointer := options.Member("/excludeTypeFields", of)
		var names []string
		problems = append(problems, options.ReadMember(pointer, o.ExcludeTypeFields[of], &names, "")...)
		check(pointer, of)
		for i, name := range names {
			check(pointer+"/"+strconv.Itoa(i), name)
		}
		fields[of] = names
		named += len(names)
	}
	switch {
	case named > maxExcluded:
		problems = append(problems, options.Problem("", "Name at most %d types and fields.", maxExcluded))
	case named == 0 && len(problems) == 0:
		problems = append(problems, options.Problem("", `Name types in "excludeTypes" or fields in "excludeTypeFields": nothing is hidden otherwise.`))
	}
	if s == nil || len(problems) > 0 {
		return Provisioned{}, problems
	}
	return Provisioned{Outbound: &introspectionFilter{graphQLReader{s.Documents}, graphql.Hide(o.ExcludeTypes, fields)}}, nil
}

// Prepare has introspections ask for what their answers are filtered by, and the upstream answer
// what can be read.
func (p *introspectionFilter) Prepare(x *pipeline.Exchange) *http.Response {
	if response := p.read(x); response != nil {
		return response
	}
	body, introspects, tokens := x.GraphQL.Body, false, 0
	x.GraphQL.Shown = make([]*graphql.Introspection, len(body.Requests))
	for i, document := range x.GraphQL.Documents {
		if document.Introspects == (graphql.Location{}) {
			continue
		}
		if tokens += document.Tokens; tokens > graphql.MaxAmendedTokens {
			return refuseGraphQL(ofBatch(body, i, graphql.TooLongIntrospection(document.Introspects)))
		}
		amended, shown, refused := graphql.Amend(body.Requests[i].Query)
		if refused != nil {
			return refuseGraphQL(ofBatch(body, i, refused))
		}
		// The extensions may have the hash of the document as it was.
		body.Requests[i].Query, body.Requests[i].Extensions = amended, nil
		x.GraphQL.Shown[i], introspects = shown, true
	}
	streams := !introspects && subscribes(x.GraphQL)
	if !streams { // in one piece, and neither in parts nor as events
		x.Header["Accept"] = []string{wholeAnswer(x.Header["Accept"])}
	}
	delete(x.Header, "Range")
	delete(x.Header, "If-Range")
	askReadable(x)
	if streams { // whose events are read one by one
		x.Header["Accept-Encoding"] = []string{"identity"}
	}
	return nil
}

// subscribes is whether a document has nothing but subscriptions: its answer may be a stream.
func subscribes(g *pipeline.GraphQL) bool {
	return slices.ContainsFunc(g.Documents, (*graphql.Document).OnlySubscribes)
}

// wholeAnswer is what a client accepts of the two types of an answer in one piece: servers choose statuses and
// codes by them (GraphQL over HTTP, "Response").
func wholeAnswer(accepted []string) string {
	for _, value := range accepted {
		for part := range strings.SplitSeq(value, ",") {
			if kind, _, _ := strings.Cut(part, ";"); strings.EqualFold(strings.TrimSpace(kind), responseType) {
				return responseType + ", " + jsonType + ";q=0.9"
			}
		}
	}
	return jsonType
}

// maxFilteredBytes is how large an answer may be that has to be read whole: large schemas take a few
// megabytes.
const maxFilteredBytes = 16 << 20

// Outbound filters the answer. What is neither an introspection nor an error goes on as it comes,
// and what has nothing to be filtered as it came.
func (p *introspectionFilter) Outbound(x *pipeline.Exchange, r *http.Response) *http.Response {
	if x.GraphQL == nil || x.GraphQL.Shown == nil || r.StatusCode == http.StatusSwitchingProtocols {
		return r
	}
	introspects := slices.ContainsFunc(x.GraphQL.Shown, func(i *graphql.Introspection) bool { return i != nil })
	if !introspects && isStream(r) {
		return p.events(x, r)
	}
	a, err := openAnswer(r)
	switch isJSON := isJSONAnswer(r); {
	case introspects:
	case err == nil && (a.beginsWithData() || !isJSON && !a.beginsAsJSON()):
		// It was executed, so no error of validation is in it; or it is no answer of GraphQL's at all.
		a.restore(r)
		return r
	case err != nil && !isJSON:
		a.restore(r)
		return r
	}
	var text []byte
	if err == nil {
		text, err = a.whole(maxFilteredBytes)
	}
	if err != nil {
		return p.unreadable(x, r, err)
	}
	filtered, changed, err := p.hidden.Filter(text, x.GraphQL.Shown, asked(x.GraphQL.Body))
	switch {
	case errors.Is(err, graphql.ErrNothingLeft):
		_ = r.Body.Close()
		return x.Problem(http.StatusForbidden, noIntrospection)
	case err != nil && (introspects || p.hidden.Betrays(text)):
		return p.unreadable(x, r, err)
	case err != nil || !changed:
		a.restore(r)
	default:
		pipeline.SetResponseBody(r, filtered)
	}
	return r
}

func (p *introspectionFilter) unreadable(x *pipeline.Exchange, r *http.Response, err error) *http.Response {
	_ = r.Body.Close()
	x.Cause = err
	return x.Problem(http.StatusBadGateway, "The upstream's answer can't be read, and something in it may have to be left out. Its operator has to have it answer GraphQL requests in JSON, uncompressed or by gzip.")
}

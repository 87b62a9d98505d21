package policy

import (
	"encoding/json"
	"net/http"

	"github.com/gatewright/gatewright/shared/gateway/options"
	"github.com/gatewright/gatewright/shared/gateway/pipeline"
	"github.com/gatewright/gatewright/shared/graphql"
	"github.com/gatewright/gatewright/shared/project"
)

// introspectionOptions are those of graphql-disable-introspection-inbound: none.
type introspectionOptions struct{}

// disableIntrospection refuses documents with a field __schema or __type.
type disableIntrospection struct{ graphQLReader }

var _ pipeline.Inbound = (*disableIntrospection)(nil)

func newDisableIntrospection(_ string, raw json.RawMessage, s *Setup) (Provisioned, []project.Problem) {
	problems := options.Read(raw, &introspectionOptions{})
	if s == nil || len(problems) > 0 {
		return Provisioned{}, problems
	}
	return Provisioned{Inbound: &disableIntrospection{graphQLReader{s.Documents}}}, nil
}

// noIntrospection is known to clients (contract 4.4).
const noIntrospection = "Introspection queries are not allowed"

// Inbound looks at the fields of the parsed document: a text that has the words in an argument is
// none, and __typename, by which every client tells objects apart, stays.
func (p *disableIntrospection) Inbound(x *pipeline.Exchange) *http.Response {
	if response := p.read(x); response != nil {
		return response
	}
	for _, document := range x.GraphQL.Documents {
		if document.Introspects != (graphql.Location{}) {
			return x.Problem(http.StatusForbidden, noIntrospection)
		}
	}
	return nil
}

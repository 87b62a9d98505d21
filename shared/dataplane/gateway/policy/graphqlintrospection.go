package policy

import (
	"encoding/json"
	"net/http"

	"github.com/gatewright/gatewright/shared/dataplane/gateway/options"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/pipeline"
	"github.com/gatewright/gatewright/shared/format/graphql"
	"github.com/gatewright/gatewright/shared/format/project"
)

// introspectionOptions are the options of graphql-disable-introspection-inbound. The policy has no options.
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

// noIntrospection is the message of the refusal. Clients recognize it (contract 4.4).
const noIntrospection = "Introspection queries are not allowed"

// Inbound checks the fields of the parsed documents, so __schema and __type in an argument
// have no effect. __typename is allowed, because clients use it to distinguish objects.
func (i *disableIntrospection) Inbound(x *pipeline.Exchange) *http.Response {
	if response := i.read(x); response != nil {
		return response
	}
	for _, document := range x.GraphQL.Documents {
		if document.IntrospectionAt != (graphql.Location{}) {
			return x.Problem(http.StatusForbidden, noIntrospection)
		}
	}
	return nil
}

package project

import (
	"net/http"
	"slices"
	"strings"
)

const graphQLExtension = "x-graphql"

// The policies for GraphQL routes have types with the prefix graphQLPolicyPrefix. A route can have the
// introspection filter (graphQLFilter) only once: a second filter would have nothing to do.
const (
	graphQLPolicyPrefix         = "graphql-"
	graphQLFilter               = "graphql-introspection-filter-outbound"
	graphQLWithoutIntrospection = "graphql-disable-introspection-inbound"
)

// isGraphQL reports whether an operation is a GraphQL route: it has "x-graphql": true, or a policy for GraphQL routes
// (contract 4.4). It also reports mistakes of GraphQL routes, and returns false for an MCP server.
func (c *compiler) isGraphQL(operation map[string]any, route Route) bool {
	file, at := route.Source.File, route.Source.Pointer
	value, has := operation[graphQLExtension]
	tagged, ok := value.(bool)
	if has && !ok {
		c.fail(file, at+"/"+graphQLExtension, "This is true or false. Write true for a GraphQL route, or leave it out.")
	}
	filters := 0
	for _, name := range slices.Concat(route.Inbound, route.Outbound) {
		policyType := c.policies[name].policyType
		tagged = tagged || strings.HasPrefix(policyType, graphQLPolicyPrefix)
		if policyType == graphQLFilter {
			filters++
		}
	}
	if tagged && route.Handler.Export == MCPServerHandler {
		c.fail(file, at, "An MCP server is no GraphQL route: its messages are none of GraphQL's. Take x-graphql and the "+
			"policies of GraphQL routes away, and put them on the route that the server offers; calls pass them there.")
		return false
	}
	if tagged && route.Method != http.MethodPost {
		c.fail(file, at, "A GraphQL route is called with POST, and this operation is %s. Make it a POST operation, or take "+
			"x-graphql and the policies of GraphQL routes away.", route.Method)
	}
	if filters > 1 {
		c.fail(file, at+pointer(routeExtension, "policies", "outbound"),
			"A route has one policy of the type %s. Put what they exclude into one.", quote(graphQLFilter))
	}
	return tagged
}

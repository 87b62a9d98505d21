package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gatewright/gatewright/shared/dataplane/gateway/pipeline"
	sharedmcp "github.com/gatewright/gatewright/shared/format/mcp"
	"github.com/gatewright/gatewright/shared/format/project"
)

// addTool offers a route as a tool.
func (c *caller) addTool() (fault string) {
	o := c.offer.Operation
	tool := &mcp.Tool{
		Name: o.Name, Description: o.Description, InputSchema: o.Input,
		Annotations: annotationsOf(c.offer.Route.Info.Method), Meta: metaOf(o.Meta),
	}
	if len(o.Annotations) > 0 && json.Unmarshal(o.Annotations, tool.Annotations) != nil {
		return "The annotations of this operation are none of an MCP tool's. Compare them with the documentation."
	}
	if c.server.options.IncludeOutputSchema && len(o.Output) > 0 {
		tool.OutputSchema = o.Output
		c.output = sync.OnceValues(func() (*sharedmcp.Schema, error) { return sharedmcp.CompileSchema(o.Output) })
	}
	c.server.protocol.AddTool(tool, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		schema, err := c.schema()
		if err != nil {
			return nil, err // never occurs: the build has compiled the schema
		}
		var arguments map[string]json.RawMessage
		if err := schema.Read(ctx, req.Params.Arguments, &arguments); err != nil {
			return nil, err
		}
		return c.callTool(ctx, req, o.Name, func(x *pipeline.Exchange) error { return c.fill(x, arguments) })
	})
	return ""
}

// callTool runs a tool and converts the response to a result. An error response of the
// upstream is a result, too, so that the model can read it (MCP, "Error Handling").
func (c *caller) callTool(
	ctx context.Context, req *mcp.CallToolRequest, name string, fill func(x *pipeline.Exchange) error,
) (*mcp.CallToolResult, error) {
	sharedmcp.Progress(ctx, req, 0, "Calling "+name)
	resp, err := c.run(ctx, fill)
	if err != nil {
		return nil, err
	}
	sharedmcp.Progress(ctx, req, 1, "Answered with "+fmt.Sprint(resp.status))
	if resp.binary {
		return sharedmcp.Refusal(fmt.Sprintf("The operation answered %d bytes of %s, which is no text. Ask for "+
			"another form of it.", len(resp.data), mediaTypeOr(resp.mediaType, "an unknown type"))), nil
	}
	if !resp.ok() {
		return sharedmcp.Refusal(resp.text()), nil
	}
	result := &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: resp.text()}}}
	trimmed := bytes.TrimSpace(resp.data)
	isObject := len(trimmed) > 0 && trimmed[0] == '{' && json.Valid(trimmed)
	if c.output != nil {
		if violations := c.checkOutput(trimmed, isObject); len(violations) > 0 {
			c.reportMismatch(ctx, result, resp.status, violations)
			return result, nil
		}
	}
	if c.server.options.IncludeStructuredContent && isObject {
		result.StructuredContent = json.RawMessage(trimmed)
	}
	return result, nil
}

// checkOutput returns the reasons why a successful response does not match the tool's output schema.
func (c *caller) checkOutput(body json.RawMessage, isObject bool) []string {
	schema, err := c.output()
	if err != nil {
		return nil // never occurs: the build has compiled the schema
	}
	if !isObject {
		return []string{"it is not a JSON object"}
	}
	return schema.CheckResult(body)
}

// reportMismatch makes a result of a response that does not match the tool's output schema: the text alone, without
// structured content. Clients discard the result of such a tool if its structured content does not match, and if it has
// none, unless the result is an error. A second text therefore says that the call itself has succeeded.
func (c *caller) reportMismatch(ctx context.Context, result *mcp.CallToolResult, status int, violations []string) {
	result.IsError = true
	result.Content = append(result.Content, &mcp.TextContent{Text: fmt.Sprintf("The operation has succeeded with the "+
		"status %d, and the text above is its whole response. This result is marked as an error only because the response "+
		"does not match the output schema of this tool. Do not repeat the call.", status)})
	if log := c.server.setup.Log; log != nil {
		x := exchangeOf(ctx)
		log.LogAttrs(ctx, slog.LevelWarn, "mcp response mismatch",
			slog.String("requestId", x.RequestID), slog.String("deployment", c.offer.Route.Info.Deployment),
			slog.String("operation", c.offer.Route.Info.OperationID), slog.Int("status", status),
			slog.String("violations", strings.Join(violations, "; ")))
	}
}

// annotationsOf returns the annotations of a tool that follow from its route's method (RFC 9110, section 9.2).
func annotationsOf(method string) *mcp.ToolAnnotations {
	yes, no := true, false
	a := &mcp.ToolAnnotations{DestructiveHint: &yes, OpenWorldHint: &yes}
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, project.MethodQuery:
		a.ReadOnlyHint, a.IdempotentHint, a.DestructiveHint = true, true, &no
	case http.MethodPut, http.MethodDelete:
		a.IdempotentHint = true
	}
	return a
}

// metaOf converts the _meta object that a project has set.
func metaOf(raw json.RawMessage) mcp.Meta {
	if len(raw) == 0 {
		return nil
	}
	var meta mcp.Meta
	if json.Unmarshal(raw, &meta) != nil {
		return nil // never occurs: the build refuses invalid JSON
	}
	return meta
}

func mediaTypeOr(mediaType, fallback string) string {
	if mediaType == "" {
		return fallback
	}
	return mediaType
}

// addGraphQL offers a GraphQL route as the two tools that are generated for it (contract 4.4).
func (c *caller) addGraphQL() (fault string) {
	o := c.offer.Operation
	if o.Introspect == nil || o.Execute == nil {
		return "Deploy the project again: the tools of this operation have no names."
	}
	readOnly := annotationsOf(http.MethodGet)
	c.server.protocol.AddTool(&mcp.Tool{
		Name: o.Introspect.Name, Description: o.Introspect.Description, Annotations: readOnly, Meta: metaOf(o.Meta),
		InputSchema: json.RawMessage(`{"type":"object","properties":{},"additionalProperties":false}`),
	}, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		var in map[string]json.RawMessage
		if raw := req.Params.Arguments; len(raw) > 0 && json.Unmarshal(raw, &in) != nil || len(in) > 0 {
			return nil, sharedmcp.Invalid("Send no arguments: this tool takes none.")
		}
		return c.callTool(ctx, req, o.Introspect.Name, func(x *pipeline.Exchange) error {
			x.GraphQLLimits = &pipeline.GraphQLLimits{
				Depth: maxIntrospectionDepth, Complexity: maxIntrospectionComplexity,
			}
			return c.setGraphQLRequest(x, graphQLRequest{Query: introspection})
		})
	})
	c.server.protocol.AddTool(&mcp.Tool{
		Name: o.Execute.Name, Description: o.Execute.Description, Annotations: annotationsOf(http.MethodPost),
		Meta: metaOf(o.Meta),
		InputSchema: json.RawMessage(
			`{"type":"object","properties":{"query":{"type":"string","description":"The GraphQL document."},` +
				`"variables":{"type":"object","description":"The values of its variables, by their names."}},"required":["query"],"additionalProperties":false}`),
	}, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		in, err := readQuery(req.Params.Arguments)
		if err != nil {
			return nil, err
		}
		return c.callTool(ctx, req, o.Execute.Name, func(x *pipeline.Exchange) error { return c.setGraphQLRequest(x, in) })
	})
	return ""
}

// graphQLRequest is the body of a request to a GraphQL server.
type graphQLRequest struct {
	Query     string          `json:"query"`
	Variables json.RawMessage `json:"variables,omitempty"`
}

// readQuery reads the arguments of a tool that executes a GraphQL query. Their names are case-sensitive.
func readQuery(raw json.RawMessage) (graphQLRequest, error) {
	members := map[string]json.RawMessage{}
	if len(raw) > 0 && json.Unmarshal(raw, &members) != nil {
		return graphQLRequest{}, sharedmcp.Invalid("Send arguments as a JSON object.")
	}
	var in graphQLRequest
	for name, value := range members {
		switch name {
		case "query":
			if json.Unmarshal(value, &in.Query) != nil {
				return in, sharedmcp.Invalid("Send the query as a text.")
			}
		case "variables":
			if value = bytes.TrimSpace(value); value[0] != '{' {
				return in, sharedmcp.Invalid("Send the variables as an object.")
			}
			in.Variables = value
		default:
			return in, sharedmcp.Invalid("Send query and variables: there are no other arguments.")
		}
	}
	if in.Query == "" {
		return in, sharedmcp.Invalid("Send a query: it is required.")
	}
	return in, nil
}

// setGraphQLRequest sets the body and the path of a request to a GraphQL route.
func (c *caller) setGraphQLRequest(x *pipeline.Exchange, in graphQLRequest) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	setBody(x, "application/json", string(body))
	return c.setTarget(x, c.offer.Route.Info.Path, "")
}

// The limits of the introspection tool's request, in place of those of graphql-complexity-limit-inbound: the
// policy limits the execute tool, whose documents come from clients (specification, "GraphQL routes").
const (
	maxIntrospectionDepth      = 20
	maxIntrospectionComplexity = 500
)

// introspection is a query for a whole schema, like the query of the reference
// implementation (GraphQL specification, October 2021, section 4.2).
const introspection = `query IntrospectionQuery {
  __schema {
    queryType { name } mutationType { name } subscriptionType { name }
    types { ...FullType }
    directives { name description locations args { ...InputValue } }
  }
}
fragment FullType on __Type {
  kind name description
  fields(includeDeprecated: true) { name description args { ...InputValue } type { ...TypeRef } isDeprecated deprecationReason }
  inputFields { ...InputValue }
  interfaces { ...TypeRef }
  enumValues(includeDeprecated: true) { name description isDeprecated deprecationReason }
  possibleTypes { ...TypeRef }
}
fragment InputValue on __InputValue { name description type { ...TypeRef } defaultValue }
fragment TypeRef on __Type {
  kind name ofType { kind name ofType { kind name ofType { kind name ofType { kind name ofType { kind name ofType { kind name ofType { kind name } } } } } } }
}`

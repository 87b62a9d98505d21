package mcp

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/seal"
	sharedmcp "github.com/gatewright/gatewright/shared/format/mcp"
	"github.com/gatewright/gatewright/shared/management/api"
	"github.com/gatewright/gatewright/shared/management/apitools"
	"github.com/gatewright/gatewright/shared/management/endpoint"
	"github.com/gatewright/gatewright/shared/management/servercards"
	"github.com/gatewright/gatewright/shared/resource/accounts"
)

// instructions describes the server to a model.
const instructions = "The tools are the operations of an API management platform: API keys and their buckets and " +
	"consumers, projects and deployments, variables, domains, certificates, tunnels, metering. " +
	"Most take the account's name: V1_whoAmI tells it. Call what changes something with dryRun first to see what would " +
	"change. Ask lists for no more than you need, by limit. Secrets in answers are masked; ask for one with " +
	"revealSecrets only when somebody needs it, which is recorded."

// server handles the messages of one installation. It carries out the calls with the operations of the API in this
// process.
type server struct {
	parts     installation.Parts
	sealer    *seal.Sealer
	catalog   func() *catalog
	mcpServer func() *sharedmcp.Server
	// operations returns the handler of the API with the operations of all groups. Calls send their requests to this
	// handler.
	operations func() http.Handler
}

// catalog has all tools.
type catalog struct {
	tools    []apitools.Tool
	byName   map[string]*apitools.Tool
	readers  map[string]*apitools.Tool // the tools with ReadOnly, by Path
	toolsets []string
}

// binder returns the function that binds the routes of this package. routes returns the routes of all other groups. The
// tools, the MCP server and the API's handler are created at the first message, so that processes start faster. The
// tools and the MCP server are created only once per process, because they are the same for every installation.
func binder(
	operation api.Operation[messageIn, endpoint.Response], routes func(installation.Parts) []api.Route,
) func(installation.Parts) []api.Route {
	loadCatalog, operations := sync.OnceValue(newCatalog), new(api.ServerFactory)
	mcpServer := sync.OnceValue(func() *sharedmcp.Server { return newMCPServer(loadCatalog()) })
	return func(p installation.Parts) []api.Route {
		s := &server{parts: p, sealer: p.Sealer(), catalog: loadCatalog, mcpServer: mcpServer}
		s.operations = sync.OnceValue(func() http.Handler { return operations.Open(p, accounts.Open(p), routes(p)) })
		return []api.Route{
			operation.HandledBy(s.handle),
			noStream.HandledBy(endpoint.Refuse),
			noSession.HandledBy(endpoint.Refuse),
			preflight.HandledBy(endpoint.HandlePreflight),
		}
	}
}

func newCatalog() *catalog {
	tools, err := apitools.Load()
	if err != nil {
		panic(fmt.Sprintf("mcp: the tools that are built in cannot be read: %v", err)) // cannot happen: a test loads them
	}
	c := &catalog{tools: tools, byName: make(map[string]*apitools.Tool, len(tools)), readers: map[string]*apitools.Tool{}}
	for i := range tools {
		c.byName[tools[i].Name] = &tools[i]
		if tools[i].ReadOnly {
			c.readers[tools[i].Path] = &tools[i]
		}
		if name := toolset(tools[i].Group); !slices.Contains(c.toolsets, name) {
			c.toolsets = append(c.toolsets, name)
		}
	}
	return c
}

// newMCPServer creates the MCP server with all tools. It is shared by all installations: each call runs with the server
// of the installation that has received the message (caller.server).
func newMCPServer(c *catalog) *sharedmcp.Server {
	card := servercards.API()
	mcpServer := sharedmcp.New(sharedmcp.Setup{
		Name: card.Name, Version: card.Version, Instructions: instructions,
		Private:     func() bool { return true },
		NoStreaming: true, RequestsInput: true,
		ToolExists: func(ctx context.Context, tool string) bool {
			t, ok := c.byName[tool]
			return ok && callerOf(ctx).view.includes(t)
		},
		ToolListed: func(ctx context.Context, tool string) bool {
			return canCall(callerOf(ctx).principal, c.byName[tool])
		},
		ReportFailure: func(ctx context.Context, cause any) string {
			return endpoint.LogFailure(callerOf(ctx).server.parts.Log)(ctx, cause)
		},
	})
	for i := range c.tools {
		t := &c.tools[i]
		mcpServer.AddTool(t.MCPTool(), handler(t))
	}
	return mcpServer
}

// handle handles one message, with the view that the message's query and headers select. A key can also require
// confirmations.
func (s *server) handle(ctx context.Context, in *messageIn) (*endpoint.Response, error) {
	r := in.Request(ctx)
	v, err := s.readView(in, r.Header)
	if err != nil {
		return nil, err
	}
	p := auth.PrincipalFrom(ctx)
	v.confirm = v.confirm || p.Permissions.Confirm
	sender := &caller{server: s, principal: p, view: v, authorization: r.Header.Get("Authorization")}
	return endpoint.ReadResponse(s.mcpServer().Handle(r.WithContext(context.WithValue(ctx, callerKey{}, sender)))) //nolint:bodyclose // ReadResponse closes it
}

package mcp

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"github.com/gatewright/gatewright/shared/accounts"
	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/apitools"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/cards"
	"github.com/gatewright/gatewright/shared/installation"
	sharedmcp "github.com/gatewright/gatewright/shared/mcp"
	"github.com/gatewright/gatewright/shared/mcp/endpoint"
	"github.com/gatewright/gatewright/shared/seal"
)

// instructions are what a model is told of the server as a whole.
const instructions = "The tools are the operations of an API management platform: API keys and their buckets and consumers, projects and deployments, variables, domains, certificates, tunnels, metering. " +
	"Most take the account's name: V1_whoAmI tells it. Call what changes something with dryRun first to see what would change. Ask lists for no more than you need, by limit. Secrets in answers are masked; ask for one with revealSecrets only when somebody needs it, which is recorded."

// server answers messages by operations of the API in this process.
type server struct {
	parts     installation.Parts
	sealer    *seal.Sealer
	catalogue func() *catalogue
	front     func() *sharedmcp.Server
	// operations is the API, of all groups: what a call asks.
	operations func() http.Handler
}

// catalogue is all tools there are.
type catalogue struct {
	tools    []apitools.Tool
	byName   map[string]*apitools.Tool
	readers  map[string]*apitools.Tool // those that read, by their paths
	toolsets []string
}

// binder gives what binds this function's routes, over those of all other groups. What a message needs is made for the
// first one: a process that is asked for none is not kept waiting for it. The tools are the same of every installation, and
// are made once.
func binder(ask api.Operation[messageIn, endpoint.Answer], routes func(installation.Parts) []api.Route) func(installation.Parts) []api.Route {
	known, operations := sync.OnceValue(newCatalogue), new(api.Operations)
	front := sync.OnceValue(func() *sharedmcp.Server { return newFront(known()) })
	return func(p installation.Parts) []api.Route {
		s := &server{parts: p, sealer: p.Sealer(), catalogue: known, front: front}
		s.operations = sync.OnceValue(func() http.Handler { return operations.Open(p, accounts.Open(p), routes(p)) })
		return []api.Route{
			ask.To(s.answer),
			noStream.To(endpoint.Refuse),
			noSession.To(endpoint.Refuse),
			preflight.To(endpoint.Preflighted),
		}
	}
}

func newCatalogue() *catalogue {
	all, err := apitools.Load()
	if err != nil {
		panic(fmt.Sprintf("mcp: the tools that are built in cannot be read: %v", err)) // a test has read them
	}
	c := &catalogue{tools: all, byName: make(map[string]*apitools.Tool, len(all)), readers: map[string]*apitools.Tool{}}
	for i := range all {
		c.byName[all[i].Name] = &all[i]
		if all[i].ReadOnly {
			c.readers[all[i].Path] = &all[i]
		}
		if name := toolset(all[i].Group); !slices.Contains(c.toolsets, name) {
			c.toolsets = append(c.toolsets, name)
		}
	}
	return c
}

// newFront makes the server of all tools. A call is carried out by the server that its message came to (caller).
func newFront(c *catalogue) *sharedmcp.Server {
	about := cards.API()
	front := sharedmcp.New(sharedmcp.Setup{
		Name: about.Name, Version: about.Version, Instructions: instructions,
		Private: func() bool { return true },
		Whole:   true, Asks: true,
		Has: func(ctx context.Context, tool string) bool {
			t, ok := c.byName[tool]
			return ok && callerOf(ctx).view.has(t)
		},
		Lists: func(ctx context.Context, tool string) bool {
			return may(callerOf(ctx).principal, c.byName[tool])
		},
		Failed: func(ctx context.Context, cause any) string {
			return endpoint.Failed(callerOf(ctx).server.parts.Log)(ctx, cause)
		},
	})
	for i := range c.tools {
		t := &c.tools[i]
		front.AddTool(t.Listed(), handler(t))
	}
	return front
}

// answer answers one message.
func (s *server) answer(ctx context.Context, in *messageIn) (*endpoint.Answer, error) {
	r := in.Request(ctx)
	v, err := s.readView(in, r.Header)
	if err != nil {
		return nil, err
	}
	p := auth.From(ctx)
	v.confirm = v.confirm || p.Permissions.Confirm
	by := &caller{server: s, principal: p, view: v, authorization: r.Header.Get("Authorization")}
	return endpoint.AnswerOf(s.front().Answer(r.WithContext(context.WithValue(ctx, callerKey{}, by)))) //nolint:bodyclose // AnswerOf closes it
}

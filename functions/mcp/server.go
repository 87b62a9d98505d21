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
// first one: a process that is asked for none is not kept waiting for it.
func binder(ask api.Operation[messageIn, endpoint.Answer], routes func(installation.Parts) []api.Route) func(installation.Parts) []api.Route {
	return func(p installation.Parts) []api.Route {
		s := &server{parts: p, sealer: p.Sealer()}
		s.catalogue = sync.OnceValue(newCatalogue)
		s.front = sync.OnceValue(s.newFront)
		s.operations = sync.OnceValue(func() http.Handler { return api.Open(p, accounts.Open(p), routes(p)) })
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

// newFront makes the server of all tools.
func (s *server) newFront() *sharedmcp.Server {
	about := cards.API()
	front := sharedmcp.New(sharedmcp.Setup{
		Name: about.Name, Version: about.Version, Instructions: instructions,
		Private: func() bool { return true },
		Whole:   true, Asks: true,
		Has: func(ctx context.Context, tool string) bool {
			t, ok := s.catalogue().byName[tool]
			return ok && callerOf(ctx).view.has(t)
		},
		Lists: func(ctx context.Context, tool string) bool {
			return may(callerOf(ctx).principal, s.catalogue().byName[tool])
		},
		Failed: endpoint.Failed(s.parts.Log),
	})
	for i := range s.catalogue().tools {
		t := &s.catalogue().tools[i]
		front.AddTool(t.Listed(), s.handler(t))
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
	by := &caller{principal: p, view: v, authorization: r.Header.Get("Authorization")}
	return endpoint.AnswerOf(s.front().Answer(r.WithContext(context.WithValue(ctx, callerKey{}, by)))) //nolint:bodyclose // AnswerOf closes it
}

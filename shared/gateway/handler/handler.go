// Package handler has the built-in handlers of routes: what answers a request
// that passed its route's inbound policies (contract 4.1). urlForwardHandler
// and urlRewriteHandler send it upstream; mcpServerHandler is package mcp's.
//
// Handlers that run a project's own code are none of them: a module that is not
// built in is refused. Read this file, then proxy.go.
package handler

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/gatewright/gatewright/shared/gateway/mcp"
	"github.com/gatewright/gatewright/shared/gateway/pipeline"
	"github.com/gatewright/gatewright/shared/gateway/upstream"
	"github.com/gatewright/gatewright/shared/project"
)

// RuntimeModule is where the built-in handlers are.
const RuntimeModule = "$import(@gatewright/runtime)"

// Setup is what a handler is provisioned with.
type Setup struct {
	// Upstream is the way of the project's account.
	Upstream *upstream.Account
	// Variables are the environment's, for ${env.NAME}.
	Variables map[string]string
	// Certificates are the artifact's, by name. Unbound says that they are not in it yet:
	// a build puts those in that its routes name once it knows which.
	Certificates map[string]project.ClientCertificate
	Unbound      bool
	// HasParam tells whether the route's path has a parameter of that name.
	HasParam func(name string) bool
}

// A constructor reads options and makes a handler. A nil Setup asks for the
// problems alone, at build time, when neither variables nor route are known.
type constructor func(raw json.RawMessage, s *Setup) (pipeline.Handler, []project.Problem)

// constructors are all built-in handlers by their exports.
func constructors() map[string]constructor {
	return map[string]constructor{
		project.MCPServerHandler: newServer,
		"urlForwardHandler":      newForward,
		"urlRewriteHandler":      newRewrite,
	}
}

// newServer makes an MCP server, which whoever makes the routes lets serve once all of them are there.
func newServer(raw json.RawMessage, _ *Setup) (pipeline.Handler, []project.Problem) {
	server, problems := mcp.New(raw)
	return server, problems
}

// Check returns what is wrong with a handler as its project wrote it.
func Check(c project.Component) []project.Problem {
	_, problems := construct(c, nil)
	return problems
}

// Provision makes a handler ready to serve.
func Provision(c project.Component, s Setup) (pipeline.Handler, []project.Problem) {
	return construct(c, &s)
}

func construct(c project.Component, s *Setup) (pipeline.Handler, []project.Problem) {
	if c.Module != RuntimeModule {
		return nil, []project.Problem{{Path: "/module", Message: "Write " + RuntimeModule + ": handlers of other modules can't be run here."}}
	}
	build, known := constructors()[c.Export]
	if !known {
		names := slices.Sorted(maps.Keys(constructors()))
		return nil, []project.Problem{{Path: "/export", Message: "Use one of the handlers that exist: " + strings.Join(names, ", ") + "."}}
	}
	return build(c.Options, s)
}

// Package handler has the built-in handlers of routes, which serve the requests that have passed the inbound policies of their
// route (contract 4.1). urlForwardHandler and urlRewriteHandler send requests upstream; mcpServerHandler is in package mcp.
//
// The package does not run a project's own code: it refuses modules that are not built in. Read this file first, then proxy.go.
package handler

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/gatewright/gatewright/shared/dataplane/gateway/mcp"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/pipeline"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/upstream"
	"github.com/gatewright/gatewright/shared/format/project"
)

// RuntimeModule is the module of the built-in handlers.
const RuntimeModule = "$import(@gatewright/runtime)"

// Setup has the dependencies of a handler.
type Setup struct {
	// Upstream sends requests of the project's account.
	Upstream *upstream.Account
	// Variables are the environment's variables, for ${env.NAME}.
	Variables map[string]string
	// Certificates are the artifact's certificates, by name. CertificatesPending
	// is set during a build, before the certificates are added to the artifact.
	Certificates        map[string]project.ClientCertificate
	CertificatesPending bool
	// HasParam reports whether the route's path has a parameter of that name.
	HasParam func(name string) bool
}

// A constructor reads options and returns a handler and the problems of the options. With a nil Setup, the handler
// can't serve, and only the problems matter: a build checks options before it knows the variables and the route.
type constructor func(raw json.RawMessage, s *Setup) (pipeline.Handler, []project.Problem)

// constructors returns all built-in handlers by their exports.
func constructors() map[string]constructor {
	return map[string]constructor{
		project.MCPServerHandler: newMCPServer,
		"urlForwardHandler":      newForward,
		"urlRewriteHandler":      newRewrite,
	}
}

// newMCPServer returns an MCP server. Call its method Configure after all routes exist; before that it can't serve.
func newMCPServer(raw json.RawMessage, _ *Setup) (pipeline.Handler, []project.Problem) {
	server, problems := mcp.New(raw)
	return server, problems
}

// Check returns the problems of a handler's declaration, before variables are substituted.
func Check(c project.Component) []project.Problem {
	_, problems := construct(c, nil)
	return problems
}

// Provision returns a handler and its problems. A handler without problems is ready to serve, except an MCP server: its
// method Configure must be called first.
func Provision(c project.Component, s Setup) (pipeline.Handler, []project.Problem) {
	return construct(c, &s)
}

func construct(c project.Component, s *Setup) (pipeline.Handler, []project.Problem) {
	if c.Module != RuntimeModule {
		return nil, []project.Problem{{
			Path:    "/module",
			Message: "Write " + RuntimeModule + ": handlers of other modules can't be run here.",
		}}
	}
	newHandler, known := constructors()[c.Export]
	if !known {
		names := slices.Sorted(maps.Keys(constructors()))
		return nil, []project.Problem{{Path: "/export", Message: "Use one of the handlers that exist: " +
			strings.Join(names, ", ") + "."}}
	}
	return newHandler(c.Options, s)
}

// Package functions lists the parts of an installation: the groups of operations that functions serve, the functions
// that events call, and the services that run all the time. Each subfolder except functionstest has one or more of
// these: a group of operations or a function that events call, both with a main package for Lambda (folder lambda), or
// a service, with a main package for a container (folder container). The local process, the description of the
// infrastructure, the OpenAPI document and the MCP server use these lists.
//
// The package has no logic. A group that is added here appears everywhere. Functions that only an installation in AWS
// has are not in these lists, so that gatewright-server does not link them. Package infra lists them (awsOnly). Read
// functions.go: all other files are tests.
package functions

import (
	"github.com/gatewright/gatewright/functions/accountkeys"
	"github.com/gatewright/gatewright/functions/accounts"
	"github.com/gatewright/gatewright/functions/analytics"
	"github.com/gatewright/gatewright/functions/auditchain"
	"github.com/gatewright/gatewright/functions/auditlogs"
	"github.com/gatewright/gatewright/functions/builder"
	"github.com/gatewright/gatewright/functions/certificates"
	"github.com/gatewright/gatewright/functions/console"
	"github.com/gatewright/gatewright/functions/consumers"
	"github.com/gatewright/gatewright/functions/customdomains"
	"github.com/gatewright/gatewright/functions/deployments"
	"github.com/gatewright/gatewright/functions/environments"
	"github.com/gatewright/gatewright/functions/gateway"
	"github.com/gatewright/gatewright/functions/keybuckets"
	"github.com/gatewright/gatewright/functions/mcp"
	"github.com/gatewright/gatewright/functions/mcpdocs"
	"github.com/gatewright/gatewright/functions/metering"
	"github.com/gatewright/gatewright/functions/mtlscertificates"
	"github.com/gatewright/gatewright/functions/operations"
	"github.com/gatewright/gatewright/functions/platform"
	"github.com/gatewright/gatewright/functions/projects"
	"github.com/gatewright/gatewright/functions/quotareset"
	"github.com/gatewright/gatewright/functions/relay"
	"github.com/gatewright/gatewright/functions/rollup"
	"github.com/gatewright/gatewright/functions/sessions"
	"github.com/gatewright/gatewright/functions/tunnels"
	"github.com/gatewright/gatewright/functions/variables"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/management/api"
	"github.com/gatewright/gatewright/shared/runtime/service"
	"github.com/gatewright/gatewright/shared/runtime/trigger"
)

// Group is a group of operations that can be bound to an installation.
type Group struct {
	api.Group
	// Bind creates the group's routes.
	Bind func(installation.Parts) []api.Route
}

// Groups returns the groups of operations, in the order of the documentation.
func Groups() []Group { return append(resourceGroups(), MCP()) }

// MCP returns the group of the MCP server, whose tools are the operations of all other groups.
func MCP() Group {
	toolGroups := resourceGroups()
	group, bind := mcp.NewGroup(apiGroupsOf(toolGroups), func(p installation.Parts) (routes []api.Route) {
		for _, g := range toolGroups {
			routes = append(routes, g.Bind(p)...)
		}
		return routes
	})
	return Group{group, bind}
}

// resourceGroups returns all groups except that of the MCP server.
func resourceGroups() []Group {
	return []Group{
		{platform.Group, platform.Bind},
		{mcpdocs.Group, mcpdocs.Bind},
		{accountkeys.Group, accountkeys.Bind},
		{keybuckets.Group, keybuckets.Bind},
		{consumers.Group, consumers.Bind},
		{projects.Group, projects.Bind},
		{environments.Group, environments.Bind},
		{variables.Group, variables.Bind},
		{deployments.Group, deployments.Bind},
		{auditlogs.Group, auditlogs.Bind},
		{certificates.Group, certificates.Bind},
		{mtlscertificates.Group, mtlscertificates.Bind},
		{customdomains.Group, customdomains.Bind},
		{metering.Group, metering.Bind},
		{tunnels.Group, tunnels.Bind},
		{analytics.Group, analytics.Bind},
		{sessions.Group, sessions.Bind},
		{console.Group, console.Bind},
	}
}

// APIGroups returns the declarations of all groups, for api.Document.
func APIGroups() []api.Group { return apiGroupsOf(Groups()) }

func apiGroupsOf(groups []Group) []api.Group {
	out := make([]api.Group, 0, len(groups))
	for _, g := range groups {
		out = append(out, g.Group)
	}
	return out
}

// Function is a function that events call.
type Function struct {
	trigger.Function
	// Open creates the function's handler, for lambda.Start.
	Open func(installation.Parts) (handler any, err error)
}

// Triggered returns the functions that events call.
func Triggered() []Function {
	return []Function{
		{builder.Function, builder.Open},
		{operations.Function, operations.Open},
		{auditchain.Function, auditchain.Open},
		{quotareset.Function, quotareset.Open},
		{rollup.Function, rollup.Open},
		{gateway.Function, gateway.Open},
		{accounts.Function, accounts.Open},
	}
}

// Service is a service: a process that runs all the time.
type Service struct {
	service.Service
	// Open creates the service's process. address is the address at which other copies of the service reach this process,
	// or "" if there are no other copies.
	Open func(p installation.Parts, address string) (service.Process, error)
}

// Services returns the services.
func Services() []Service {
	return []Service{{relay.Service, relay.Open}, {gateway.ProcessService, gateway.OpenProcess}}
}

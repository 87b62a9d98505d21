// Package functions lists the installation's functions: the groups of operations
// that they answer, the functions that events call, and beside them the services that run
// all the time. Each folder below is a group of operations (or a function that no route calls)
// with its Lambda main, or a service with its container's main; these lists are what the local process, the description
// of the infrastructure, the OpenAPI document and the MCP server read.
//
// It holds no logic. A group added here appears everywhere. Functions that only an installation in AWS has are not here, so that the server
// does not link them: infra lists them (awsOnly).
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
	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/service"
	"github.com/gatewright/gatewright/shared/trigger"
)

// Group is a group of operations that can be bound to an installation.
type Group struct {
	api.Group
	// Bind makes the group's routes.
	Bind func(installation.Parts) []api.Route
}

// Groups lists the groups of operations, in the order of the documentation.
func Groups() []Group { return append(resources(), MCP()) }

// MCP is the group of the MCP server whose tools are the operations of all others.
func MCP() Group {
	others := resources()
	group, bind := mcp.Over(described(others), func(p installation.Parts) (all []api.Route) {
		for _, g := range others {
			all = append(all, g.Bind(p)...)
		}
		return all
	})
	return Group{group, bind}
}

// resources lists the groups that are about something of their own.
func resources() []Group {
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

// Described returns the groups alone, as api.Document takes them.
func Described() []api.Group { return described(Groups()) }

func described(groups []Group) []api.Group {
	out := make([]api.Group, 0, len(groups))
	for _, g := range groups {
		out = append(out, g.Group)
	}
	return out
}

// Function is one that events call.
type Function struct {
	trigger.Function
	// Open makes its handler, as lambda.Start takes it.
	Open func(installation.Parts) (handler any, err error)
}

// Triggered lists the functions that events call.
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

// Service is one that runs for as long as the installation does.
type Service struct {
	service.Service
	// Open makes its process. address is where its other copies reach it, "" where there
	// are none.
	Open func(p installation.Parts, address string) (service.Process, error)
}

// Services lists the long-lived services beside the functions.
func Services() []Service {
	return []Service{{relay.Service, relay.Open}, {gateway.Beside, gateway.OpenProcess}}
}

// Package functions lists what the installation's functions answer. Each
// folder below is a group of operations (or a function that no route calls)
// with its Lambda main; this list is what the local process, the description
// of the infrastructure, the OpenAPI document and the MCP server read.
//
// It holds no logic. A group added here appears everywhere.
package functions

import (
	"github.com/gatewright/gatewright/functions/accounts"
	"github.com/gatewright/gatewright/functions/builder"
	"github.com/gatewright/gatewright/functions/consumers"
	"github.com/gatewright/gatewright/functions/deployments"
	"github.com/gatewright/gatewright/functions/gateway"
	"github.com/gatewright/gatewright/functions/keybuckets"
	"github.com/gatewright/gatewright/functions/operations"
	"github.com/gatewright/gatewright/functions/platform"
	"github.com/gatewright/gatewright/functions/projects"
	"github.com/gatewright/gatewright/functions/variables"
	"github.com/gatewright/gatewright/shared/api"
	records "github.com/gatewright/gatewright/shared/deployments"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/keys"
	"github.com/gatewright/gatewright/shared/trigger"
	values "github.com/gatewright/gatewright/shared/variables"
)

// Services are what groups need. Each Lambda main makes only those its own
// group takes; the local process makes all of them once, with NewServices.
type Services struct {
	Keys        *keys.Service
	Deployments *records.Service
	Variables   *values.Service
}

// NewServices makes the services of an installation.
func NewServices(p installation.Parts) Services {
	return Services{
		Keys:        p.Keys(),
		Deployments: p.Deployments(),
		Variables:   p.Variables(),
	}
}

// Group is a group of operations that can be bound to services.
type Group struct {
	api.Group
	// Bind makes the group's routes.
	Bind func(Services) []api.Route
}

// Groups lists the groups of operations, in the order of the documentation.
func Groups() []Group {
	return []Group{
		{platform.Group, func(Services) []api.Route { return platform.Routes() }},
		{keybuckets.Group, func(s Services) []api.Route { return keybuckets.Routes(s.Keys) }},
		{consumers.Group, func(s Services) []api.Route { return consumers.Routes(s.Keys) }},
		{projects.Group, func(s Services) []api.Route { return projects.Routes(s.Deployments) }},
		{variables.Group, func(s Services) []api.Route { return variables.Routes(s.Variables) }},
		{deployments.Group, func(s Services) []api.Route { return deployments.Routes(s.Deployments) }},
	}
}

// Described gives the groups alone, as api.Document takes them.
func Described() []api.Group {
	var out []api.Group
	for _, g := range Groups() {
		out = append(out, g.Group)
	}
	return out
}

// Triggered lists the functions that events call.
func Triggered() []trigger.Function {
	return []trigger.Function{builder.Function, operations.Function, gateway.Function, accounts.Function}
}

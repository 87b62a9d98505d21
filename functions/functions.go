// Package functions lists what the installation's functions answer. Each
// folder below is a group of operations (or a function that no route calls)
// with its Lambda main; this list is what the local process, the description
// of the infrastructure, the OpenAPI document and the MCP server read.
//
// It holds no logic. A group added here appears everywhere.
package functions

import (
	"github.com/gatewright/gatewright/functions/platform"
	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/trigger"
)

// Services are what groups need. Each Lambda main makes only those its own
// group takes; the local process makes all of them once.
type Services struct{}

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
	return []trigger.Function{}
}

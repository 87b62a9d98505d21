package project

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// MCPServerHandler is the export name of the handler that makes a route an MCP server (contract 4.3).
const MCPServerHandler = "mcpServerHandler"

// mcpServer is a route that is an MCP server. The compiler reads its operations when all routes are known.
type mcpServer struct {
	source  Source
	options json.RawMessage
	res     resolution
}

// mcpOptions are the options of an MCP server that the compiler uses. The catalog checks all options.
type mcpOptions struct {
	Operations []struct {
		File string `json:"file"`
		ID   string `json:"id"`
	} `json:"operations"`
	IncludeOutputSchema bool `json:"includeOutputSchema"`
}

// readServers finds the operations that the MCP servers of the project offer, and reports mistakes in them.
func (c *compiler) readServers(known *declarations) {
	byID := map[Source]int{} // the indexes of routes, by file and operation id (in place of a pointer)
	for i, r := range c.artifact.Routes {
		if r.OperationID != "" {
			byID[Source{r.Source.File, r.OperationID}] = i
		}
	}
	offered := map[int]bool{}
	for _, s := range c.servers {
		if c.stopped() {
			return
		}
		c.readServer(s, byID, known, offered)
	}
	if c.problems.len() == 0 {
		c.warnUnoffered(offered)
	}
}

// warnUnoffered warns about routes with an mcp object that no MCP server lists, unless the object has "enabled":
// false.
func (c *compiler) warnUnoffered(offered map[int]bool) {
	for i, r := range c.artifact.Routes {
		var object mcpObject
		if len(r.MCP) == 0 || offered[i] || json.Unmarshal(r.MCP, &object) != nil || object.Enabled != nil &&
			!*object.Enabled {
			continue
		}
		c.warn(r.Source.File, r.Source.Pointer+pointer(routeExtension, "mcp"), "No MCP server of the project offers this "+
			"operation. Name it in the operations of an %s, or set enabled to false here.", MCPServerHandler)
	}
}

// readServer reads the operations of one server, and records the routes that the server offers.
func (c *compiler) readServer(s mcpServer, byID map[Source]int, known *declarations, offered map[int]bool) {
	var o mcpOptions
	if json.Unmarshal(s.options, &o) != nil {
		return // the catalog has reported it
	}
	fail := func(relative, format string, args ...any) {
		c.fail(s.source.File, s.source.Pointer+pointer(routeExtension, "handler", "options")+s.res.filePointer(relative),
			format, args...)
	}
	if len(o.Operations) > maxOfferedOperations {
		fail("/operations", "%s", BudgetExceeded("MCP operations", int64(len(o.Operations)),
			"Divide them among several servers."))
		return
	}
	listed, names := map[int]bool{}, &mcpNames{names: map[MCPKind]map[string]string{}, uris: map[string]string{}}
	for i, op := range o.Operations {
		if op.File == "" || op.ID == "" {
			continue // the catalog reports it
		}
		at := fmt.Sprintf("/operations/%d", i)
		file := strings.TrimPrefix(op.File, "./")
		if _, exists := c.files[file]; !exists || !isRoutesFile(file) {
			fail(at+"/file", "The project has no routes file of this name. Write the path of one, such as "+
				"./config/routes.oas.json.")
			continue
		}
		index, found := byID[Source{file, op.ID}]
		if !found {
			if first, declared := known.operations[op.ID]; c.docs[file] != nil && (!declared || first.File != file) {
				// Do not repeat the id: it can come from a variable, which can be a secret.
				fail(at+"/id", "There is no operation of this id in that file, which has %s. Write an operationId of the file, "+
					"or the file that has it.", known.idsOf(file))
			}
			continue // the reason why it is not a route is already reported
		}
		route := &c.artifact.Routes[index]
		switch {
		case route.Handler.Export == MCPServerHandler:
			fail(at+"/id", "This operation is an MCP server itself. Name what it offers here in its place.")
			continue
		case listed[index]:
			fail(at, "This operation stands in the list already. Remove one of them.")
			continue
		}
		listed[index], offered[index] = true, true
		if offer := c.offer(route, o.IncludeOutputSchema); offer != nil {
			names.add(offer, op.ID, func(format string, args ...any) { fail(at+"/id", format, args...) })
		}
	}
}

// mcpNames maps the names and URIs of one server to the ids of their operations.
type mcpNames struct {
	names map[MCPKind]map[string]string
	uris  map[string]string
}

// add records the names of an operation, and reports a name that another operation already has.
func (n *mcpNames) add(offer *MCPOperation, id string, fail func(format string, args ...any)) {
	claim := func(kind MCPKind, name, what string) {
		if n.names[kind] == nil {
			n.names[kind] = map[string]string{}
		}
		if first, duplicate := n.names[kind][name]; duplicate {
			fail("The MCP %s of this operation is called %s, as that of the operation %s is. Give one of them another name in "+
				"its mcp object.", what, quote(name), quote(first))
			return
		}
		n.names[kind][name] = id
	}
	switch offer.Kind {
	case MCPGraphQL:
		claim(MCPTool, offer.Introspect.Name, "introspection tool")
		claim(MCPTool, offer.Execute.Name, "execute tool")
	case MCPResource:
		claim(MCPResource, offer.Name, "resource")
		if first, duplicate := n.uris[offer.URI]; duplicate {
			fail("The MCP resource of this operation has the uri of that of the operation %s. Give one of them another uri in "+
				"its mcp object.", quote(first))
			return
		}
		n.uris[offer.URI] = id
	default:
		claim(offer.Kind, offer.Name, string(offer.Kind))
	}
}

// idsOf lists the ids of a file's operations, or some of them if there are many.
func (d *declarations) idsOf(file string) string {
	var ids []string
	for _, id := range slices.Sorted(maps.Keys(d.operations)) {
		if d.operations[id].File == file {
			ids = append(ids, id)
		}
	}
	return summarizeNames(ids)
}

// propertyKinds has the properties of an mcp object that belong to only one kind of operation, with this kind.
var propertyKinds = map[string]MCPKind{
	"uri": MCPResource, "mimeType": MCPResource, "annotations": MCPTool, "introspectionTool": MCPGraphQL,
	"executeTool": MCPGraphQL,
}

// checkMCP reports operations that contract 4.2 excludes: resources are read with GET, prompts and GraphQL routes are
// called with POST. It warns about properties that do not belong to the operation's kind, and about an introspection
// tool whose calls a policy of the route refuses. It sets route.GraphQL if the object makes the operation a GraphQL
// route.
func (c *compiler) checkMCP(file, at string, mcp map[string]any, route *Route) {
	kind := MCPTool
	if typeName, ok := mcp["type"].(string); ok {
		kind = MCPKind(typeName)
	}
	switch {
	case kind == MCPResource && route.Method != http.MethodGet:
		c.fail(file, at+"/type", "An MCP resource is read with GET, and this operation is %s. Move the mcp object to a GET "+
			"operation, or make it a tool.", route.Method)
	case kind == MCPPrompt && route.Method != http.MethodPost:
		c.fail(file, at+"/type", "An MCP prompt is asked for with POST, and this operation is %s. Move the mcp object to a "+
			"POST operation.", route.Method)
	case kind == MCPGraphQL && route.Method != http.MethodPost:
		c.fail(file, at+"/type", "A GraphQL route is called with POST, and this operation is %s. Move the mcp object to a "+
			"POST operation.", route.Method)
	case kind == MCPGraphQL:
		route.GraphQL = true
		for _, name := range route.Inbound {
			if c.policies[name].policyType == graphQLWithoutIntrospection {
				c.warn(file, at+"/type", "The introspection tool of this operation is refused whenever it is called, since the "+
					"policy %s of the route forbids introspection. Remove the policy, or make the operation a tool.", quote(name))
			}
		}
	}
	for _, property := range slices.Sorted(maps.Keys(mcp)) {
		if propertyKind, known := propertyKinds[property]; known && propertyKind != kind &&
			slices.Contains([]MCPKind{MCPTool, MCPResource, MCPPrompt, MCPGraphQL}, kind) {
			c.warn(file, at+pointer(property), "This says nothing of what this operation becomes: its type is %s, and this is "+
				"a property of the type %s. Correct the type, or remove it.", quote(string(kind)), quote(string(propertyKind)))
		}
	}
}

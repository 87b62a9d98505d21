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
	Operations          []listedOperation `json:"operations"`
	IncludeOutputSchema bool              `json:"includeOutputSchema"`
}

// listedOperation names an operation that a server offers: by its id, or by its method and path.
type listedOperation struct {
	File   string `json:"file"`
	ID     string `json:"id"`
	Method string `json:"method"`
	Path   string `json:"path"`
}

// isComplete reports whether the operation has a file and one of the two names. The catalog reports all others.
func (o listedOperation) isComplete() bool {
	byID, byPath := o.ID != "", o.Method != "" && o.Path != ""
	return o.File != "" && byID != byPath && (byPath || o.Method == "" && o.Path == "")
}

// label returns the name of the operation in messages.
func (o listedOperation) label() string {
	if o.ID != "" {
		return o.ID
	}
	return RequestMethod(o.Method) + " " + o.Path
}

// nameMember is the member that messages about the operation refer to.
func (o listedOperation) nameMember() string {
	if o.ID != "" {
		return "/id"
	}
	return "/path"
}

// key returns the operation as the key of a routeIndex, which has no "./" and the methods of requests.
func (o listedOperation) key() listedOperation {
	o.File, o.Method = strings.TrimPrefix(o.File, "./"), RequestMethod(o.Method)
	return o
}

// routeIndex has the indexes of all routes: by id if they have one, and by method and path.
type routeIndex map[listedOperation]int

func (c *compiler) indexRoutes() routeIndex {
	index := routeIndex{}
	for i, r := range c.artifact.Routes {
		if r.OperationID != "" {
			index[listedOperation{File: r.file, ID: r.OperationID}] = i
		}
		index[listedOperation{File: r.file, Method: r.Method, Path: r.Path}] = i
	}
	return index
}

// readServers finds the operations that the MCP servers of the project offer, and reports mistakes in them.
func (c *compiler) readServers(known *declarations) {
	c.checkResources()
	index := c.indexRoutes()
	c.nameListed(index)
	offered := map[int]bool{}
	for _, s := range c.servers {
		if c.stopped() {
			return
		}
		c.readServer(s, index, known, offered)
	}
	if c.problems.len() == 0 {
		c.warnUnoffered(offered)
	}
}

// nameListed chooses the names of all operations that the servers of the project list. A server
// does not change the names of another server's tools, except by an operation that collides with them.
func (c *compiler) nameListed(index routeIndex) {
	var routes []*Route
	listed := map[int]bool{}
	for _, s := range c.servers {
		var o mcpOptions
		if json.Unmarshal(s.options, &o) != nil || len(o.Operations) > maxOfferedOperations {
			continue // reported by the catalog or by readServer
		}
		for _, op := range o.Operations {
			i, found := index[op.key()]
			if found && op.isComplete() && !listed[i] && c.artifact.Routes[i].Handler.Export != MCPServerHandler {
				listed[i] = true
				routes = append(routes, &c.artifact.Routes[i])
			}
		}
	}
	c.names = operationNames(routes)
}

// checkResources reports MCP resources whose paths have other methods. The path of a resource has
// only the method GET (specification, "MCP resources").
func (c *compiler) checkResources() {
	type routePath struct {
		mode PathMode
		path string
	}
	methods := map[routePath][]string{}
	for _, r := range c.artifact.Routes {
		key := routePath{r.PathMode, r.Path}
		methods[key] = append(methods[key], r.Method)
	}
	for _, r := range c.artifact.Routes {
		object, enabled := readMCPObject(r.MCP)
		if !enabled || object.Type != MCPResource || r.Method != http.MethodGet {
			continue // checkMCP has reported another method
		}
		others := slices.DeleteFunc(slices.Clone(methods[routePath{r.PathMode, r.Path}]), func(method string) bool {
			return method == http.MethodGet
		})
		if len(others) > 0 {
			c.fail(r.Source.File, r.Source.Pointer+pointer(routeExtension, "mcp", "type"), "The path of an MCP resource has "+
				"only the method GET, and this one also has %s. Move the other operations to another path, or make this one a "+
				"tool.", strings.Join(others, ", "))
		}
	}
}

// warnUnoffered warns about routes with an mcp object that no MCP server lists, unless the object has "enabled":
// false.
func (c *compiler) warnUnoffered(offered map[int]bool) {
	sources := map[Source]bool{}
	for i := range offered {
		sources[c.artifact.Routes[i].Source] = true
	}
	for _, r := range c.artifact.Routes {
		var object mcpObject
		if len(r.MCP) == 0 || sources[r.Source] || json.Unmarshal(r.MCP, &object) != nil || object.Enabled != nil &&
			!*object.Enabled {
			continue
		}
		c.warn(r.Source.File, r.Source.Pointer+pointer(routeExtension, "mcp"), "No MCP server of the project offers this "+
			"operation. Name it in the operations of an %s, or set enabled to false here.", MCPServerHandler)
	}
}

// readServer reads the operations of one server, and records the routes that the server offers.
func (c *compiler) readServer(s mcpServer, index routeIndex, known *declarations, offered map[int]bool) {
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
		if c.stopped() {
			return
		}
		if !op.isComplete() {
			continue
		}
		at := fmt.Sprintf("/operations/%d", i)
		op = op.key()
		if _, exists := c.files[op.File]; !exists || !IsRoutesFile(op.File) {
			fail(at+"/file", "The project has no routes file of this name. Write the path of one, such as "+
				"./config/routes.oas.json.")
			continue
		}
		routeAt, found := index[op]
		if !found {
			if member, text := c.missingOperation(op, known); text != "" {
				fail(at+member, "%s", text)
			}
			continue // otherwise the reason why it is not a route is already reported
		}
		route := &c.artifact.Routes[routeAt]
		switch {
		case route.Handler.Export == MCPServerHandler:
			fail(at+op.nameMember(), "This operation is an MCP server itself. Name what it offers here in its place.")
			continue
		case listed[routeAt]:
			fail(at, "This operation stands in the list already. Remove one of them.")
			continue
		}
		listed[routeAt], offered[routeAt] = true, true
		if offer := c.offer(route, o.IncludeOutputSchema); offer != nil {
			names.add(offer, op.label(), func(format string, args ...any) { fail(at+op.nameMember(), format, args...) })
		}
	}
}

// missingOperation returns the message about an operation that its file does not have, and the member of
// the list's entry that it is about. It returns "" if the file has the operation or could not be read. The
// message does not repeat names, because they can come from variables, which can be secrets.
func (c *compiler) missingOperation(op listedOperation, known *declarations) (member, text string) {
	doc := c.docs[op.File]
	if doc == nil {
		return "", ""
	}
	const leftOut = "This operation is not served, because its path has a query or a fragment. Write the path without " +
		"it, or remove this entry."
	if op.ID != "" {
		if known.files[op.ID] == op.File {
			return "", ""
		}
		if known.leftOut[Source{op.File, op.ID}] {
			return "/id", leftOut
		}
		return "/id", fmt.Sprintf("There is no operation of this id in that file, which has %s. Write an operationId of the "+
			"file, or the file that has it.", known.idsOf(op.File))
	}
	root, _ := doc.root.(map[string]any)
	paths, _ := root["paths"].(map[string]any)
	item, found := paths[op.Path].(map[string]any)
	if !found {
		return "/path", "There is no such path in that file. Write it as the file has it, such as /pets/{id}."
	}
	for _, operation := range c.readPathItem(place{doc, pointer("paths", op.Path), item}).operations() {
		switch {
		case operation.method != op.Method:
		case strings.ContainsAny(op.Path, "?#"):
			return "/path", leftOut
		default:
			return "", ""
		}
	}
	return "/method", "The path has no operation of this method in that file. Write a method that it has there."
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
		if d.files[id] == file {
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

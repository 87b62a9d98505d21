package project

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/gatewright/gatewright/shared/base/lazy"
	"github.com/gatewright/gatewright/shared/format/paths"
)

const (
	routeExtension = "x-gateway-route"
	pathExtension  = "x-gateway-path"

	corsNone     = "none"
	corsAnything = "anything-goes"
)

// parameter matches a template expression of a path.
var parameter = lazy.Regexp(`\{[^{}]*\}`)

// declarations has the routes and operation IDs that were found so far, in all files.
type declarations struct {
	operations map[string]Source // by operation id
	files      map[string]string // the routes file whose paths have the operation, by operation id
	routes     map[string]Source // by method, path mode and shape of the path
	sources    map[Source]bool   // the operations to which paths refer
	// leftOut has the operations of paths that are left out, by file and id (in place of a pointer).
	leftOut map[Source]bool
}

func newDeclarations() *declarations {
	return &declarations{
		operations: map[string]Source{}, files: map[string]string{}, routes: map[string]Source{},
		sources: map[Source]bool{}, leftOut: map[Source]bool{},
	}
}

// readPaths adds the routes of a document's operations, in the order of
// its paths: the gateway matches URL patterns in the order of the file.
func (c *compiler) readPaths(doc *document, known *declarations) {
	root, _ := doc.root.(map[string]any)
	paths, _ := root["paths"].(map[string]any)
	for _, path := range doc.paths {
		if c.stopped() {
			return
		}
		item, ok := paths[path].(map[string]any)
		if !ok || strings.HasPrefix(path, "x-") {
			continue // a value that is not an object is already reported; x- begins an extension
		}
		p := c.readPathItem(place{doc, pointer("paths", path), item})
		mode := c.pathMode(p)
		if mode == OpenAPIPath && strings.ContainsAny(path, "?#") {
			c.leaveOut(p, known)
			continue
		}
		c.checkPath(doc.file, p.at, path, mode)
		for _, operation := range p.operations() {
			if c.stopped() {
				return
			}
			if c.operations++; c.operations > maxOperations {
				if c.operations == maxOperations+1 {
					c.failBudget(operation.doc.file, operation.at, "operations", int64(c.operations),
						"Reading ended here. Divide the project into several.")
				}
				return
			}
			c.checkMethod(operation)
			source := Source{File: operation.doc.file, Pointer: operation.at}
			operation.isRepeated = known.sources[source] || p.belongsToOtherPath(operation)
			route := Route{Method: operation.method, Path: path, PathMode: mode, Source: source, file: doc.file}
			if p.origins != nil {
				known.sources[source] = known.sources[source] || !p.belongsToOtherPath(operation)
				c.referred[route.key()] = referredOperation{p, operation}
				delete(operation.doc.unserved, operation.at)
			}
			c.readOperation(operation, route, known)
		}
	}
}

// pathMode returns the mode of a path from its extension. It returns OpenAPIPath, the default, for an invalid
// extension, and reports the mistakes.
func (c *compiler) pathMode(p *pathItem) PathMode {
	extension, has := p.members[pathExtension]
	at := p.placeOf(pathExtension)
	if !has || !check(&c.report, at.doc.file, at.at, c.schemas.path, extension) {
		return OpenAPIPath
	}
	object, _ := extension.(map[string]any)
	if mode, ok := object["pathMode"].(string); ok {
		return PathMode(mode)
	}
	return OpenAPIPath
}

// canonical normalizes a route's path in the same way as the gateway normalizes the paths of requests.
func canonical(path string, mode PathMode) (string, error) {
	if mode == URLPattern {
		return paths.Pattern(path)
	}
	return paths.Template(path)
}

// checkPath reports a path that no request can match as intended.
func (c *compiler) checkPath(file, at, path string, mode PathMode) {
	switch {
	case strings.ContainsFunc(path, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) }):
		c.fail(file, at, "This path has white space or control characters. Percent-encode them.")
	default:
		if _, err := canonical(path, mode); err != nil {
			c.fail(file, at, "No request matches this path: %v.", err)
		}
	}
	if mode == URLPattern {
		return
	}
	names := map[string]bool{}
	for _, expr := range parameter().FindAllString(path, -1) {
		name := strings.TrimSpace(expr[1 : len(expr)-1])
		switch {
		case name == "" || strings.Contains(name, "/"):
			c.fail(file, at, "This path has a parameter without a proper name. Write {name}.")
		case names[name]:
			c.fail(file, at, "This path has the parameter {%s} twice. Give each its own name.", printable(name))
		}
		names[name] = true
	}
	if strings.ContainsAny(parameter().ReplaceAllLiteralString(path, ""), "{}") {
		c.fail(file, at, "The braces of this path do not match. Write parameters as {name}.")
	}
}

// readOperation checks an operation and adds its route to the artifact. A repeated operation becomes a route without an
// id, because the id belongs to the route of another path.
func (c *compiler) readOperation(declared declaredOperation, route Route, known *declarations) {
	file, at, operation := route.Source.File, declared.at, declared.object
	if !declared.isRepeated {
		route.OperationID, _ = operation["operationId"].(string)
	}
	if route.OperationID != "" {
		if first, duplicate := known.operations[route.OperationID]; duplicate {
			c.fail(file, at+"/operationId", "This operation id is also that of %s in %s. Give each operation its own.",
				first.Pointer, first.File)
		} else {
			known.operations[route.OperationID] = route.Source
			known.files[route.OperationID] = route.file
		}
	}
	shadowed := c.checkShadowed(&route, known)
	extension, has := operation[routeExtension]
	if !has {
		c.fail(file, at, "This operation has no x-gateway-route, so the gateway could not serve it. Add one with a "+
			"handler, or remove the operation.")
		return
	}
	at += "/" + routeExtension
	if !check(&c.report, file, at, c.schemas.route, extension) {
		return
	}
	object, _ := extension.(map[string]any)
	handler, _ := object["handler"].(map[string]any)
	component, res, ok := c.readComponent(file, at+"/handler", handler)
	if ok {
		c.reportProblems(file, at+"/handler", res, c.catalog.CheckHandler(component))
	}
	route.Handler = component
	route.Inbound, route.inboundEntries = c.policyNames(file, at, object, "inbound")
	route.Outbound, route.outboundEntries = c.policyNames(file, at, object, "outbound")
	c.applySecurity(operation, &route)
	route.CORSPolicy = c.corsPolicy(file, at, object)
	route.GraphQL = c.isGraphQL(operation, route)
	if mcp, ok := object["mcp"].(map[string]any); ok {
		c.checkMCP(file, at+"/mcp", mcp, &route)
		if c.checkOptionBudgets(file, at+"/mcp", mcp) {
			route.MCP, _ = c.encodeOptions(file, at+"/mcp", mcp)
		}
	}
	if !shadowed {
		if !c.addSize(file, at, route.estimatedBytes()) {
			return
		}
		c.artifact.Routes = append(c.artifact.Routes, route)
	}
	if ok && component.Export == MCPServerHandler {
		if route.Method != http.MethodPost {
			c.fail(file, at+"/handler/export", "An MCP server is called with POST, and this operation is %s. Move the handler "+
				"to a POST operation; other methods are answered 405 there.", route.Method)
		}
		c.servers = append(c.servers, mcpServer{source: route.Source, options: component.Options, res: res})
	}
}

// routeOverhead estimates the size of a route's or policy's encoding without its texts.
const routeOverhead = 200

// estimatedBytes estimates the size of a route's encoding.
func (r *Route) estimatedBytes() int {
	n := routeOverhead + len(r.OperationID) + len(r.Path) + len(r.Source.File) + len(r.Source.Pointer) + len(
		r.Handler.Export) + len(r.Handler.Options) + len(r.CORSPolicy) + len(r.MCP)
	for _, names := range [][]string{r.Inbound, r.Outbound} {
		for _, name := range names {
			n += len(name)
		}
	}
	return n
}

// checkShadowed returns whether an earlier route matches all requests of this route: the earlier
// route has the same method, and a path that differs only in the names of parameters. That is an
// error, unless the project allows duplicate routes. Then the gateway serves the earlier route,
// and checkShadowed adds a warning.
func (c *compiler) checkShadowed(route *Route, known *declarations) bool {
	shape, err := canonical(route.Path, route.PathMode)
	if err != nil {
		shape = route.Path // already reported
	}
	if route.PathMode == OpenAPIPath {
		// Compare literals without their escapes.
		shape = percentDecode(parameter().ReplaceAllLiteralString(shape, "\x00"))
	}
	shape = route.Method + " " + string(route.PathMode) + " " + shape
	first, duplicate := known.routes[shape]
	switch {
	case !duplicate:
		known.routes[shape] = route.Source
	case c.unreadable[settingsFile]: // the file could allow duplicate routes
	case c.settings.allowDuplicateRoutes:
		c.warn(route.Source.File, route.Source.Pointer,
			"This route is never reached: %s in %s comes before it and matches the same requests.", first.Pointer, first.File)
	default:
		c.fail(route.Source.File, route.Source.Pointer, "This route matches the same requests as %s in %s. Remove one of "+
			"them, or set allowDuplicateRoutes in %s to serve the first.", first.Pointer, first.File, settingsFile)
	}
	return duplicate
}

// policyNames returns the names of a route's policies in one direction, "inbound" or "outbound", with the members of
// composite policies in their places. entries has the index of each policy's entry in the list. policyNames reports
// mistakes in the list.
func (c *compiler) policyNames(
	file, at string, route map[string]any, direction string,
) (out []string, entries []int) {
	policies, _ := route["policies"].(map[string]any)
	list, _ := policies[direction].([]any)
	for i, entry := range list {
		name, _ := entry.(string)
		entryAt := at + pointer("policies", direction) + pointer(strconv.Itoa(i))
		policy, known := c.policies[name]
		switch {
		case !known && c.unreadable[policiesFile]: // the file could define the policy
			continue
		case !known:
			c.fail(file, entryAt, "There is no policy of this name in %s, which has %s. Correct the name or add the policy.",
				policiesFile, c.knownPolicies())
			continue
		case slices.Contains(out, name):
			c.fail(file, entryAt, "This policy stands in the list already. Remove one of them.")
		case direction == "inbound" && strings.HasSuffix(policy.policyType, "-outbound"),
			direction == "outbound" && strings.HasSuffix(policy.policyType, "-inbound"):
			c.fail(file, entryAt, "A policy of the type %s cannot be %s. Move it to the other list.", quote(policy.policyType),
				direction)
		}
		before := len(out)
		out = c.expand(out, name)
		for n := before; n < len(out); n++ {
			entries = append(entries, i)
			if out[n] != name && slices.Contains(out[:n], out[n]) {
				c.fail(file, entryAt, "This policy contains the policy %s, which stands in the list already. Remove one of them.",
					quote(out[n]))
			}
		}
		if len(out) > maxInbound {
			c.fail(file, entryAt, "With the members of its policies, this route has more than %d %s policies. Remove some.",
				maxInbound, direction)
			break
		}
	}
	return out, entries
}

// warnInbound adds the catalog's warnings about the inbound policies of routes. It does so only in
// a project without errors: the options that it reads for each route are then within their budgets.
func (c *compiler) warnInbound() {
	if c.problems.len() > 0 {
		return
	}
	for _, r := range c.artifact.Routes {
		policies, indexes := c.withMembers(r.Inbound)
		added := c.addedPolicies[r.key()]
		for i, text := range c.catalog.WarnInbound(policies) {
			at := r.Source.Pointer
			if i = indexes[i]; i >= added {
				at += pointer(routeExtension, "policies", "inbound", strconv.Itoa(r.inboundEntries[i-added]))
			}
			c.warn(r.Source.File, at, "%s", text)
		}
	}
}

// listPolicies returns a text with the names of the project's policies, or of some of them if there are many.
func (c *compiler) listPolicies() string {
	return summarizeNames(slices.Sorted(maps.Keys(c.policies)))
}

// summarizeNames returns a text with all names, or with some of them if there are many.
func summarizeNames(names []string) string {
	const shown = 10
	if len(names) == 0 {
		return "none"
	}
	var text string
	for i, name := range names[:min(len(names), shown)] {
		if i > 0 {
			text += ", "
		}
		text += quote(name)
	}
	if more := len(names) - shown; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// corsPolicy returns the name of a route's CORS policy. The default is "none". It reports an unknown name.
func (c *compiler) corsPolicy(file, at string, route map[string]any) string {
	name, has := route["corsPolicy"].(string)
	if !has {
		return corsNone
	}
	if _, known := c.artifact.CORSPolicies[name]; !known && name != corsNone && name != corsAnything &&
		!c.unreadable[policiesFile] {
		c.fail(file, at+"/corsPolicy",
			`There is no CORS policy of this name. Use "none", "anything-goes" or a name of corsPolicies in %s.`, policiesFile)
	}
	return name
}

func percentDecode(token string) string {
	if decoded, err := url.PathUnescape(token); err == nil {
		return decoded
	}
	return token
}

// encodeTree encodes a value of a document, or a problem. The same value always has the same encoding.
func encodeTree(value any) json.RawMessage {
	data, err := json.Marshal(value)
	if err != nil {
		// parse creates only values that can be encoded.
		panic("project: encode a parsed value: " + err.Error())
	}
	return data
}

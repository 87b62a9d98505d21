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

	"github.com/gatewright/gatewright/shared/gateway/paths"
	"github.com/gatewright/gatewright/shared/lazy"
)

const (
	routeExtension = "x-gateway-route"
	pathExtension  = "x-gateway-path"

	corsNone     = "none"
	corsAnything = "anything-goes"
)

// methods are those of OpenAPI, in the order in which routes are listed.
var methods = [...]string{"get", "put", "post", "delete", "options", "head", "patch", "trace"}

// parameter is a template expression of a path.
var parameter = lazy.Regexp(`\{[^{}]*\}`)

// duplicates knows the routes and operation ids met so far, over all files.
type duplicates struct {
	operations map[string]Source // by operation id
	routes     map[string]Source // by method and shape of the path
}

func newDuplicates() *duplicates {
	return &duplicates{operations: map[string]Source{}, routes: map[string]Source{}}
}

// readPaths makes routes of a document's operations, in the order of its paths:
// URL patterns are tried in the order in which they are written.
func (c *compiler) readPaths(doc *document, known *duplicates) {
	root, _ := doc.root.(map[string]any)
	paths, _ := root["paths"].(map[string]any)
	for _, path := range doc.paths {
		if c.stopped() {
			return
		}
		item, ok := paths[path].(map[string]any)
		if !ok || strings.HasPrefix(path, "x-") {
			continue // the schema has reported the first, the second is an extension
		}
		at := pointer("paths", path)
		if _, ref := item["$ref"]; ref {
			c.fail(doc.file, at+"/$ref", "A path that refers to another is not supported. Write its operations here.")
		}
		mode := c.pathMode(doc.file, at, item)
		c.checkPath(doc.file, at, path, mode)
		for _, method := range methods {
			operation, ok := item[method].(map[string]any)
			if !ok {
				continue
			}
			if c.operations++; c.operations > maxOperations {
				if c.operations == maxOperations+1 {
					c.over(doc.file, at+"/"+method, "operations", int64(c.operations), "Reading ended here. Divide the project into several.")
				}
				return
			}
			source := Source{File: doc.file, Pointer: at + "/" + method}
			c.readOperation(operation, Route{Method: strings.ToUpper(method), Path: path, PathMode: mode, Source: source}, known)
		}
	}
}

func (c *compiler) pathMode(file, at string, item map[string]any) PathMode {
	extension, has := item[pathExtension]
	if !has || !check(&c.report, file, at+"/"+pathExtension, c.schemas.path, extension) {
		return OpenAPIPath
	}
	object, _ := extension.(map[string]any)
	if mode, ok := object["pathMode"].(string); ok {
		return PathMode(mode)
	}
	return OpenAPIPath
}

// canonical spells a route's path as requests' are.
func canonical(path string, mode PathMode) (string, error) {
	if mode == URLPattern {
		return paths.Pattern(path)
	}
	return paths.Template(path)
}

// checkPath reports a path that no request can match as it is meant.
func (c *compiler) checkPath(file, at, path string, mode PathMode) {
	switch {
	case strings.ContainsFunc(path, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) }):
		c.fail(file, at, "This path has white space or control characters. Percent-encode them.")
	case mode == OpenAPIPath && strings.ContainsAny(path, "?#"):
		c.fail(file, at, "This path has a query or fragment, which routes do not match. Remove it; query parameters belong into parameters.")
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

// readOperation checks an operation and adds its route to the artifact.
func (c *compiler) readOperation(operation map[string]any, route Route, known *duplicates) {
	file, at := route.Source.File, route.Source.Pointer
	route.OperationID, _ = operation["operationId"].(string)
	if route.OperationID != "" {
		if first, twice := known.operations[route.OperationID]; twice {
			c.fail(file, at+"/operationId", "This operation id is also that of %s in %s. Give each operation its own.", first.Pointer, first.File)
		} else {
			known.operations[route.OperationID] = route.Source
		}
	}
	shadowed := c.shadowed(&route, known)
	extension, has := operation[routeExtension]
	if !has {
		c.fail(file, at, "This operation has no x-gateway-route, so the gateway could not serve it. Add one with a handler, or remove the operation.")
		return
	}
	at += "/" + routeExtension
	if !check(&c.report, file, at, c.schemas.route, extension) {
		return
	}
	object, _ := extension.(map[string]any)
	handler, _ := object["handler"].(map[string]any)
	component, res, ok := c.component(file, at+"/handler", handler)
	if ok {
		c.reportFaults(file, at+"/handler", res, c.catalogue.CheckHandler(component))
	}
	route.Handler = component
	route.Inbound = c.policyNames(file, at, object, "inbound")
	route.Outbound = c.policyNames(file, at, object, "outbound")
	route.CORSPolicy = c.corsPolicy(file, at, object)
	route.GraphQL = c.isGraphQL(operation, route)
	if mcp, ok := object["mcp"].(map[string]any); ok {
		c.checkMCP(file, at+"/mcp", mcp, &route)
		if c.withinOptions(file, at+"/mcp", mcp) {
			route.MCP, _ = c.encoded(file, at+"/mcp", mcp)
		}
	}
	if !shadowed && c.grow(file, at, route.bytes()) {
		c.artifact.Routes = append(c.artifact.Routes, route)
	}
	if ok && component.Export == MCPServerHandler {
		if route.Method != http.MethodPost {
			c.fail(file, at+"/handler/export", "An MCP server is called with POST, and this operation is %s. Move the handler to a POST operation; other methods are answered 405 there.", route.Method)
		}
		c.servers = append(c.servers, mcpServer{source: route.Source, options: component.Options, res: res})
	}
}

// routeOverhead is about what the encoding of a route or policy has beside its
// texts.
const routeOverhead = 200

// bytes is about what the encoding of a route has.
func (r *Route) bytes() int {
	n := routeOverhead + len(r.OperationID) + len(r.Path) + len(r.Source.File) + len(r.Source.Pointer) + len(r.Handler.Export) + len(r.Handler.Options) + len(r.CORSPolicy) + len(r.MCP)
	for _, names := range [][]string{r.Inbound, r.Outbound} {
		for _, name := range names {
			n += len(name)
		}
	}
	return n
}

// shadowed reports whether an earlier route takes all of this one's requests:
// the same method, and a path that differs in parameters' names alone. That is
// an error unless the project allows it; then the first one is served.
func (c *compiler) shadowed(route *Route, known *duplicates) bool {
	shape, err := canonical(route.Path, route.PathMode)
	if err != nil {
		shape = route.Path // that is reported already
	}
	if route.PathMode == OpenAPIPath {
		// Literals are compared without their escapes.
		shape = percentDecoded(parameter().ReplaceAllLiteralString(shape, "\x00"))
	}
	shape = route.Method + " " + string(route.PathMode) + " " + shape
	first, twice := known.routes[shape]
	switch {
	case !twice:
		known.routes[shape] = route.Source
	case c.unread[settingsFile]: // which may allow it
	case c.settings.allowDuplicateRoutes:
		c.warn(route.Source.File, route.Source.Pointer, "This route is never reached: %s in %s comes before it and matches the same requests.", first.Pointer, first.File)
	default:
		c.fail(route.Source.File, route.Source.Pointer, "This route matches the same requests as %s in %s. Remove one of them, or set allowDuplicateRoutes in %s to serve the first.", first.Pointer, first.File, settingsFile)
	}
	return twice
}

// policyNames reads the names of policies of one direction.
func (c *compiler) policyNames(file, at string, route map[string]any, direction string) []string {
	policies, _ := route["policies"].(map[string]any)
	list, _ := policies[direction].([]any)
	var out []string
	for i, entry := range list {
		name, _ := entry.(string)
		place := at + pointer("policies", direction) + pointer(strconv.Itoa(i))
		policy, known := c.policies[name]
		switch {
		case !known && c.unread[policiesFile]: // which may have it
			continue
		case !known:
			c.fail(file, place, "There is no policy of this name in %s, which has %s. Correct the name or add the policy.", policiesFile, c.knownPolicies())
			continue
		case slices.Contains(out, name):
			c.fail(file, place, "This policy stands in the list already. Remove one of them.")
		case direction == "inbound" && strings.HasSuffix(policy.policyType, "-outbound"),
			direction == "outbound" && strings.HasSuffix(policy.policyType, "-inbound"):
			c.fail(file, place, "A policy of the type %s cannot be %s. Move it to the other list.", quote(policy.policyType), direction)
		}
		policy.used = true
		out = append(out, name)
	}
	return out
}

// warnOfDoubts warns of what the catalogue doubts of routes' inbound policies, in a
// project without errors: then the options that it reads for each route are small.
func (c *compiler) warnOfDoubts() {
	if c.problems.len() > 0 {
		return
	}
	for _, r := range c.artifact.Routes {
		policies := make([]Policy, len(r.Inbound))
		for i, name := range r.Inbound {
			policies[i] = c.artifact.Policies[name]
		}
		for i, text := range c.catalogue.DoubtInbound(policies) {
			c.warn(r.Source.File, r.Source.Pointer+pointer(routeExtension, "policies", "inbound", strconv.Itoa(i)), "%s", text)
		}
	}
}

// listPolicies lists the policies of the project, some of them if there are many.
func (c *compiler) listPolicies() string {
	return someOf(slices.Sorted(maps.Keys(c.policies)))
}

// someOf lists names, some of them if there are many.
func someOf(names []string) string {
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

// corsPolicy reads the name of a CORS policy; "none" by default.
func (c *compiler) corsPolicy(file, at string, route map[string]any) string {
	name, has := route["corsPolicy"].(string)
	if !has {
		return corsNone
	}
	if _, known := c.artifact.CORSPolicies[name]; !known && name != corsNone && name != corsAnything && !c.unread[policiesFile] {
		c.fail(file, at+"/corsPolicy", `There is no CORS policy of this name. Use "none", "anything-goes" or a name of corsPolicies in %s.`, policiesFile)
	}
	return name
}

func percentDecoded(token string) string {
	if decoded, err := url.PathUnescape(token); err == nil {
		return decoded
	}
	return token
}

// encodeTree writes a value of a document, or a problem, always in the same way.
func encodeTree(value any) json.RawMessage {
	data, err := json.Marshal(value)
	if err != nil {
		// A tree of parse holds nothing that has no encoding.
		panic("project: encode a parsed value: " + err.Error())
	}
	return data
}

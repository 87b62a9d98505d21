package project

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"

	"github.com/gatewright/gatewright/shared/base/lazy"
)

// validName matches the names of arguments, tools and prompts that clients and models accept.
var validName = lazy.Regexp(`^[A-Za-z0-9_.-]{1,64}$`)

// invalidNameChars matches the characters that such names must not have.
var invalidNameChars = lazy.Regexp(`[^A-Za-z0-9_.-]+`)

// maxClientName is the maximum length of such names.
const maxClientName = 64

// nameDigits is the number of hexadecimal digits of a digest in a name.
const nameDigits = 8

// The suffixes of the names of the two tools of a GraphQL route.
const (
	introspectSuffix = "_introspect"
	executeSuffix    = "_execute"
)

// nameKey identifies a name: the operation, and the suffix if it is the name of a tool of a GraphQL route.
type nameKey struct {
	operation routeKey
	suffix    string
}

// operationNamer chooses the names that MCP servers use for operations without a name in their mcp object.
type operationNamer struct {
	// taken are the names that are not derived: those of mcp objects and operation ids. A tool
	// and a prompt can have the same name, so all names are separate for each kind.
	taken map[MCPKind]map[string]bool
	// derived are the operations by the names that are derived for them.
	derived map[MCPKind]map[string][]derivedName
	names   map[nameKey]string
}

// derivedName is a name that is derived from an operation.
type derivedName struct {
	key nameKey
	// stem is the name without its suffix. The digest of id makes the name unique.
	stem, id string
}

// operationNames returns the names of operations. An operation id that is a valid name is the name. Otherwise the name
// is derived from the operation id, or from the method and path of an operation without one. A derived name has a
// digest if it is too long, or if another operation has the same name. Two derived names that are equal both get a
// digest, so that the names do not depend on the order of the operations.
func operationNames(routes []*Route) map[nameKey]string {
	n := &operationNamer{
		taken: map[MCPKind]map[string]bool{}, derived: map[MCPKind]map[string][]derivedName{},
		names: map[nameKey]string{},
	}
	for _, kind := range []MCPKind{MCPTool, MCPPrompt, MCPResource} {
		n.taken[kind], n.derived[kind] = map[string]bool{}, map[string][]derivedName{}
	}
	for _, route := range routes {
		object, enabled := readMCPObject(route.MCP)
		if !enabled {
			continue
		}
		switch object.Type {
		case MCPGraphQL:
			n.add(MCPTool, route, introspectSuffix, object.IntrospectionTool.Name)
			n.add(MCPTool, route, executeSuffix, object.ExecuteTool.Name)
		case MCPTool, MCPPrompt, MCPResource:
			n.add(object.Type, route, "", object.Name)
		}
	}
	for kind, byName := range n.derived {
		for name, all := range byName {
			for _, d := range all {
				if len(all) > 1 || n.taken[kind][name] || len(name) > maxClientName {
					n.names[d.key] = withDigest(d.stem, d.id, d.key.suffix)
				} else {
					n.names[d.key] = name
				}
			}
		}
	}
	return n.names
}

// add adds one name of an operation. configured is the name in the mcp object.
func (n *operationNamer) add(kind MCPKind, route *Route, suffix, configured string) {
	key := nameKey{route.key(), suffix}
	if configured = strings.TrimSpace(configured); configured != "" {
		n.taken[kind][configured] = true
		return
	}
	name := route.OperationID + suffix
	if route.OperationID != "" && (kind == MCPResource || validName().MatchString(name)) {
		n.taken[kind][name], n.names[key] = true, name
		return
	}
	stem, id := deriveName(route)
	n.derived[kind][stem+suffix] = append(n.derived[kind][stem+suffix], derivedName{key, stem, id})
}

// deriveName returns a name for an operation that has only valid characters, but can be too long. The name has the
// method in lower case. id is the text that the name is derived from: the operation id, or the method and path if the
// id has no valid character. It has the method as it is, because methods can differ in their case alone.
func deriveName(route *Route) (name, id string) {
	if name = replaceInvalidChars(route.OperationID); name != "" {
		return name, route.OperationID
	}
	return replaceInvalidChars(strings.ToLower(route.Method) + " " + route.Path), route.Method + " " + route.Path
}

// replaceInvalidChars replaces each run of invalid characters of a name by an underscore, except at its ends.
func replaceInvalidChars(name string) string {
	return strings.Trim(invalidNameChars().ReplaceAllString(name, "_"), "_")
}

// withDigest returns a name of at most maxClientName bytes: the beginning of stem, then a digest of id, then suffix.
func withDigest(stem, id, suffix string) string {
	sum := sha256.Sum256([]byte(id))
	stem = stem[:min(len(stem), maxClientName-nameDigits-1-len(suffix))]
	return stem + "_" + hex.EncodeToString(sum[:])[:nameDigits] + suffix
}

// operationName returns the name of an operation that has none in its mcp object. It
// returns the operation id if names are not derived, as in OfferedOperations.
func (c *compiler) operationName(route *Route, suffix string) string {
	if name, ok := c.names[nameKey{route.key(), suffix}]; ok {
		return name
	}
	if route.OperationID == "" && c.names != nil {
		name, _ := deriveName(route)
		return name + suffix
	}
	return route.OperationID + suffix
}

// readMCPObject reads a route's mcp object. enabled is false if the object
// disables the operation, or has an invalid shape, which is already reported.
func readMCPObject(raw json.RawMessage) (object mcpObject, enabled bool) {
	object.Type = MCPTool
	if len(raw) > 0 && json.Unmarshal(raw, &object) != nil {
		return object, false
	}
	return object, object.Enabled == nil || *object.Enabled
}

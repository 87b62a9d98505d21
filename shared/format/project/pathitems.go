package project

import (
	"maps"
	"net/http"
	"slices"
	"strings"
)

// additionalOperations is the member of a path item that has its operations with other methods (OpenAPI 3.2).
const additionalOperations = "additionalOperations"

// MethodQuery is the method QUERY of OpenAPI 3.2: a safe request with a body.
const MethodQuery = "QUERY"

// methods are the members of a path item that are operations, of all versions of OpenAPI. The
// artifact lists the routes of a path in this order, and then those of additionalOperations.
var methods = [...]string{"get", "put", "post", "delete", "options", "head", "patch", "trace", "query"}

// Methods returns the members of a path item that are operations. Each is a method in lower case.
func Methods() []string { return methods[:] }

// RequestMethod returns the method of requests for a method as authors write it: get and GET are GET. A method that is
// no member of path items keeps its case: copy and COPY are two methods.
func RequestMethod(text string) string {
	if isMethod(strings.ToLower(text)) {
		return strings.ToUpper(text)
	}
	return text
}

// isMethod reports whether a member of a path item is an operation.
func isMethod(member string) bool { return slices.Contains(methods[:], member) }

// pathItem is the path item of a path, with the members of the path items that it refers to.
type pathItem struct {
	members map[string]any
	// at is the pointer of the path. origins has the pointers of the path items that members come from, by member.
	// It is nil if all of them come from the path itself.
	at      string
	origins map[string]string
}

// pointerOf returns the pointer of a member.
func (p *pathItem) pointerOf(member string) string {
	if origin, found := p.origins[member]; found {
		return origin + pointer(member)
	}
	return p.at + pointer(member)
}

// declaredOperation is an operation of a path.
type declaredOperation struct {
	method string // as in requests
	at     string // the pointer of the operation
	object map[string]any
	// isRepeated is true for an operation that an earlier path refers to, or that another path declares.
	isRepeated bool
	// isAdditional is true for an operation of additionalOperations.
	isAdditional bool
}

// operations returns the operations of a path, in the order of the artifact.
func (p *pathItem) operations() []declaredOperation {
	var out []declaredOperation
	for _, member := range methods {
		if object, ok := p.members[member].(map[string]any); ok {
			out = append(out, declaredOperation{
				method: strings.ToUpper(member), at: p.pointerOf(member), object: object,
			})
		}
	}
	others, _ := p.members[additionalOperations].(map[string]any)
	for _, method := range slices.Sorted(maps.Keys(others)) {
		if object, ok := others[method].(map[string]any); ok {
			out = append(out, declaredOperation{
				method: method, at: p.pointerOf(additionalOperations) + pointer(method), object: object, isAdditional: true,
			})
		}
	}
	return out
}

// belongsToOtherPath reports whether the operation with a pointer is declared by another path.
func (p *pathItem) belongsToOtherPath(at string) bool {
	return strings.HasPrefix(at, "/paths/") && !strings.HasPrefix(at, p.at+"/")
}

// readPathItem returns the path item of a path, and follows its references to other path items of the document. If both
// sides have a member, the path item that refers to the other one takes precedence, and readPathItem warns about the
// member. It reports a reference that it cannot follow.
func (c *compiler) readPathItem(doc *document, at string, object map[string]any) *pathItem {
	if _, refers := object["$ref"]; !refers {
		return &pathItem{members: object, at: at}
	}
	p := &pathItem{members: map[string]any{}, at: at, origins: map[string]string{}}
	visited := []string{at}
	for {
		for _, member := range itemMembers() {
			if _, has := object[member]; !has {
				continue
			}
			if _, exists := p.members[member]; exists {
				c.warn(doc.file, p.pointerOf(member), "The path item that this one refers to also has %s. That member has no "+
					"effect, because the one here takes precedence. Remove one of them.", quote(member))
				delete(doc.unserved, at+pointer(member))
				continue
			}
			p.members[member], p.origins[member] = object[member], at
		}
		target, refers := object["$ref"].(string)
		if !refers {
			return p // the path item is complete, or its $ref has an invalid type, which is already reported
		}
		next, problem := pathItemPointer(target)
		switch {
		case problem != "":
		case slices.Contains(visited, next):
			problem = "This reference leads back to a path item that refers here. Write the operations into one of these path " +
				"items."
		case len(visited) > maxReferences:
			problem = "This path item is behind more than 20 references. Refer to it directly."
		}
		if problem != "" {
			c.fail(doc.file, at+"/$ref", "%s", problem)
			return p
		}
		found, _ := lookup(doc.root, target[len("#/"):])
		var ok bool
		if object, ok = found.(map[string]any); !ok {
			return p // already reported
		}
		at = next
		visited = append(visited, at)
	}
}

// itemMembers returns the members of a path item that readPathItem combines. There are few of them, because each path
// that refers to a path item has them. No other member has an effect.
func itemMembers() []string {
	return append(methods[:], additionalOperations, "parameters", "servers", "summary", "description", pathExtension)
}

// pathItemPointer returns the pointer of the path item that a reference refers to. If the reference cannot refer to a
// path item, it returns what to do.
func pathItemPointer(reference string) (at, problem string) {
	const advice = "Refer to #/components/pathItems/NAME or to another path of this document."
	path, isPointer := strings.CutPrefix(reference, "#/")
	switch {
	case !strings.HasPrefix(reference, "#"):
		return "", "This path item is in another file, and a build cannot follow references to files yet. Write its " +
			"operations here, or under components.pathItems of this file."
	case !isPointer:
		return "", "This is no JSON pointer. " + advice
	}
	var names []string
	for token := range strings.SplitSeq(path, "/") {
		names = append(names, unescapeToken(percentDecode(token)))
	}
	switch {
	case len(names) == 2 && names[0] == "paths" && !strings.HasPrefix(names[1], "x-"):
	case len(names) == 3 && names[0] == "components" && names[1] == "pathItems":
	default:
		return "", "This refers to no path item. " + advice
	}
	return pointer(names...), ""
}

// isOperation reports whether the tokens of a pointer are those of an operation that a route can have: one of a path,
// or of a path item in components.
func isOperation(at []string) bool {
	switch {
	case len(at) > 0 && at[0] == "paths":
		at = at[1:]
	case len(at) > 1 && at[0] == "components" && at[1] == "pathItems":
		at = at[2:]
	default:
		return false
	}
	return len(at) == 2 && isMethod(at[1]) || len(at) == 3 && at[1] == additionalOperations
}

// checkMethod reports a method of additionalOperations that the gateway does not serve, or that a path item has as a
// member, such as get.
func (c *compiler) checkMethod(file string, operation declaredOperation) {
	member := strings.ToLower(operation.method)
	switch {
	case !operation.isAdditional:
	case operation.method == http.MethodConnect:
		c.fail(file, operation.at, "The gateway does not serve CONNECT, which has no path. Remove the operation.")
	case isMethod(member):
		c.fail(file, operation.at, "Write this operation as the member %s of its path.", quote(member))
	}
}

// leaveOut warns about a path that no request can have, and records its operations, which are left out.
func (c *compiler) leaveOut(file string, p *pathItem, known *declarations) {
	c.warn(file, p.at, "This path is not served, because it has a query or a fragment: the path of a request has "+
		"neither. Write the path without it, and describe query parameters under parameters.")
	for _, operation := range p.operations() {
		if id, _ := operation.object["operationId"].(string); id != "" {
			known.leftOut[Source{file, id}] = true
		}
	}
}

// routeKey identifies a route. Several routes can have the same Source, because paths can refer to the same path item.
type routeKey struct{ file, method, path string }

func (r *Route) key() routeKey { return routeKey{r.Source.File, r.Method, r.Path} }

// declaration returns the path item and the operation that declare a route.
func (c *compiler) declaration(route *Route) (item, operation map[string]any) {
	if declared, found := c.referred[route.key()]; found {
		return declared.item, declared.operation
	}
	at := tokens(route.Source.Pointer)
	root, _ := c.docs[route.Source.File].root.(map[string]any)
	paths, _ := root["paths"].(map[string]any)
	item, _ = paths[at[1]].(map[string]any)
	operation = item
	for _, name := range at[2:] {
		operation, _ = operation[name].(map[string]any)
	}
	return item, operation
}

// referredOperation is an operation with the path item of the path that refers to it.
type referredOperation struct{ item, operation map[string]any }

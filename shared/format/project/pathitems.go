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
	// doc and at are the document and the pointer of the path. origins has the path items that members come from, by
	// member. It is nil if all of them come from the path itself.
	doc     *document
	at      string
	origins map[string]place
}

// placeOf returns the place of a member.
func (p *pathItem) placeOf(member string) place {
	out := place{p.doc, p.at, p.members[member]}
	if origin, found := p.origins[member]; found {
		out.doc, out.at = origin.doc, origin.at
	}
	out.at += pointer(member)
	return out
}

// declaredOperation is an operation of a path.
type declaredOperation struct {
	method string // as in requests
	// doc and at are the document and the pointer of the operation.
	doc    *document
	at     string
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
			at := p.placeOf(member)
			out = append(out, declaredOperation{method: strings.ToUpper(member), doc: at.doc, at: at.at, object: object})
		}
	}
	others, _ := p.members[additionalOperations].(map[string]any)
	for _, method := range slices.Sorted(maps.Keys(others)) {
		if object, ok := others[method].(map[string]any); ok {
			at := p.placeOf(additionalOperations)
			out = append(out, declaredOperation{
				method: method, doc: at.doc, at: at.at + pointer(method), object: object, isAdditional: true,
			})
		}
	}
	return out
}

// belongsToOtherPath reports whether another path declares an operation.
func (p *pathItem) belongsToOtherPath(operation declaredOperation) bool {
	return IsRoutesFile(operation.doc.file) && strings.HasPrefix(operation.at, "/paths/") &&
		(operation.doc != p.doc || !strings.HasPrefix(operation.at, p.at+"/"))
}

// readPathItem returns the path item of a path, and follows its references to other path items. If both sides have a
// member, the path item that refers to the other one takes precedence, and readPathItem warns about the member. It
// reports a reference that it cannot follow.
func (c *compiler) readPathItem(item place) *pathItem {
	if _, refers := item.object()["$ref"]; !refers {
		return &pathItem{members: item.object(), doc: item.doc, at: item.at}
	}
	p := &pathItem{members: map[string]any{}, doc: item.doc, at: item.at, origins: map[string]place{}}
	visited := []string{item.id()}
	for {
		for _, member := range itemMembers() {
			value, has := item.object()[member]
			if !has {
				continue
			}
			if _, exists := p.members[member]; exists {
				at := p.placeOf(member)
				c.warn(at.doc.file, at.at, "The path item that this one refers to also has %s. That member has no effect, "+
					"because the one here takes precedence. Remove one of them.", quote(member))
				delete(item.doc.unserved, item.at+pointer(member))
				continue
			}
			p.members[member], p.origins[member] = value, item
		}
		target := item.reference()
		if target == "" {
			return p // the path item is complete, or its $ref has an invalid type, which is already reported
		}
		next, _ := item.doc.resolve(target)
		if next.doc == nil {
			return p // checkObjects has reported it
		}
		problem := notPathItem(next)
		switch {
		case problem != "":
		case slices.Contains(visited, next.id()):
			problem = "This reference leads back to a path item that refers here. Write the operations into one of these path " +
				"items."
		case len(visited) > maxReferences:
			problem = "This path item is behind more than 20 references. Refer to it directly."
		}
		if problem != "" {
			c.fail(item.doc.file, item.at+"/$ref", "%s", problem)
			return p
		}
		if next.object() == nil {
			return p // already reported
		}
		item = next
		visited = append(visited, item.id())
	}
}

// itemMembers returns the members of a path item that readPathItem combines. There are few of them, because each path
// that refers to a path item has them. No other member has an effect.
func itemMembers() []string {
	return append(methods[:], additionalOperations, "parameters", "servers", "summary", "description", pathExtension)
}

// notPathItem returns an error text for a place in a routes file that cannot have a path item. It returns "" for other
// places. A file that is not a routes file can have a path item at any place.
func notPathItem(p place) string {
	names := tokens(p.at)
	switch {
	case !IsRoutesFile(p.doc.file):
	case len(names) == 2 && names[0] == "paths" && !strings.HasPrefix(names[1], "x-"):
	case len(names) == 3 && names[0] == "components" && names[1] == "pathItems":
	default:
		return "This refers to no path item. Refer to #/components/pathItems/NAME or to another path of this document."
	}
	return ""
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
func (c *compiler) checkMethod(operation declaredOperation) {
	file := operation.doc.file
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
func (c *compiler) leaveOut(p *pathItem, known *declarations) {
	c.warn(p.doc.file, p.at, "This path is not served, because it has a query or a fragment: the path of a request has "+
		"neither. Write the path without it, and describe query parameters under parameters.")
	for _, operation := range p.operations() {
		if id, _ := operation.object["operationId"].(string); id != "" {
			known.leftOut[Source{p.doc.file, id}] = true
		}
	}
}

// routeKey identifies a route. Several routes can have the same Source, because paths can refer to the same path item.
type routeKey struct{ file, method, path string }

func (r *Route) key() routeKey { return routeKey{r.file, r.Method, r.Path} }

// declaration returns the path item and the operation that declare a route.
func (c *compiler) declaration(route *Route) (item *pathItem, operation place) {
	if declared, found := c.referred[route.key()]; found {
		return declared.item, place{declared.operation.doc, declared.operation.at, declared.operation.object}
	}
	doc, at := c.docs[route.file], tokens(route.Source.Pointer)
	root, _ := doc.root.(map[string]any)
	paths, _ := root["paths"].(map[string]any)
	members, _ := paths[at[1]].(map[string]any)
	declared := members
	for _, name := range at[2:] {
		declared, _ = declared[name].(map[string]any)
	}
	return &pathItem{members: members, doc: doc, at: pointer(at[:2]...)}, place{doc, route.Source.Pointer, declared}
}

// referredOperation is an operation with the path item of the path that refers to it.
type referredOperation struct {
	item      *pathItem
	operation declaredOperation
}

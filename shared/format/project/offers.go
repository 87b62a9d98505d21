package project

import (
	"slices"
	"strings"
)

// OfferedOperation is one operation of an OpenAPI document as an MCP server would offer it.
type OfferedOperation struct {
	// MCPOperation has the arguments, and the schemas of the arguments and of a successful response.
	MCPOperation
	// Method and Path are the method and path of a call. The path has its parameters in braces.
	Method, Path string
	// Declared is the operation in the document. Callers must not change it.
	Declared map[string]any
}

// offeredFile is the file name in problems with a document that does not belong to a project.
const offeredFile = "openapi.json"

// offeredExtension is the extension of an operation in such a document that corresponds to the mcp object of a route.
const offeredExtension = "x-mcp"

// OfferedOperations returns all operations of an OpenAPI document as tools. The document does not belong
// to a project, so its operations need no handlers. The extension x-mcp of an operation corresponds to
// the mcp object of a route. An operation with "enabled": false in x-mcp is left out. The tools are in
// the order of the document's paths, and for each path in the order of offeredMethods. OfferedOperations
// returns a problem for each operation that cannot become a tool, and for a document that it cannot read.
func OfferedOperations(data []byte) ([]OfferedOperation, []Problem) {
	c := &compiler{
		artifact:      &Artifact{},
		docs:          map[string]*document{},
		loaded:        map[string]*document{},
		referredFiles: map[string]bool{},
		offers:        map[routeKey]*offerBuilder{},
	}
	var all []OfferedOperation
	if doc := c.parse(offeredFile, data); doc != nil {
		c.loaded[offeredFile] = doc
		c.docs[offeredFile] = doc
		root, _ := doc.root.(map[string]any)
		paths, _ := root["paths"].(map[string]any)
		for _, path := range doc.paths {
			item, _ := paths[path].(map[string]any)
			for _, method := range offeredMethods {
				if declared, ok := item[method].(map[string]any); ok {
					all = c.offerDeclared(all, path, method, declared)
				}
			}
		}
	}
	return all, c.report.errors()
}

// offeredMethods are the methods of offered operations, in the order that readers expect.
var offeredMethods = [...]string{"get", "post", "put", "patch", "delete"}

// offerDeclared appends the tool of one declared operation to all, if the operation can become a tool. It reports a
// name that a tool of all already has.
func (c *compiler) offerDeclared(
	all []OfferedOperation, path, method string, declared map[string]any,
) []OfferedOperation {
	id, _ := declared["operationId"].(string)
	id = strings.ReplaceAll(id, "$", "") // names of tools must not contain "$"
	at := pointer("paths", path, method)
	route := &Route{
		OperationID: id, Method: strings.ToUpper(method), Path: path, PathMode: OpenAPIPath,
		Source: Source{File: offeredFile, Pointer: at}, file: offeredFile,
	}
	if object, hasObject := declared[offeredExtension]; hasObject {
		route.MCP = encodeTree(object)
	}
	offer := c.offer(route, true)
	if offer == nil {
		return all
	}
	if slices.ContainsFunc(all, func(o OfferedOperation) bool { return o.Name == offer.Name }) {
		c.fail(offeredFile, at, "Another operation is called %s too. Give one of them another operationId.",
			quote(offer.Name))
		return all
	}
	return append(all, OfferedOperation{MCPOperation: *offer, Method: route.Method, Path: path, Declared: declared})
}

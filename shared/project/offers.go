package project

import (
	"slices"
	"strings"
)

// OfferedOperation is one operation of an OpenAPI document as an MCP server would offer it.
type OfferedOperation struct {
	// MCPOperation has its arguments, and the schemas of these and of its good answer.
	MCPOperation
	// Method and Path are where a call goes, the path with its parameters in braces.
	Method, Path string
	// Declared is the operation as the document has it: nobody may change it.
	Declared map[string]any
}

// offeredFile is what problems call a document that is no file of a project.
const offeredFile = "openapi.json"

// offeredExtension is where such a document says what the mcp object of a route does.
const offeredExtension = "x-mcp"

// Offers makes tools of all operations of an OpenAPI document that is no project's: its operations need no
// handlers. The extension x-mcp of an operation is what the mcp object of a route is: with enabled false
// nothing is made of it. Tools come in the order of the document, those of a path in that of their methods.
// What no tool can be made of is a problem, at its place; a document that cannot be read is one too.
func Offers(data []byte) ([]OfferedOperation, []Problem) {
	c := &compiler{
		artifact: &Artifact{},
		docs:     map[string]*document{},
		offers:   map[Source]*offerMaker{},
	}
	var all []OfferedOperation
	if doc := c.parse(offeredFile, data); doc != nil {
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

// offeredMethods are those of which there are operations, in the order in which a reader wants them.
var offeredMethods = [...]string{"get", "post", "put", "patch", "delete"}

func (c *compiler) offerDeclared(all []OfferedOperation, path, method string, declared map[string]any) []OfferedOperation {
	id, _ := declared["operationId"].(string)
	id = strings.ReplaceAll(id, "$", "") // which no name of a tool has
	at := pointer("paths", path, method)
	route := &Route{
		OperationID: id, Method: strings.ToUpper(method), Path: path, PathMode: OpenAPIPath,
		Source: Source{File: offeredFile, Pointer: at},
	}
	if object, written := declared[offeredExtension]; written {
		route.MCP = encodeTree(object)
	}
	offer := c.offer(route, true)
	if offer == nil {
		return all
	}
	if slices.ContainsFunc(all, func(o OfferedOperation) bool { return o.Name == offer.Name }) {
		c.fail(offeredFile, at, "Another operation is called %s too. Give one of them another operationId.", quote(offer.Name))
		return all
	}
	return append(all, OfferedOperation{MCPOperation: *offer, Method: route.Method, Path: path, Declared: declared})
}

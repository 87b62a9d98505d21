// Package mcp serves POST /mcp: the MCP server that has the operations of the management API as tools (specification
// 4.1). Only operations with NoTool or Hidden have no tool. The tools come from the API's description
// (shared/management/apitools), and shared/format/mcp implements the protocol. A call is a request to the API in the
// same process, with the caller's key. So the key has the same permissions as through REST. The audit record of the
// call has the source mcp.
//
// This package connects the tools with the protocol. It implements the caller's view of the tools (view.go), the
// request of a call and its result (call.go, result.go), and the confirmation by a person (confirm.go).
//
// The package has no list of tools, and does not implement the operations.
//
// Read operations.go first, then server.go and call.go.
package mcp

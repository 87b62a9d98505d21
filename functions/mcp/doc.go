// Package mcp serves POST /mcp: the MCP server that has the operations of the management API as tools (specification
// 4.1). Only operations with NoTool or Hidden have no tool. The tools come from the API's description
// (shared/management/apitools), and shared/format/mcp implements the protocol. A call is a request to the API in the
// same process, with the caller's key. So the key has the same permissions as through REST. The audit record of the
// call has the source mcp.
//
// This package connects the tools with the protocol. It selects the tools that a caller sees (view.go), sends the
// request of a call and returns its result (call.go, result.go), and asks a person for a confirmation (confirm.go).
//
// The package has no list of tools, and does not implement the operations.
//
// Read operations.go first, then server.go and call.go.
package mcp

// Package mcp answers POST /mcp: the MCP server that has every operation of the management API as a tool
// (specification 4.1). The tools are made of the API's description (shared/apitools), the protocol is
// shared/mcp's, and a call is a request to the API in this process, with the caller's key: what a key may not do by
// REST it may not do here, and the audit record says mcp.
//
// Here is what stands between the two: what a caller is shown (view.go), the request and its result (call.go,
// result.go), and a person's confirmation (confirm.go).
//
// It has no list of tools, and holds no rule of an operation's.
//
// Read operations.go first, then server.go and call.go.
package mcp

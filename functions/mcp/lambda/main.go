// Command lambda is the function that serves the operations of mcp: the MCP server, whose tools are the operations of
// all groups. It only starts package mcp, which has the logic. Package functions lists the groups.
package main

import (
	"github.com/gatewright/gatewright/functions"
	"github.com/gatewright/gatewright/shared/runtime/cloud"
)

func main() { cloud.Serve(functions.MCP().Bind) }

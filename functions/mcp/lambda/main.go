// Command lambda is the function behind the operations of mcp, whose tools are those of all
// groups. It only starts package mcp, which has the logic. Package functions lists the groups.
package main

import (
	"github.com/gatewright/gatewright/functions"
	"github.com/gatewright/gatewright/shared/runtime/cloud"
)

func main() { cloud.Serve(functions.MCP().Bind) }

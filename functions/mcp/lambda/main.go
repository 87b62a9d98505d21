// Command lambda is the function behind the operations of mcp, whose tools are those of all groups. Wiring only:
// what they do is in package mcp, and which groups there are in package functions.
package main

import (
	"github.com/gatewright/gatewright/functions"
	"github.com/gatewright/gatewright/shared/cloud"
)

func main() { cloud.Serve(functions.MCP().Bind) }

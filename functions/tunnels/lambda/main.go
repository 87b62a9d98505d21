// Command lambda is the function that serves the operations of tunnels. It only starts package tunnels, which has the
// logic.
package main

import (
	"github.com/gatewright/gatewright/functions/tunnels"
	"github.com/gatewright/gatewright/shared/runtime/cloud"
)

func main() { cloud.Serve(tunnels.Bind) }

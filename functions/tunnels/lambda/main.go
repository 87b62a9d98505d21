// Command lambda is the function behind the operations of tunnels. Wiring only:
// what they do is in package tunnels.
package main

import (
	"github.com/gatewright/gatewright/functions/tunnels"
	"github.com/gatewright/gatewright/shared/cloud"
)

func main() { cloud.Serve(tunnels.Bind) }

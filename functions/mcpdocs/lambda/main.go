// Command lambda is the function behind the operations of mcpdocs. Wiring only:
// what they do is in package mcpdocs.
package main

import (
	"github.com/gatewright/gatewright/functions/mcpdocs"
	"github.com/gatewright/gatewright/shared/cloud"
)

func main() { cloud.Serve(mcpdocs.Bind) }

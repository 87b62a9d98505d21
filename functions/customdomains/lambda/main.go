// Command lambda is the function behind the operations of customdomains. Wiring only:
// what they do is in package customdomains.
package main

import (
	"github.com/gatewright/gatewright/functions/customdomains"
	"github.com/gatewright/gatewright/shared/cloud"
)

func main() { cloud.Serve(customdomains.Bind) }

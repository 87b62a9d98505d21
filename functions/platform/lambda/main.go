// Command lambda is the function behind the operations of platform. Wiring only:
// what they do is in package platform.
package main

import (
	"github.com/gatewright/gatewright/functions/platform"
	"github.com/gatewright/gatewright/shared/cloud"
)

func main() { cloud.Serve(platform.Bind) }

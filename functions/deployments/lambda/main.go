// Command lambda is the function behind the operations of deployments. Wiring only:
// what they do is in package deployments.
package main

import (
	"github.com/gatewright/gatewright/functions/deployments"
	"github.com/gatewright/gatewright/shared/cloud"
)

func main() { cloud.Serve(deployments.Bind) }

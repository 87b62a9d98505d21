// Command lambda is the function that serves the operations of deployments. It only starts package deployments, which
// has the logic.
package main

import (
	"github.com/gatewright/gatewright/functions/deployments"
	"github.com/gatewright/gatewright/shared/runtime/cloud"
)

func main() { cloud.Serve(deployments.Bind) }

// Command lambda is the function that serves the operations of environments. It only starts package environments, which
// has the logic.
package main

import (
	"github.com/gatewright/gatewright/functions/environments"
	"github.com/gatewright/gatewright/shared/runtime/cloud"
)

func main() { cloud.Serve(environments.Bind) }

// Command lambda is the function that serves the operations of variables. It only starts package variables, which has
// the logic.
package main

import (
	"github.com/gatewright/gatewright/functions/variables"
	"github.com/gatewright/gatewright/shared/runtime/cloud"
)

func main() { cloud.Serve(variables.Bind) }

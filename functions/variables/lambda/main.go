// Command lambda is the function behind the operations of variables. Wiring only:
// what they do is in package variables.
package main

import (
	"github.com/gatewright/gatewright/functions/variables"
	"github.com/gatewright/gatewright/shared/cloud"
)

func main() { cloud.Serve(variables.Bind) }

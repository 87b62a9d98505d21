// Command lambda is the function behind the operations of environments. Wiring only:
// what they do is in package environments.
package main

import (
	"github.com/gatewright/gatewright/functions/environments"
	"github.com/gatewright/gatewright/shared/cloud"
)

func main() { cloud.Serve(environments.Bind) }

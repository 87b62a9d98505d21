// Command lambda is the function behind the operations of metering. Wiring only:
// what they do is in package metering.
package main

import (
	"github.com/gatewright/gatewright/functions/metering"
	"github.com/gatewright/gatewright/shared/cloud"
)

func main() { cloud.Serve(metering.Bind) }

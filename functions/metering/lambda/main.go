// Command lambda is the function that serves the operations of metering. It only starts package metering, which has the
// logic.
package main

import (
	"github.com/gatewright/gatewright/functions/metering"
	"github.com/gatewright/gatewright/shared/runtime/cloud"
)

func main() { cloud.Serve(metering.Bind) }

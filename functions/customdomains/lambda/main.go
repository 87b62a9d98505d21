// Command lambda is the function that serves the operations of customdomains. It only starts package customdomains,
// which has the logic.
package main

import (
	"github.com/gatewright/gatewright/functions/customdomains"
	"github.com/gatewright/gatewright/shared/runtime/cloud"
)

func main() { cloud.Serve(customdomains.Bind) }

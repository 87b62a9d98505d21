// Command lambda is the function that serves the operations of consumers. It only starts package consumers, which has
// the logic.
package main

import (
	"github.com/gatewright/gatewright/functions/consumers"
	"github.com/gatewright/gatewright/shared/runtime/cloud"
)

func main() { cloud.Serve(consumers.Bind) }

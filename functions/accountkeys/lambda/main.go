// Command lambda is the function that serves the operations of accountkeys. It only starts package accountkeys, which
// has the logic.
package main

import (
	"github.com/gatewright/gatewright/functions/accountkeys"
	"github.com/gatewright/gatewright/shared/runtime/cloud"
)

func main() { cloud.Serve(accountkeys.Bind) }

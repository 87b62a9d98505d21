// Command lambda is the function that serves the console. It only starts package console, which has the logic.
package main

import (
	"github.com/gatewright/gatewright/functions/console"
	"github.com/gatewright/gatewright/shared/runtime/cloud"
)

func main() { cloud.Serve(console.Bind) }

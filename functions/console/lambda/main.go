// Command lambda is the function behind the console. Wiring only: what it does is in package console.
package main

import (
	"github.com/gatewright/gatewright/functions/console"
	"github.com/gatewright/gatewright/shared/cloud"
)

func main() { cloud.Serve(console.Bind) }

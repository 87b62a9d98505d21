// Command lambda is the function that builds uploaded archives. Wiring only:
// what it does is in package builder.
package main

import (
	"github.com/gatewright/gatewright/functions/builder"
	"github.com/gatewright/gatewright/shared/cloud"
)

func main() { cloud.Start(builder.Open) }

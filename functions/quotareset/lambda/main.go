// Command lambda is the function that has quota periods closed. Wiring only:
// what it does is in package quotareset.
package main

import (
	"github.com/gatewright/gatewright/functions/quotareset"
	"github.com/gatewright/gatewright/shared/cloud"
)

func main() { cloud.Start(quotareset.Open) }

// Command lambda is the function behind the operations of consumers. Wiring only:
// what they do is in package consumers.
package main

import (
	"github.com/gatewright/gatewright/functions/consumers"
	"github.com/gatewright/gatewright/shared/cloud"
)

func main() { cloud.Serve(consumers.Bind) }

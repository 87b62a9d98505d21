// Command lambda is the function behind the operations of accountkeys. Wiring only:
// what they do is in package accountkeys.
package main

import (
	"github.com/gatewright/gatewright/functions/accountkeys"
	"github.com/gatewright/gatewright/shared/cloud"
)

func main() { cloud.Serve(accountkeys.Bind) }

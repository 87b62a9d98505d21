// Command lambda is the function behind the operations of keybuckets. Wiring only:
// what they do is in package keybuckets.
package main

import (
	"github.com/gatewright/gatewright/functions/keybuckets"
	"github.com/gatewright/gatewright/shared/cloud"
)

func main() { cloud.Serve(keybuckets.Bind) }

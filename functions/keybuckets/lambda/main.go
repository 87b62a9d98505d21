// Command lambda is the function that serves the operations of keybuckets. It only starts package keybuckets, which has
// the logic.
package main

import (
	"github.com/gatewright/gatewright/functions/keybuckets"
	"github.com/gatewright/gatewright/shared/runtime/cloud"
)

func main() { cloud.Serve(keybuckets.Bind) }

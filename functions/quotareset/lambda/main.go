// Command lambda is the function that begins to close quota periods. It only starts package quotareset, which has the
// logic.
package main

import (
	"github.com/gatewright/gatewright/functions/quotareset"
	"github.com/gatewright/gatewright/shared/runtime/cloud"
)

func main() { cloud.Start(quotareset.Open) }

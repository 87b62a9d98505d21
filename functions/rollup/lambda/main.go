// Command lambda is the function that adds up the counts of gateways. It only starts package rollup, which has the
// logic.
package main

import (
	"github.com/gatewright/gatewright/functions/rollup"
	"github.com/gatewright/gatewright/shared/runtime/cloud"
)

func main() { cloud.Start(rollup.Open) }

// Command lambda is the function that adds up what gateways have counted. Wiring
// only: what it does is in package rollup.
package main

import (
	"github.com/gatewright/gatewright/functions/rollup"
	"github.com/gatewright/gatewright/shared/cloud"
)

func main() { cloud.Start(rollup.Open) }

// Command lambda is the function that advances durable operations. Wiring
// only: what it does is in package operations.
package main

import (
	"github.com/gatewright/gatewright/functions/operations"
	"github.com/gatewright/gatewright/shared/cloud"
)

func main() { cloud.Start(operations.Open) }

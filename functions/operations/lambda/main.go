// Command lambda is the function that advances durable operations. It only starts package operations, which has the
// logic.
package main

import (
	"github.com/gatewright/gatewright/functions/operations"
	"github.com/gatewright/gatewright/shared/runtime/cloud"
)

func main() { cloud.Start(operations.Open) }

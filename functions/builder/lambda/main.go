// Command lambda is the function that builds uploaded archives. It only starts package builder, which has the logic.
package main

import (
	"github.com/gatewright/gatewright/functions/builder"
	"github.com/gatewright/gatewright/shared/runtime/cloud"
)

func main() { cloud.Start(builder.Open) }

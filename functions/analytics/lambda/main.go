// Command lambda is the function that serves the operations of analytics. It only starts package analytics, which has
// the logic.
package main

import (
	"github.com/gatewright/gatewright/functions/analytics"
	"github.com/gatewright/gatewright/shared/runtime/cloud"
)

func main() { cloud.Serve(analytics.Bind) }

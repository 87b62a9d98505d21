// Command lambda is the function that serves the operations of platform. It only starts package platform, which has the
// logic.
package main

import (
	"github.com/gatewright/gatewright/functions/platform"
	"github.com/gatewright/gatewright/shared/runtime/cloud"
)

func main() { cloud.Serve(platform.Bind) }

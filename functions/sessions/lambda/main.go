// Command lambda is the function that serves the operations of sessions. It only starts package sessions, which has the
// logic.
package main

import (
	"github.com/gatewright/gatewright/functions/sessions"
	"github.com/gatewright/gatewright/shared/runtime/cloud"
)

func main() { cloud.Serve(sessions.Bind) }

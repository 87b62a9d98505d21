// Command lambda is the function behind the operations of sessions. Wiring only:
// what they do is in package sessions.
package main

import (
	"github.com/gatewright/gatewright/functions/sessions"
	"github.com/gatewright/gatewright/shared/cloud"
)

func main() { cloud.Serve(sessions.Bind) }

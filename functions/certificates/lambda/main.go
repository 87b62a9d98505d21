// Command lambda is the function that serves the operations of client CAs. It only starts package certificates, which
// has the logic.
package main

import (
	"github.com/gatewright/gatewright/functions/certificates"
	"github.com/gatewright/gatewright/shared/runtime/cloud"
)

func main() { cloud.Serve(certificates.Bind) }

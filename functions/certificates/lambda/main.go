// Command lambda is the function behind the operations of client CAs. Wiring only:
// what they do is in package certificates.
package main

import (
	"github.com/gatewright/gatewright/functions/certificates"
	"github.com/gatewright/gatewright/shared/cloud"
)

func main() { cloud.Serve(certificates.Bind) }

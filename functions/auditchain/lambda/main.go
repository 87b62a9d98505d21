// Command lambda is the function that chains audit records. Wiring only: what it
// does is in package auditchain.
package main

import (
	"github.com/gatewright/gatewright/functions/auditchain"
	"github.com/gatewright/gatewright/shared/cloud"
)

func main() { cloud.Start(auditchain.Open) }

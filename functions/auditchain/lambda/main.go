// Command lambda is the function that chains audit records. It only starts package auditchain, which has the logic.
package main

import (
	"github.com/gatewright/gatewright/functions/auditchain"
	"github.com/gatewright/gatewright/shared/runtime/cloud"
)

func main() { cloud.Start(auditchain.Open) }

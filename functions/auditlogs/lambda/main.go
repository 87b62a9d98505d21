// Command lambda is the function that serves the operations of audit logs. It only starts package auditlogs, which has
// the logic.
package main

import (
	"github.com/gatewright/gatewright/functions/auditlogs"
	"github.com/gatewright/gatewright/shared/runtime/cloud"
)

func main() { cloud.Serve(auditlogs.Bind) }

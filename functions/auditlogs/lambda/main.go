// Command lambda is the function behind the operations of audit logs. Wiring only:
// what they do is in package auditlogs.
package main

import (
	"github.com/gatewright/gatewright/functions/auditlogs"
	"github.com/gatewright/gatewright/shared/cloud"
)

func main() { cloud.Serve(auditlogs.Bind) }

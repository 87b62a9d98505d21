// Command lambda is the function behind the operations of analytics. Wiring only:
// what they do is in package analytics.
package main

import (
	"github.com/gatewright/gatewright/functions/analytics"
	"github.com/gatewright/gatewright/shared/cloud"
)

func main() { cloud.Serve(analytics.Bind) }

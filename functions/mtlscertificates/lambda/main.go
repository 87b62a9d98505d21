// Command lambda is the function that serves the operations of mtlscertificates. It only starts package
// mtlscertificates, which has the logic.
package main

import (
	"github.com/gatewright/gatewright/functions/mtlscertificates"
	"github.com/gatewright/gatewright/shared/runtime/cloud"
)

func main() { cloud.Serve(mtlscertificates.Bind) }

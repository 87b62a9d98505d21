// Command lambda is the function behind the operations of mtlscertificates. Wiring only:
// what they do is in package mtlscertificates.
package main

import (
	"github.com/gatewright/gatewright/functions/mtlscertificates"
	"github.com/gatewright/gatewright/shared/cloud"
)

func main() { cloud.Serve(mtlscertificates.Bind) }

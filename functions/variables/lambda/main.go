// Command lambda is the function behind the operations of variables. Wiring only:
// what they do is in package variables.
package main

import (
	"github.com/gatewright/gatewright/functions/variables"
	"github.com/gatewright/gatewright/shared/cloud"
	"github.com/gatewright/gatewright/shared/installation"
)

func main() {
	cloud.Start(func(p installation.Parts) (any, error) {
		return p.Server(p.Accounts(), variables.Routes(p.Variables())).Edge(), nil
	})
}

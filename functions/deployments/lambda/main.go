// Command lambda is the function behind the operations of deployments. Wiring only:
// what they do is in package deployments.
package main

import (
	"github.com/gatewright/gatewright/functions/deployments"
	"github.com/gatewright/gatewright/shared/cloud"
	"github.com/gatewright/gatewright/shared/installation"
)

func main() {
	cloud.Start(func(p installation.Parts) (any, error) {
		return p.Server(p.Accounts(), deployments.Routes(p.Deployments())).Edge(), nil
	})
}

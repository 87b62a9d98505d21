// Command lambda is the function behind the operations of platform. Wiring only:
// what they do is in package platform.
package main

import (
	"github.com/gatewright/gatewright/functions/platform"
	"github.com/gatewright/gatewright/shared/cloud"
	"github.com/gatewright/gatewright/shared/installation"
)

func main() {
	cloud.Start(func(p installation.Parts) (any, error) {
		return p.Server(p.Accounts(), platform.Routes()).Edge(), nil
	})
}

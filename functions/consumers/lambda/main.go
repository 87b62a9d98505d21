// Command lambda is the function behind the operations of consumers. Wiring only:
// what they do is in package consumers.
package main

import (
	"github.com/gatewright/gatewright/functions/consumers"
	"github.com/gatewright/gatewright/shared/cloud"
	"github.com/gatewright/gatewright/shared/installation"
)

func main() {
	cloud.Start(func(p installation.Parts) (any, error) {
		return p.Server(p.Accounts(), consumers.Routes(p.Keys())).Edge(), nil
	})
}

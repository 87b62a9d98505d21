// Command lambda is the function behind the operations of keybuckets. Wiring only:
// what they do is in package keybuckets.
package main

import (
	"github.com/gatewright/gatewright/functions/keybuckets"
	"github.com/gatewright/gatewright/shared/cloud"
	"github.com/gatewright/gatewright/shared/installation"
)

func main() {
	cloud.Start(func(p installation.Parts) (any, error) {
		return p.Server(p.Accounts(), keybuckets.Routes(p.Keys())).Edge(), nil
	})
}

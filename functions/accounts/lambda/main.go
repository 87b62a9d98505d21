// Command lambda is the function that makes accounts. Wiring only: what it
// does is in package accounts.
package main

import (
	"github.com/gatewright/gatewright/functions/accounts"
	"github.com/gatewright/gatewright/shared/cloud"
	"github.com/gatewright/gatewright/shared/installation"
)

func main() {
	cloud.Start(func(p installation.Parts) (any, error) {
		return accounts.Handler(p.Accounts(), p.Key, p.Log), nil
	})
}

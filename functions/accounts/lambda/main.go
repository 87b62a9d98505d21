// Command lambda is the function that makes accounts. Wiring only: what it
// does is in package accounts.
package main

import (
	"github.com/gatewright/gatewright/functions/accounts"
	"github.com/gatewright/gatewright/shared/cloud"
)

func main() { cloud.Start(accounts.Open) }

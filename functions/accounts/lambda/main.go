// Command lambda is the function that creates accounts. It only starts package accounts, which has the logic.
package main

import (
	"github.com/gatewright/gatewright/functions/accounts"
	"github.com/gatewright/gatewright/shared/runtime/cloud"
)

func main() { cloud.Start(accounts.Open) }

// Command lambda is the function that advances durable operations. Wiring
// only: what it does is in package operations.
package main

import (
	"github.com/gatewright/gatewright/functions/operations"
	"github.com/gatewright/gatewright/shared/cloud"
	"github.com/gatewright/gatewright/shared/durable"
	"github.com/gatewright/gatewright/shared/installation"
)

func main() {
	cloud.Start(func(p installation.Parts) (any, error) {
		engine, err := durable.Engine(p)
		if err != nil {
			return nil, err
		}
		return operations.Handler(engine, p.Log), nil
	})
}

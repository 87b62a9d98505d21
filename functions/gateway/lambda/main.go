// Command lambda is the function that serves deployments behind API Gateway.
// Wiring only: what it does is in package gateway.
package main

import (
	"os"

	"github.com/gatewright/gatewright/functions/gateway"
	"github.com/gatewright/gatewright/shared/cloud"
	"github.com/gatewright/gatewright/shared/installation"
)

func main() {
	cloud.Start(func(p installation.Parts) (any, error) {
		service, err := gateway.New(p, gateway.RuntimeAPI(os.Getenv)...)
		if err != nil {
			return nil, err
		}
		return gateway.Lambda(p, service), nil
	})
}

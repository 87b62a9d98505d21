// Command lambda is the function that serves deployments behind API Gateway.
// Wiring only: what it does is in package gateway.
package main

import (
	"context"

	"github.com/gatewright/gatewright/functions/gateway"
	"github.com/gatewright/gatewright/shared/cloud"
)

func main() { cloud.StartEnding(context.Background(), gateway.OpenEnding) }

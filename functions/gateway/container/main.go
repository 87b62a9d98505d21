// Command container runs the gateway as a separate process, on a machine or a container platform. It only starts
// package gateway, which has the logic.
package main

import (
	"context"

	"github.com/gatewright/gatewright/functions/gateway"
	"github.com/gatewright/gatewright/shared/runtime/cloud/container"
)

func main() { container.Start(context.Background(), gateway.ProcessService, gateway.OpenProcess) }

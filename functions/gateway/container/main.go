// Command container is the gateway as a process of its own, on a machine or a container
// platform. Wiring only: what it does is in package gateway.
package main

import (
	"context"

	"github.com/gatewright/gatewright/functions/gateway"
	"github.com/gatewright/gatewright/shared/cloud/container"
)

func main() { container.Start(context.Background(), gateway.Beside, gateway.OpenProcess) }

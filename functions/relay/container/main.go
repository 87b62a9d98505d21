// Command container is the relay as a process of its own, such as a task of ECS.
// Wiring only: what it does is in package relay.
package main

import (
	"context"

	"github.com/gatewright/gatewright/functions/relay"
	"github.com/gatewright/gatewright/shared/cloud/container"
)

func main() { container.Start(context.Background(), relay.Service, relay.Open) }

// Command container runs the relay as a separate process, such as a task of ECS. It only starts package relay, which
// has the logic.
package main

import (
	"context"

	"github.com/gatewright/gatewright/functions/relay"
	"github.com/gatewright/gatewright/shared/runtime/cloud/container"
)

func main() { container.Start(context.Background(), relay.Service, relay.Open) }

// Command container is the relay as a process of its own, such as a task of ECS.
// Wiring only: what it does is in package relay.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/gatewright/gatewright/functions/relay"
	"github.com/gatewright/gatewright/shared/cloud/container"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	err := container.Serve(ctx, relay.Service, relay.Open)
	stop()
	if err != nil {
		os.Exit(1)
	}
}

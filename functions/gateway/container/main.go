// Command container is the gateway as a process of its own, on a machine or a container
// platform. Wiring only: what it does is in package gateway.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/gatewright/gatewright/functions/gateway"
	"github.com/gatewright/gatewright/shared/cloud/container"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	err := container.Serve(ctx, gateway.Beside, gateway.OpenProcess)
	stop()
	if err != nil {
		os.Exit(1)
	}
}

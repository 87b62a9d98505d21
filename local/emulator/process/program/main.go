// Command program is the emulators' program (package process). `make run-lambda`
// builds it as dist/<architecture>/emulators, beside the bootstraps.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/gatewright/gatewright/local/emulator/process"
)

func main() { os.Exit(run(os.Args[1:])) }

// run is main with an exit code.
func run(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return process.Main(ctx, args)
}

// Command program is the emulators' program (package process). `make run-lambda`
// builds it as dist/<architecture>/emulators, next to the bootstraps.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/gatewright/gatewright/local/dev/emulator/process"
)

func main() { os.Exit(run(os.Args[1:])) }

// run runs the command in args and returns the exit code.
func run(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return process.Main(ctx, args)
}

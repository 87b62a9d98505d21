// Command emulators tests the product on emulators of AWS: it starts one,
// deploys the CDK app with the real bootstraps, makes an account and passes the
// scenario suite through its API Gateway, S3, DynamoDB streams and KMS. On
// MiniStack it also waits for the schedules that sweep stalled operations and
// close quota periods, and compares what every function asked of AWS with what its
// role grants, types the commands of who operates an installation, and restores one that was spoilt and has lost its table. The installation that all of that is
// done to was made in another region and has moved.
//
// What it is not: AWS. Neither emulator enforces a role, a quota or the size of
// an answer; docs/emulators.md says what is proven how.
//
// It also updates an installation of the last release to this version and back, under traffic (update.go, `make test-update`).
//
// Read main.go first, then ministack.go and localstack.go for what is installed
// and started, suite.go for the tests, operator.go, sweep.go, boundary.go, relay.go, move.go with moved.go, and restore.go with restored.go. `make test-ministack`,
// `make test-localstack` and `make test-update` run it in the repository's folder.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "emulators:", err)
		if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() > 0 {
			os.Exit(exit.ExitCode())
		}
		os.Exit(1)
	}
}

// The emulators, by their names in the CDK's context.
const (
	miniStack  = "ministack"
	localStack = "localstack"
)

func run(ctx context.Context, args []string) error {
	switch {
	case len(args) == 1 && args[0] == miniStack:
		return timed(miniStack, "all", func() error { return onMiniStack(ctx, (*suite).run) })
	case len(args) == 1 && args[0] == localStack:
		return timed(localStack, "all", func() error { return testLocalStack(ctx) })
	case len(args) == 2 && args[0] == "measure" && args[1] == miniStack:
		return onMiniStack(ctx, (*suite).measure)
	case len(args) == 2 && args[0] == "restore" && args[1] == miniStack:
		return timed(miniStack, "all", func() error { return onMiniStack(ctx, (*suite).recover) })
	case len(args) == 2 && args[0] == "move" && args[1] == miniStack:
		return timed(miniStack, "all", func() error { return onMiniStack(ctx, (*suite).move) })
	case len(args) == 2 && args[0] == "operate" && args[1] == miniStack:
		return timed(miniStack, "all", func() error { return onMiniStack(ctx, (*suite).operated) })
	case len(args) == 2 && args[0] == "update" && args[1] == miniStack:
		return timed(miniStack, "all", func() error { return onMiniStack(ctx, (*suite).update) })
	case len(args) == 4 && args[0] == "deploy" && args[1] == miniStack:
		// Of an update that runs, by its test: the folder and which of its versions.
		return redeploy(ctx, args[2], args[3])
	case len(args) == 2 && args[0] == "suite" && (args[1] == miniStack || args[1] == localStack):
		// In the environment of an emulator that runs: ../shared/localstack/run does it.
		return newSuite(args[1], os.Getenv("AWS_ENDPOINT_URL")).run(ctx)
	}
	return errors.New("say which emulator: ministack or localstack (or measure, move, operate, restore or update ministack)")
}

// timed does a piece of work and tells how long it took. Standard output is for
// figures.
func timed(emulator, what string, do func() error) error {
	began := time.Now()
	err := do()
	how := "done"
	if err != nil {
		how = "FAILED"
	}
	fmt.Fprintf(os.Stderr, "%s: %s %s after %.1f s\n", emulator, what, how, time.Since(began).Seconds())
	return err
}

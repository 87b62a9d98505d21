// Command emulators tests the product on emulators of AWS. It starts an emulator, deploys the CDK app with the real
// functions, and creates an account. It then runs the scenario suite through the emulator's API Gateway, S3, DynamoDB
// streams and KMS. On MiniStack it also does the following:
//   - It waits for the schedules that sweep stalled operations and close quota periods.
//   - It compares the requests of every function to AWS with the grants of the function's role.
//   - It runs the commands of an installation's operator.
//   - It restores an installation whose data was damaged and whose table was deleted.
//
// On MiniStack, all these tests use an installation that was created in another region and then moved.
//
// An emulator is not AWS: no emulator enforces a role, a quota or the
// size of a response. docs/emulators.md says how each behavior is tested.
//
// The command also updates an installation of the last release to this
// version and back, under traffic (update.go, `make test-update`).
//
// Read main.go first, then ministack.go and localstack.go for the installation and start of the emulators, and suite.go
// for the tests. Then read operator.go, sweep.go, periodend.go, relay.go, move.go with movecheck.go, and restore.go
// with restorecheck.go. `make test-ministack`, `make test-localstack` and `make test-update` run the command in the
// repository's folder.
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
		return timed(miniStack, "all", func() error { return onMiniStack(ctx, (*suite).runRestore) })
	case len(args) == 2 && args[0] == "move" && args[1] == miniStack:
		return timed(miniStack, "all", func() error { return onMiniStack(ctx, (*suite).runMove) })
	case len(args) == 2 && args[0] == "operate" && args[1] == miniStack:
		return timed(miniStack, "all", func() error { return onMiniStack(ctx, (*suite).runOperatorCommands) })
	case len(args) == 2 && args[0] == "update" && args[1] == miniStack:
		return timed(miniStack, "all", func() error { return onMiniStack(ctx, (*suite).update) })
	case len(args) == 4 && args[0] == "deploy" && args[1] == miniStack:
		// The test internal/system/upgrade runs this command during an update, with the folder and a version.
		return redeploy(ctx, args[2], args[3])
	case len(args) == 2 && args[0] == "suite" && (args[1] == miniStack || args[1] == localStack):
		// ../shared/localstack/run runs this command while the emulator runs.
		return newSuite(args[1], os.Getenv("AWS_ENDPOINT_URL")).run(ctx)
	}
	return errors.New("say which emulator: ministack or localstack (or measure, move, operate, restore or " +
		"update ministack)")
}

// timed calls do and prints its duration to standard error, because standard output is for measured figures.
func timed(emulator, name string, do func() error) error {
	start := time.Now()
	err := do()
	result := "done"
	if err != nil {
		result = "FAILED"
	}
	fmt.Fprintf(os.Stderr, "%s: %s %s after %.1f s\n", emulator, name, result, time.Since(start).Seconds())
	return err
}

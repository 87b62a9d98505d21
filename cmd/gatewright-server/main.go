// Command gatewright-server is one server of the product (`gatewright-server serve`, package product) with the
// commands that work on its data, and the gateway as a process beside an installation (`gatewright-server gateway`).
// It links everything: all groups, the embedded store and what talks to AWS.
//
// What it is not: what a person or a pipeline uses an installation with. That is command gatewright, which hands the
// server's words over to this one where both are installed: docs/decisions/0068-the-server-is-a-binary-of-its-own.md.
//
// Read main.go for the commands and their exit codes, gateway.go for the gateway as a process, version.go for what
// release it is and what data it reads.
package main

import (
	"context"
	"errors"
	"os"

	"github.com/spf13/cobra"
	_ "golang.org/x/crypto/x509roots/fallback" // an image with nothing but the binary has no roots

	"github.com/gatewright/gatewright/local/commandline"
	"github.com/gatewright/gatewright/local/product"
	"github.com/gatewright/gatewright/local/terminal"
)

// errStopped ends a context that a signal ended.
var errStopped = errors.New("stopped")

func main() {
	os.Exit(run(os.Args[1:]))
}

// run is main with an exit code.
func run(args []string) int {
	problems := terminal.New(os.Stderr, terminal.Colours(os.Stderr, os.Getenv))
	ctx, stop := terminal.Interruptible(context.Background(), errStopped, func() {
		problems.Fail(errors.New("stopped at once, with work under way"))
		os.Exit(commandline.ExitOther)
	})
	defer stop()
	root := command()
	root.SetArgs(args)
	_, err := commandline.Execute(ctx, root)
	switch {
	case err == nil:
		return commandline.ExitDone
	case errors.Is(err, errStopped):
		return commandline.ExitInterrupted
	}
	problems.Fail(err)
	if commandline.IsUsage(err) {
		return commandline.ExitUsage
	}
	return commandline.ExitOther
}

// command is the command line.
func command() *cobra.Command {
	root := &cobra.Command{
		Use:   "gatewright-server",
		Short: "Gatewright's server: the product on one machine, and the gateway of an installation elsewhere",
	}
	root.AddCommand(product.Server.Commands()...)
	root.AddCommand(gatewayCommand(), versionCommand())
	commandline.Prepare(root, versionText())
	return root
}

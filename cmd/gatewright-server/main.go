// Command gatewright-server runs the product on one machine (`gatewright-server serve`, package product), or only
// a gateway for an installation elsewhere (`gatewright-server gateway`). Its other commands work on the product's
// data. It links everything: all operation groups of the management API, the embedded store and the AWS clients.
//
// The client that people and pipelines use is another program, gatewright. If both are installed, gatewright runs this
// program for the server's commands: docs/decisions/0068-the-server-is-a-binary-of-its-own.md.
//
// Read main.go for the commands and their exit codes, gateway.go for the gateway
// as a process, and version.go for the release and the format of its data.
package main

import (
	"context"
	"errors"
	"os"

	"github.com/spf13/cobra"
	_ "golang.org/x/crypto/x509roots/fallback" // root certificates, for images that contain only the binary

	"github.com/gatewright/gatewright/local/product"
	"github.com/gatewright/gatewright/shared/base/terminal"
	"github.com/gatewright/gatewright/shared/runtime/commandline"
)

// errStopped is the cancellation cause of the context after a signal.
var errStopped = errors.New("stopped")

func main() {
	os.Exit(run(os.Args[1:]))
}

// run runs the command line and returns the exit code.
func run(args []string) int {
	stderr := terminal.New(os.Stderr, terminal.SupportsColor(os.Stderr, os.Getenv))
	ctx, stop := terminal.Interruptible(context.Background(), errStopped, func() {
		stderr.Fail(errors.New("stopped at once, with work under way"))
		os.Exit(commandline.ExitOther)
	})
	defer stop()
	root := rootCommand()
	root.SetArgs(args)
	_, err := commandline.Execute(ctx, root)
	switch {
	case err == nil:
		return commandline.ExitDone
	case errors.Is(err, errStopped):
		return commandline.ExitInterrupted
	}
	stderr.Fail(err)
	if commandline.IsUsage(err) {
		return commandline.ExitUsage
	}
	return commandline.ExitOther
}

// rootCommand returns the root command.
func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "gatewright-server",
		Short: "Gatewright's server: the product on one machine, and the gateway of an installation elsewhere",
	}
	root.AddCommand(product.Server.Commands()...)
	root.AddCommand(gatewayCommand(), versionCommand())
	commandline.Prepare(root, versionText())
	return root
}

// Command gatewright is one server of the product (`gatewright serve`, package product) with the commands
// that work on its data, and what runs beside an installation, on machines that it
// does not know: `gatewright tunnel connect` carries requests to services that only its
// machine reaches, reads no table and no key of an installation, and whatever may happen to it, it may
// happen to a service behind it alone.
//
// Read main.go for the commands and their exit codes, connect.go for what is typed to connect,
// token.go for the secret, progress.go for what a person sees of connections.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	_ "golang.org/x/crypto/x509roots/fallback" // an image with nothing but the binary has no roots

	"github.com/gatewright/gatewright/functions/gateway"
	"github.com/gatewright/gatewright/local/product"
	"github.com/gatewright/gatewright/local/terminal"
	"github.com/gatewright/gatewright/shared/cloud/container"
	"github.com/gatewright/gatewright/shared/tunnel"
)

// The exit codes. docs/tunnels.md has them for users.
const (
	exitStopped = 0
	exitOther   = 1
	exitUsage   = 2
	exitRefused = 3
	// exitInterrupted is of a command that a signal ended before it was done.
	exitInterrupted = product.ExitInterrupted
)

// usageError is a command line, or an environment, that can't be followed.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

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
		os.Exit(exitOther)
	})
	defer stop()
	root := command()
	root.SetArgs(args)
	ran, err := root.ExecuteContextC(ctx)
	_, usage := errors.AsType[usageError](err)
	switch {
	case err == nil:
		return exitStopped
	case errors.Is(err, errStopped) && ran.Name() != connectName:
		return exitInterrupted
	case errors.Is(err, errStopped) && !errors.Is(err, tunnel.ErrCut):
		return exitStopped
	case errors.Is(err, errStopped):
		problems.Fail(tunnel.ErrCut)
		return exitOther
	case errors.Is(err, tunnel.ErrRefused):
		problems.Fail(tunnel.ErrRefused)
		return exitRefused
	case usage:
		problems.Fail(err)
		return exitUsage
	}
	problems.Fail(err)
	return exitOther
}

// command is the command line.
func command() *cobra.Command {
	root := &cobra.Command{
		Use:           "gatewright",
		Short:         "Gatewright: one server of it, and what connects to an installation",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.ArbitraryArgs,
		RunE:          needsCommand,
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		invalid, isValue := errors.AsType[*pflag.InvalidValueError](err)
		switch { // what was typed may be a secret at a wrong place
		case isValue:
			err = fmt.Errorf("--%s takes %s", invalid.GetFlag().Name, valueOf(invalid.GetFlag()))
		case strings.Contains(err.Error(), "shorthand"):
			err = errors.New("there is no such flag")
		}
		return usageError{fmt.Errorf("%w: `%s --help` lists what it takes", err, cmd.CommandPath())}
	})
	group := &cobra.Command{Use: "tunnel", Short: "Let an installation's projects call services that this machine reaches", Args: cobra.ArbitraryArgs, RunE: needsCommand}
	group.AddCommand(connectCommand())
	root.AddCommand(group)
	root.AddCommand(product.Server.Commands()...)
	root.AddCommand(gatewayCommand())
	return root
}

// gatewayCommand serves deployments beside an installation, as the container of the gateway does. What goes wrong
// is in its log too.
func gatewayCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "gateway",
		Short: "Serve an installation's deployments by a process of their own (docs/gateway-process.md)",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return container.Serve(cmd.Context(), gateway.Beside, gateway.OpenProcess)
		},
	}
}

// valueOf says what a flag takes.
func valueOf(f *pflag.Flag) string {
	switch f.Value.Type() {
	case "duration":
		return "a time with its unit, such as 25s or 2m"
	case "bool":
		return "true or false"
	}
	return "a whole number"
}

// needsCommand names what a command can do. It does not repeat what was typed, which may be
// a secret at a wrong place.
func needsCommand(cmd *cobra.Command, _ []string) error {
	return usageError{fmt.Errorf("name one of its commands: `%s --help` lists them", cmd.CommandPath())}
}

// Command gatewright is one server of the product (`gatewright serve`, package product) with the commands
// that work on its data, and what runs beside an installation, on machines that it
// does not know: `gatewright tunnel connect` carries requests to services that only its
// machine reaches, reads no table and no key of an installation, and whatever may happen to it, it may
// happen to a service behind it alone.
//
// Read main.go for the commands and their exit codes, gateway.go for the gateway as a process, connect.go for what is typed to connect,
// version.go for what release it is, token.go for the secret, progress.go for what a person sees of connections.
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

	"github.com/gatewright/gatewright/local/product"
	"github.com/gatewright/gatewright/local/terminal"
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
		Version:       versionText(),
	}
	root.SetVersionTemplate("{{.Version}}")
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
	root.AddCommand(versionCommand())
	wordsAreUsage(root)
	return root
}

// wordsAreUsage has words that a command does not take be a command line that can't be followed, of all commands.
func wordsAreUsage(cmd *cobra.Command) {
	cmd.SuggestionsMinimumDistance = 2 // cobra's own default holds for its own messages alone
	if takes := cmd.Args; takes != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := takes(cmd, args); err != nil {
				return usageError{err}
			}
			return nil
		}
	}
	for _, c := range cmd.Commands() {
		wordsAreUsage(c)
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
func needsCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return usageError{fmt.Errorf("name one of its commands: `%s --help` lists them", cmd.CommandPath())}
	}
	hint := fmt.Sprintf("`%s --help` lists them", cmd.CommandPath())
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		hint = fmt.Sprintf("did you mean %s?", near[0])
	}
	return usageError{fmt.Errorf("it has no such command: %s", hint)}
}

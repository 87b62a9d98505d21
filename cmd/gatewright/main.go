// Command gatewright is the client that people and pipelines use, on machines that the product does not control. It
// does not access tables or root keys of an installation. `gatewright tunnel connect` forwards requests to services
// that only this machine can reach. A defect in this command affects only services that this machine can reach.
//
// The server is another program, gatewright-server, which links all groups of operations, the embedded store and the
// AWS clients. If it is installed, gatewright runs it for the server's commands
// (docs/decisions/0068-the-server-is-a-binary-of-its-own.md).
//
// Read main.go for the commands and their exit codes, server.go for the server's commands, connect.go for the flags of
// connect, version.go for the release, token.go for the tunnel's token, and progress.go for the messages about
// connections.
package main

import (
	"context"
	"errors"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/gatewright/gatewright/client/commands"
	"github.com/gatewright/gatewright/client/exit"
	"github.com/gatewright/gatewright/client/output"
	"github.com/gatewright/gatewright/shared/base/terminal"
	"github.com/gatewright/gatewright/shared/format/tunnel"
	"github.com/gatewright/gatewright/shared/runtime/commandline"
)

// These are the exit codes of `gatewright tunnel connect`, which docs/tunnels.md
// documents. The codes of the other commands are in package exit.
const (
	exitDone    = commandline.ExitDone
	exitFailure = commandline.ExitOther
	exitUsage   = commandline.ExitUsage
	exitRefused = 3
)

// errStopped is the cancellation cause of the context after a signal.
var errStopped = exit.ErrInterrupted

func main() {
	os.Exit(run(os.Args[1:]))
}

// run runs the command line and returns the exit code.
func run(args []string) int {
	// net/http logs through package log, which writes to the default logger. Such a message can contain data from a
	// server, which may echo the key, so these messages are discarded. No command uses the default logger.
	slog.SetDefault(slog.New(slog.DiscardHandler))
	stderr := terminal.New(os.Stderr, terminal.SupportsColor(os.Stderr, os.Getenv))
	ctx, stop := terminal.Interruptible(context.Background(), errStopped, func() {
		stderr.Fail(errors.New("stopped at once, with work under way"))
		os.Exit(exitFailure)
	})
	defer stop()
	app := newApp()
	app.ExitCode = func(executed *cobra.Command, err error) (exit.Code, bool) {
		if serverErr, ok := errors.AsType[*serverEndedError](err); ok {
			return exit.Code(serverErr.code), true // the server has already reported the reason
		}
		if executed == nil || executed.Name() != connectName {
			return exit.OK, false
		}
		return exit.Code(connectExitCode(err, stderr)), true
	}
	return int(app.Run(ctx, args))
}

// connectExitCode returns the exit code of `gatewright tunnel connect`, and reports the error.
func connectExitCode(err error, problems *terminal.Terminal) int {
	switch {
	case err == nil, errors.Is(err, errStopped) && !errors.Is(err, tunnel.ErrAborted):
		return exitDone
	case errors.Is(err, errStopped):
		problems.Fail(tunnel.ErrAborted)
		return exitFailure
	case errors.Is(err, tunnel.ErrRefused):
		problems.Fail(tunnel.ErrRefused)
		return exitRefused
	}
	// the message contains file names as the user has typed them
	problems.Fail(errors.New(output.PrintableLines(err.Error())))
	if commandline.IsUsage(err) {
		return exitUsage
	}
	return exitFailure
}

// newApp returns the client with this program's own commands.
func newApp() *commands.App {
	return &commands.App{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv, Version: versionText(),
		AddCommands: func(root *cobra.Command) {
			root.AddGroup(&cobra.Group{ID: clientGroup, Title: "This program:"})
			for _, c := range root.Commands() {
				if c.Name() == commands.TunnelGroup {
					c.AddCommand(connectCommand())
				}
			}
			root.AddCommand(versionCommand())
			addServerCommands(root)
		},
	}
}

// rootCommand returns the root command.
func rootCommand() *cobra.Command { return newApp().Root(true) }

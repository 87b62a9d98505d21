// Command gatewright is the client: what a person or a pipeline types, on machines that the product does not know. It
// reads no table and no key of an installation. `gatewright tunnel connect` carries requests to services that only its
// machine reaches, and whatever may happen to it, it may happen to a service behind it alone.
//
// What it is not: the server. That is command gatewright-server, which has all groups, the embedded store and what
// talks to AWS linked; its words are handed over to it where it is installed
// (docs/decisions/0068-the-server-is-a-binary-of-its-own.md).
//
// Read main.go for the commands and their exit codes, server.go for what is handed over, connect.go for what is typed
// to connect, version.go for what release it is, token.go for the secret, progress.go for what a person sees of
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
	"github.com/gatewright/gatewright/local/commandline"
	"github.com/gatewright/gatewright/local/terminal"
	"github.com/gatewright/gatewright/shared/tunnel"
)

// The exit codes of `gatewright tunnel connect`, which docs/tunnels.md has for users. Those of the other commands are package exit's.
const (
	exitStopped = commandline.ExitDone
	exitOther   = commandline.ExitOther
	exitUsage   = commandline.ExitUsage
	exitRefused = 3
)

// errStopped ends a context that a signal ended.
var errStopped = exit.ErrInterrupted

func main() {
	os.Exit(run(os.Args[1:]))
}

// run is main with an exit code.
func run(args []string) int {
	// What net/http logs by package log, which goes there, holds what a server has sent, which may be the key again, and no command logs so.
	slog.SetDefault(slog.New(slog.DiscardHandler))
	problems := terminal.New(os.Stderr, terminal.Colours(os.Stderr, os.Getenv))
	ctx, stop := terminal.Interruptible(context.Background(), errStopped, func() {
		problems.Fail(errors.New("stopped at once, with work under way"))
		os.Exit(exitOther)
	})
	defer stop()
	app := newApp()
	app.Ended = func(ran *cobra.Command, err error) (exit.Code, bool) {
		if ended, isServers := errors.AsType[*serverEndedError](err); isServers {
			return exit.Code(ended.code), true // it has said why
		}
		if ran == nil || ran.Name() != connectName {
			return exit.OK, false
		}
		return exit.Code(connectEnded(err, problems)), true
	}
	return int(app.Run(ctx, args))
}

// connectEnded is what `gatewright tunnel connect` ends with, which tells why.
func connectEnded(err error, problems *terminal.Terminal) int {
	switch {
	case err == nil, errors.Is(err, errStopped) && !errors.Is(err, tunnel.ErrCut):
		return exitStopped
	case errors.Is(err, errStopped):
		problems.Fail(tunnel.ErrCut)
		return exitOther
	case errors.Is(err, tunnel.ErrRefused):
		problems.Fail(tunnel.ErrRefused)
		return exitRefused
	}
	problems.Fail(errors.New(output.PrintableLines(err.Error()))) // it names files as they were typed
	if commandline.IsUsage(err) {
		return exitUsage
	}
	return exitOther
}

// newApp is the client with the commands that are this program's own.
func newApp() *commands.App {
	return &commands.App{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv, Version: versionText(),
		More: func(root *cobra.Command) {
			root.AddGroup(&cobra.Group{ID: ownGroup, Title: "This program:"})
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

// command is the command line.
func command() *cobra.Command { return newApp().Root(true) }

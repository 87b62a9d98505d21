package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/gatewright/gatewright/shared/base/disk"
	"github.com/gatewright/gatewright/shared/runtime/commandline"
)

// serverName is the name of the binary with the server's commands.
const serverName = "gatewright-server"

// These are the groups of commands in the help.
const (
	clientGroup = "own"
	serverGroup = "server"
)

// serverCommand is a command of the server, with its description in the help.
type serverCommand struct{ name, short string }

// serverCommands returns the server's commands that this client runs by starting the server: all commands that the
// server shows, except those that the client has, too (version). A test compares them with the server's own list.
func serverCommands() []serverCommand {
	return []serverCommand{
		{"account", "Make accounts, and set their limits"},
		{"audit", "Verify and export an account's audit log"},
		{"backup", "Write all of the installation into a file, while it runs or not"},
		{"check", "Read all data and report what is damaged, while the product runs or not"},
		{"export-data", "Write all of the installation into a sealed file that moves it: to AWS, out of it, or to " +
			"another machine"},
		{"gateway", "Serve an installation's deployments by a process of their own (docs/gateway-process.md)"},
		{"import-data", "Make an installation of a file of export-data, in a place that holds none"},
		{"key", "Make, list and revoke account keys"},
		{"operation", "Look durable operations up, and resume one"},
		{"restore", "Make the data directory of a backup"},
		{"rewrap-root-key", "Have another KMS key wrap the root key of an installation in AWS"},
		{"rotate-root-key", "Replace the root key, while the product goes on, or tell how far that is"},
		{"serve", "Run the whole product on this machine, for a domain"},
	}
}

// addServerCommands adds to root a command for each command of the server. All
// arguments are passed to the server unparsed, and the server shows their help.
func addServerCommands(root *cobra.Command) {
	root.AddGroup(&cobra.Group{ID: serverGroup, Title: "Commands of a server (" + serverName + "):"})
	for _, command := range serverCommands() {
		root.AddCommand(&cobra.Command{
			Use: command.name, Short: command.short, GroupID: serverGroup,
			DisableFlagParsing: true,
			RunE: func(_ *cobra.Command, args []string) error {
				return execServer(append([]string{command.name}, args...))
			},
		})
	}
	root.SetHelpCommand(&cobra.Command{
		Use: "help [COMMAND]", Short: "Help about any command", GroupID: clientGroup,
		RunE: func(cmd *cobra.Command, args []string) error {
			target, remaining, err := cmd.Root().Find(args)
			switch {
			case err != nil:
				return err
			case target.GroupID == serverGroup:
				return execServer(append(args, "--help"))
			case len(remaining) > 0:
				return commandline.RequireCommand(target, remaining)
			}
			target.InitDefaultHelpFlag() // so that the help lists --help
			return target.Help()
		},
	})
}

// errNoServer says how to install the server.
var errNoServer = errors.New("this is a command of " + serverName + ", which is not installed: a release's archive " +
	"has it beside gatewright, " +
	"`make cli` in a checkout builds both, and it is found beside gatewright or on the PATH")

// serverEndedError is the error for a server that ran as a child process and failed with the exit code code. The server
// has already reported the reason.
type serverEndedError struct{ code int }

func (e *serverEndedError) Error() string {
	return fmt.Sprintf("%s has ended with %d", serverName, e.code)
}

// execServer replaces this process with the server, with the same arguments and environment, and returns only if that
// fails. Windows cannot replace a process: there, execServer runs the server as a child and returns an error with its
// exit code. It passes args only as arguments, so that a secret in args does not appear in another place.
func execServer(args []string) error {
	path, err := findServer()
	if err != nil {
		return err
	}
	return execProgram(path, args)
}

// runChild runs the program at path with this process's streams and environment, and returns its result. A terminal
// sends Ctrl-C to both processes, so runChild does not forward the signal and waits for the child to end.
func runChild(path string, args []string) error {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP}
	signal.Reset(signals...)
	// This ignores the signals. The channel is never read: with signal.Ignore, Windows would end this process.
	signal.Notify(make(chan os.Signal, 1), signals...)
	cmd := exec.Command(path, args...) //nolint:gosec,noctx // path is from findServer, and the child ends by itself
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := cmd.Run()
	if exitErr, ok := errors.AsType[*exec.ExitError](err); ok {
		return &serverEndedError{exitErr.ExitCode()}
	}
	return startError(path, err)
}

// startError returns the error of a program that did not start, with the program's path. It returns nil if err is nil.
func startError(path string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("start %s: %w", path, disk.Cause(err))
}

// findServer returns the server's path. It searches first next to this binary (with symbolic links resolved), and then
// on the PATH. It accepts a server of another release. It skips a copy of the client under the server's name, which
// would start itself forever.
func findServer() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find this program's own file: %w", err)
	}
	if self, err = filepath.EvalSymlinks(self); err != nil {
		return "", fmt.Errorf("find this program's own file: %w", err)
	}
	selfInfo, err := os.Stat(self)
	if err != nil {
		return "", fmt.Errorf("find this program's own file: %w", err)
	}
	sibling := filepath.Join(filepath.Dir(self), serverName)
	if runtime.GOOS == "windows" {
		sibling += ".exe"
	}
	for _, name := range []string{sibling, serverName} {
		// An error means that the file does not exist, is not executable, or is only in the working directory.
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		if info, err := os.Stat(path); err == nil && !os.SameFile(info, selfInfo) {
			return path, nil
		}
	}
	return "", errNoServer
}

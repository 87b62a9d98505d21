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

	"github.com/gatewright/gatewright/local/commandline"
	"github.com/gatewright/gatewright/shared/disk"
)

// serverName is the binary with the server's commands.
const serverName = "gatewright-server"

// The groups in which the help lists commands.
const (
	ownGroup    = "own"
	serverGroup = "server"
)

// serverWord is a command of the server, and what the help says of it.
type serverWord struct{ name, short string }

// serverWords are the server's commands that are handed over: all that it shows but those that are the client's own too
// (version). A test compares them with the server's.
func serverWords() []serverWord {
	return []serverWord{
		{"account", "Make accounts, and set their limits"},
		{"audit", "Verify and export an account's audit log"},
		{"backup", "Write all of the installation into a file, while it runs or not"},
		{"check", "Read all data and report what is damaged, while the product runs or not"},
		{"export-data", "Write all of the installation into a sealed file that moves it: to AWS, out of it, or to another machine"},
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

// addServerCommands adds to root a command for each word that is handed over, with everything behind it: flags and
// words are the server's to read. Its help is the server's too.
func addServerCommands(root *cobra.Command) {
	root.AddGroup(&cobra.Group{ID: serverGroup, Title: "Commands of a server (" + serverName + "):"})
	for _, w := range serverWords() {
		root.AddCommand(&cobra.Command{
			Use: w.name, Short: w.short, GroupID: serverGroup,
			DisableFlagParsing: true,
			RunE:               func(_ *cobra.Command, args []string) error { return handOver(append([]string{w.name}, args...)) },
		})
	}
	root.SetHelpCommand(&cobra.Command{
		Use: "help [COMMAND]", Short: "Help about any command", GroupID: ownGroup,
		RunE: func(cmd *cobra.Command, args []string) error {
			of, more, err := cmd.Root().Find(args)
			switch {
			case err != nil:
				return err
			case of.GroupID == serverGroup:
				return handOver(append(args, "--help"))
			case len(more) > 0:
				return commandline.NeedsCommand(of, more)
			}
			of.InitDefaultHelpFlag() // which its help shows
			return of.Help()
		},
	})
}

// errNoServer says where the server comes from.
var errNoServer = errors.New("this is a command of " + serverName + ", which is not installed: a release's archive has it beside gatewright, " +
	"`make cli` in a checkout builds both, and it is found beside gatewright or on the PATH")

// serverEndedError is the end of a server that ran as a child, with its exit code. It has told the rest itself.
type serverEndedError struct{ code int }

func (e *serverEndedError) Error() string {
	return fmt.Sprintf("%s has ended with %d", serverName, e.code)
}

// handOver becomes the server with these words, in this environment, and does not return where that goes well; on
// Windows, where no process becomes another program, it runs it as a child and gives its end. Nothing that was typed is
// in another place than before, so that what is no secret there is none here.
func handOver(words []string) error {
	path, err := findServer()
	if err != nil {
		return err
	}
	return become(path, words)
}

// runChild runs the program at path with this one's streams and environment, and gives its end. Ctrl-C reaches the child
// by itself, since a terminal tells all of its processes; this one waits for it, however often that happens.
func runChild(path string, words []string) error {
	told := []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP}
	signal.Reset(told...)
	signal.Notify(make(chan os.Signal, 1), told...) // nobody reads it: to ignore one has Windows end the process
	cmd := exec.Command(path, words...)             //nolint:gosec,noctx // findServer found it, and it ends when it has to
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := cmd.Run()
	if ended, ok := errors.AsType[*exec.ExitError](err); ok {
		return &serverEndedError{ended.ExitCode()}
	}
	return starting(path, err)
}

// starting says what was done when a program did not start. nil is nil.
func starting(path string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("start %s: %w", path, disk.Cause(err))
}

// findServer gives the server's path: beside this binary, through symbolic links, or else on the PATH. A server of another
// release will do, since its data are its own. This binary under the server's name is none: it would start itself for ever.
func findServer() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find this program's own file: %w", err)
	}
	if self, err = filepath.EvalSymlinks(self); err != nil {
		return "", fmt.Errorf("find this program's own file: %w", err)
	}
	own, err := os.Stat(self)
	if err != nil {
		return "", fmt.Errorf("find this program's own file: %w", err)
	}
	beside := filepath.Join(filepath.Dir(self), serverName)
	if runtime.GOOS == "windows" {
		beside += ".exe"
	}
	for _, name := range []string{beside, serverName} {
		// An error is of a file that is not there, may not be run, or is in the working directory alone.
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		if info, err := os.Stat(path); err == nil && !os.SameFile(info, own) {
			return path, nil
		}
	}
	return "", errNoServer
}

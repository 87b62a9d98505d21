// Command local is the whole product in one process, for a laptop: the
// management API, the gateway and the functions behind them, over a store and
// objects in a folder. `make run` starts it.
//
// What it is not: another product. Each request takes the road that it takes
// in AWS (package apigateway), each function gets the event that AWS sends
// (package triggers), and table, bucket and key are read by the same code.
//
// Read main.go for the commands, run.go for a run, database.go, bucket.go and
// services.go for what is opened and wired, administration.go for commands that
// work on an installation. The rules are those of design, section 9.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/gatewright/gatewright/local/emulator"
	"github.com/gatewright/gatewright/local/sandbox"
	"github.com/gatewright/gatewright/local/terminal"
	"github.com/gatewright/gatewright/shared/config"
)

func main() {
	os.Exit(run(os.Args[1:]))
}

// run is main with an exit code.
func run(args []string) int {
	problems := terminal.New(os.Stderr, terminal.Colours(os.Stderr, os.Getenv))
	ctx, stop := interruptible(context.Background(), problems)
	defer stop()
	root := command(administration{})
	root.SetArgs(args)
	if err := root.ExecuteContext(ctx); err != nil {
		if errors.Is(err, errInterrupted) {
			return exitInterrupted
		}
		problems.Fail(err)
		return 1
	}
	return 0
}

// exitInterrupted is what a shell reports for a command that Ctrl-C ended.
const exitInterrupted = 130

// errInterrupted ends a context that a signal ended.
var errInterrupted = errors.New("interrupted")

// repeatedSignal is within which time signals count as one.
const repeatedSignal = 300 * time.Millisecond

// interruptible returns a context that the first Ctrl-C (or SIGTERM, or the
// terminal's end) ends. The second one ends the process at once; its children
// go with it.
func interruptible(ctx context.Context, t *terminal.Terminal) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		if _, ok := <-signals; !ok {
			return
		}
		cancel(errInterrupted)
		for first := time.Now(); ; {
			if _, ok := <-signals; !ok {
				return
			}
			// A launcher may pass on what the terminal has sent to all.
			if time.Since(first) > repeatedSignal {
				t.Fail(errors.New("stopped at once; the next start goes on from what was acknowledged"))
				os.Exit(exitInterrupted)
			}
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(signals)
		cancel(nil)
	}
}

// command is the command line.
func command(a administration) *cobra.Command {
	root := &cobra.Command{
		Use:           "local",
		Short:         "Run the whole of Gatewright on this machine",
		Long:          "Run the whole of Gatewright on this machine, with nothing beside it: its data are in one folder.\n\n" + settingsHelp(),
		Args:          knownCommand,
		SilenceUsage:  true,
		SilenceErrors: true,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: typedName},
		PersistentPreRunE: func(*cobra.Command, []string) error {
			return config.CheckNames(os.Environ(), true)
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := settingsFrom(os.Getenv)
			if err != nil {
				return err
			}
			if a.own != nil {
				return errors.New("the product runs already")
			}
			return runProduct(cmd.Context(), s)
		},
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.SuggestionsMinimumDistance = 2
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%w: `%s --help` lists what it takes", err, cmd.CommandPath())
	})
	root.AddCommand(accountCommand(a), keyCommand(a), operationCommand(a), auditCommand(a), backupCommand(a))
	if a.own == nil { // the others are of a process of their own, or make data beside ours
		root.AddCommand(restoreCommand(), importCommand(), s3ServerCommand(), buildCommand())
	}
	withoutFlags(root)
	return root
}

// typedName is what a person types before a command's words.
const typedName = "go run ./local"

// knownCommand refuses a word that is no command.
func knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := fmt.Sprintf("`%s --help` lists them", cmd.CommandPath())
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		hint = fmt.Sprintf("did you mean %s?", near[0])
	}
	return fmt.Errorf("there is no command %q: %s", args[0], hint)
}

// withoutFlags has the lines of commands that have no flags name none.
func withoutFlags(cmd *cobra.Command) {
	for _, c := range cmd.Commands() {
		c.DisableFlagsInUseLine = !c.HasLocalFlags()
		withoutFlags(c)
	}
}

// settingsHelp lists what can be set, in the order of docs/local-run.md.
func settingsHelp() string {
	var out strings.Builder
	out.WriteString("What can be set, and what holds without it:\n\n")
	table := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	for _, s := range config.Settings() {
		if s.Kind != config.Function {
			_, _ = fmt.Fprintf(table, "  %s\t%s (%s; %s)\n", s.Name, s.What, s.Range, cmp.Or(s.Default, "none"))
		}
	}
	_ = table.Flush() // a strings.Builder takes everything
	return out.String() + "\nOTEL_EXPORTER_OTLP_ENDPOINT and its kin are in docs/observability.md."
}

// s3ServerCommand is our binary in its other role (package emulator).
func s3ServerCommand() *cobra.Command {
	return &cobra.Command{
		Use:    emulator.S3ServerCommand,
		Short:  "Serve S3 for the process that started this one",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			notes := os.NewFile(3, "notes")
			if notes == nil {
				return fmt.Errorf("%s is started by `go run ./local` alone", emulator.S3ServerCommand)
			}
			return emulator.ServeS3(cmd.Context(), os.Stdin, notes)
		},
	}
}

// buildCommand is our binary as the process that compiles a project (package
// sandbox).
func buildCommand() *cobra.Command {
	return &cobra.Command{
		Use:    sandbox.Command + " ALIVE",
		Short:  "Compile a project for the process that started this one",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			alive := sandbox.Alive(args[0])
			if alive == nil {
				return fmt.Errorf("%s is started by `go run ./local` alone", sandbox.Command)
			}
			return sandbox.Child(cmd.Context(), os.Stdin, os.Stdout, alive)
		},
	}
}

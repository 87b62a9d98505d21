// Package product is the whole product in one process: the management API, the gateway and the
// functions behind them, over a store and objects in a folder. On a laptop `make run` starts it, on
// a machine with a domain `gatewright serve`.
//
// What it is not: another product. Each request takes the road that it takes
// in AWS (package apigateway), each function gets the event that AWS sends
// (package triggers), and table, bucket and key are read by the same code.
//
// Read commands.go for the commands, run.go for a run, settings.go for what differs between a laptop
// and a server, names.go for what answers at which name of a domain; database.go, bucket.go and
// services.go for what is opened and wired, watch.go for what operators ask, administration.go for commands that
// work on an installation. The rules are those of design, section 9.
package product

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/gatewright/gatewright/local/commandline"
	"github.com/gatewright/gatewright/local/sandbox"
	"github.com/gatewright/gatewright/local/terminal"
	"github.com/gatewright/gatewright/shared/config"
)

// Program is a binary with the product in it: what a person types, and what holds there where
// nothing is set.
type Program struct {
	// Typed is what stands before a command's words.
	Typed string
	// server says that it is for a machine with a domain, and not for a laptop.
	server               bool
	gatewayAddr, tlsAddr string
	dataDir              string
	// stopTimeout is how long requests that are under way have at a stop.
	stopTimeout time.Duration
}

// The programs: of a checkout on a laptop, and of one server.
var (
	Laptop = Program{
		Typed:       "go run ./local",
		gatewayAddr: config.DefaultGatewayAddr, tlsAddr: config.DefaultTLSAddr, dataDir: config.DefaultDataDir,
		stopTimeout: 3 * time.Second, // nobody waits for it
	}
	Server = Program{
		Typed: "gatewright-server", server: true,
		gatewayAddr: config.DefaultServerGatewayAddr, tlsAddr: config.DefaultServerTLSAddr, dataDir: config.DefaultServerDataDir,
		stopTimeout: 30 * time.Second,
	}
)

// Main is a program that is the product and nothing else, with an exit code.
func (p Program) Main(ctx context.Context, args []string) int {
	problems := terminal.New(os.Stderr, terminal.Colours(os.Stderr, os.Getenv))
	ctx, stop := terminal.Interruptible(ctx, errInterrupted, func() {
		problems.Fail(errors.New("stopped at once; the next start goes on from what was acknowledged"))
		os.Exit(commandline.ExitInterrupted)
	})
	defer stop()
	root := p.command(administration{program: p}) //nolint:contextcheck // it has ctx from ExecuteContext
	root.SetArgs(args)
	if _, err := commandline.Execute(ctx, root); err != nil {
		if errors.Is(err, errInterrupted) {
			return commandline.ExitInterrupted
		}
		problems.Fail(err)
		return commandline.ExitOther
	}
	return commandline.ExitDone
}

// errInterrupted ends a context that a signal ended.
var errInterrupted = errors.New("interrupted")

// command is the command line of a program that is the product and nothing else: it starts it.
func (p Program) command(a administration) *cobra.Command {
	root := p.start(a)
	root.Use, root.Short = "local", "Run the whole of Gatewright on this machine"
	root.Long = root.Short + ", with nothing beside it: its data are in one folder.\n\n" + p.settingsHelp()
	root.Args = noWords
	root.SilenceUsage, root.SilenceErrors = true, true
	root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: p.Typed}
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%w: `%s --help` lists what it takes", err, cmd.CommandPath())
	})
	root.AddCommand(a.commands()...)
	withoutFlags(root)
	return root
}

// Commands are the product's commands for a program that has others too. The first one starts it.
func (p Program) Commands() []*cobra.Command {
	a := administration{program: p}
	serve := p.start(a)
	serve.Use, serve.Short = "serve", "Run the whole product on this machine, for a domain"
	serve.Long = serve.Short + ": management API, gateway and tunnels, by HTTPS.\n\n" + p.settingsHelp()
	serve.Args = commandline.NoWords
	all := append([]*cobra.Command{serve}, a.commands()...)
	for _, c := range all {
		c.PersistentPreRunE = checkNames
		withoutFlags(c)
	}
	return all
}

// start is a command that starts the product.
func (p Program) start(a administration) *cobra.Command {
	return &cobra.Command{
		PersistentPreRunE: checkNames,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := p.settings(os.Getenv)
			if err != nil {
				return err
			}
			if a.own != nil {
				return errors.New("the product runs already")
			}
			if err := s.check(); err != nil {
				return err
			}
			return runProduct(cmd.Context(), s)
		},
	}
}

// commands are those beside the one that starts the product.
func (a administration) commands() []*cobra.Command {
	all := []*cobra.Command{accountCommand(a), keyCommand(a), operationCommand(a), rotateCommand(a), rewrapCommand(a), auditCommand(a), backupCommand(a), checkCommand(a), exportDataCommand(a)}
	if a.own == nil { // the others are of a process of their own, or make data beside ours
		all = append(all, restoreCommand(a), importDataCommand(a), buildCommand())
	}
	return all
}

// checkNames refuses settings that there are not.
func checkNames(*cobra.Command, []string) error { return config.CheckNames(os.Environ(), true) }

// noWords refuses a word that is no command. What was typed may be a secret at a wrong place.
func noWords(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return commandline.NeedsCommand(cmd, args)
}

// withoutFlags has the lines of commands that have no flags name none.
func withoutFlags(cmd *cobra.Command) {
	for _, c := range cmd.Commands() {
		c.DisableFlagsInUseLine = !c.HasLocalFlags()
		withoutFlags(c)
	}
}

// settingsHelp lists what can be set, in the order of docs/local-run.md.
func (p Program) settingsHelp() string {
	return SettingsHelp(func(s *config.Setting) bool {
		if p.server {
			s.Default = cmp.Or(s.Server, s.Default)
		}
		return s.Kind == config.Run || s.Kind == config.Clients
	})
}

// SettingsHelp lists the settings that a command reads, for its help. reads reports whether it reads one, of which it may change
// what is said.
func SettingsHelp(reads func(*config.Setting) bool) string {
	var out strings.Builder
	out.WriteString("What can be set, and what holds without it:\n\n")
	table := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	for _, s := range config.Settings() {
		if reads(&s) {
			_, _ = fmt.Fprintf(table, "  %s\t%s (%s; %s)\n", s.Name, s.What, s.Range, cmp.Or(s.Default, "none"))
		}
	}
	_ = table.Flush() // a strings.Builder takes everything
	return out.String() + "\nOTEL_EXPORTER_OTLP_ENDPOINT and its kin are in docs/observability.md."
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
				return fmt.Errorf("%s is started by the product alone", sandbox.Command)
			}
			return sandbox.Child(cmd.Context(), os.Stdin, os.Stdout, alive)
		},
	}
}

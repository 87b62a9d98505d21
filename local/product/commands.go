// Package product is the whole product in one process: the management API, the gateway and the functions that they
// call, with a store and objects in a folder. `make run` starts it on a laptop, and `gatewright-server serve` on a
// machine with a domain.
//
// It runs the same code as in AWS. Requests for the management API are converted to the events of API Gateway (package
// apigateway). Other functions receive the events that AWS would send (package triggers). The same packages read the
// table, the bucket and the root key.
//
// Read commands.go for the commands, run.go for the start and stop of a run, and serve.go for the work between them.
// settings.go has the differences between a laptop and a server. names.go has the names below a domain. Then read
// database.go, bucket.go and services.go for the data and the wiring, admin.go for the operators' endpoints, and
// administration.go for commands that work on an installation. Section 9 of the design has the rules.
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

	"github.com/gatewright/gatewright/local/sandbox"
	"github.com/gatewright/gatewright/shared/base/terminal"
	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/runtime/commandline"
)

// Program is a binary that contains the product: the command that users type, and the defaults of the settings.
type Program struct {
	// Invocation is the text that a user types before a command.
	Invocation string
	// server reports whether the program is for a machine with a domain, rather than for a laptop.
	server               bool
	gatewayAddr, tlsAddr string
	dataDir              string
	// stopTimeout is the maximum time for which a stop waits for requests in progress.
	stopTimeout time.Duration
}

// The programs: Laptop for a checkout on a laptop, and Server for a server.
var (
	Laptop = Program{
		Invocation:  "go run ./local",
		gatewayAddr: config.DefaultGatewayAddr, tlsAddr: config.DefaultTLSAddr, dataDir: config.DefaultDataDir,
		stopTimeout: 3 * time.Second, // short, because the user waits for the stop
	}
	Server = Program{
		Invocation: "gatewright-server", server: true,
		gatewayAddr: config.DefaultServerGatewayAddr, tlsAddr: config.DefaultServerTLSAddr,
		dataDir:     config.DefaultServerDataDir,
		stopTimeout: 30 * time.Second,
	}
)

// Main runs a program that contains only the product, and returns its exit code.
func (p Program) Main(ctx context.Context, args []string) int {
	stderr := terminal.New(os.Stderr, terminal.SupportsColor(os.Stderr, os.Getenv))
	ctx, stop := terminal.Interruptible(ctx, errInterrupted, func() {
		stderr.Fail(errors.New("stopped at once; the next start goes on from what was acknowledged"))
		os.Exit(commandline.ExitInterrupted)
	})
	defer stop()
	root := p.command(administration{program: p}) //nolint:contextcheck // ExecuteContext passes ctx
	root.SetArgs(args)
	if _, err := commandline.Execute(ctx, root); err != nil {
		if errors.Is(err, errInterrupted) {
			return commandline.ExitInterrupted
		}
		stderr.Fail(err)
		return commandline.ExitOther
	}
	return commandline.ExitDone
}

// errInterrupted is the cause of a context that ended because of a signal or because a launcher of this process ended.
var errInterrupted = errors.New("interrupted")

// command returns the command line of a program that contains only the product. Without a command, it starts the
// product.
func (p Program) command(a administration) *cobra.Command {
	root := p.startCommand(a)
	root.Use, root.Short = "local", "Run the whole of Gatewright on this machine"
	root.Long = root.Short + ", with nothing beside it: its data are in one folder.\n\n" + p.settingsHelp()
	root.Args = rejectUnknownCommand
	root.SilenceUsage, root.SilenceErrors = true, true
	root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: p.Invocation}
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%w: `%s --help` lists what it takes", err, cmd.CommandPath())
	})
	root.AddCommand(a.commands()...)
	hideFlagsInUsage(root)
	return root
}

// Commands returns the product's commands for a program that
// also has other commands. The first of them starts the product.
func (p Program) Commands() []*cobra.Command {
	a := administration{program: p}
	serve := p.startCommand(a)
	serve.Use, serve.Short = "serve", "Run the whole product on this machine, for a domain"
	serve.Long = serve.Short + ": management API, gateway and tunnels, by HTTPS.\n\n" + p.settingsHelp()
	serve.Args = commandline.NoArgs
	all := append([]*cobra.Command{serve}, a.commands()...)
	for _, c := range all {
		c.PersistentPreRunE = checkVariableNames
		hideFlagsInUsage(c)
	}
	return all
}

// startCommand returns a command that starts the product.
func (p Program) startCommand(a administration) *cobra.Command {
	return &cobra.Command{
		PersistentPreRunE: checkVariableNames,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := p.settings(os.Getenv)
			if err != nil {
				return err
			}
			if a.running != nil {
				return errors.New("the product runs already")
			}
			if err := s.check(); err != nil {
				return err
			}
			return runProduct(cmd.Context(), s)
		},
	}
}

// commands returns all commands except the command that starts the product.
func (a administration) commands() []*cobra.Command {
	all := []*cobra.Command{
		accountCommand(a), keyCommand(a), operationCommand(a), rotateCommand(a), rewrapCommand(a),
		auditCommand(a), backupCommand(a), checkCommand(a), exportDataCommand(a),
	}
	if a.running == nil { // commands that must not run in the process of the product
		all = append(all, restoreCommand(a), importDataCommand(a), buildCommand())
	}
	return all
}

// checkVariableNames returns an error for environment variables that look like settings but do not exist.
func checkVariableNames(*cobra.Command, []string) error { return config.CheckNames(os.Environ(), true) }

// rejectUnknownCommand returns an error for arguments that are not a command.
// The error does not repeat the arguments, which may be a misplaced secret.
func rejectUnknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return commandline.RequireCommand(cmd, args)
}

// hideFlagsInUsage removes "[flags]" from the usage lines of all commands below cmd that have no flags.
func hideFlagsInUsage(cmd *cobra.Command) {
	for _, c := range cmd.Commands() {
		c.DisableFlagsInUseLine = !c.HasLocalFlags()
		hideFlagsInUsage(c)
	}
}

// settingsHelp returns a list of the program's settings for its help, in the order of docs/local-run.md.
func (p Program) settingsHelp() string {
	return SettingsHelp(func(s *config.Setting) bool {
		if p.server {
			s.Default = cmp.Or(s.Server, s.Default)
		}
		return s.Kind == config.Run || s.Kind == config.Listening
	})
}

// SettingsHelp returns a list of the settings that a command reads, for the command's help. include reports whether the
// command reads a setting, and can change the setting's description.
func SettingsHelp(include func(*config.Setting) bool) string {
	var out strings.Builder
	out.WriteString("What can be set, and what holds without it:\n\n")
	table := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	for _, s := range config.Settings() {
		if include(&s) {
			_, _ = fmt.Fprintf(table, "  %s\t%s (%s; %s)\n", s.Name, s.Description, s.Range, cmp.Or(s.Default, "none"))
		}
	}
	_ = table.Flush() // a strings.Builder accepts everything
	return out.String() + "\nOTEL_EXPORTER_OTLP_ENDPOINT and its kin are in docs/observability.md."
}

// buildCommand returns the command with which our binary compiles a project in a separate process (package sandbox).
func buildCommand() *cobra.Command {
	return &cobra.Command{
		Use:    sandbox.Command + " ALIVE",
		Short:  "Compile a project for the process that started this one",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			parentPipe := sandbox.OpenParentPipe(args[0])
			if parentPipe == nil {
				return fmt.Errorf("%s is started by the product alone", sandbox.Command)
			}
			return sandbox.RunChild(cmd.Context(), os.Stdin, os.Stdout, parentPipe)
		},
	}
}

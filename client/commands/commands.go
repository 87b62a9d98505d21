// Package commands is the command line of the client: its commands and flags, and the operations of the management API
// that the commands call.
//
// Most commands write one document to stdout: a table or another text for people, JSON, or YAML. Only completion, dev
// and `log list --follow` write other output. Some commands, such as logout, man and those that delete something, write
// nothing to stdout. Messages and errors are written to stderr. Package exit defines the exit codes.
//
// Most commands are written by hand, for people. The commands below `gatewright api`, one for each operation, are
// generated from the operations' declarations.
//
// The package does not send requests itself (package call), and does not compare files (package files). Read
// commands.go first, then api.go and flags.go. Most of the other files have one command or a group of commands.
package commands

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gatewright/gatewright/client/call"
	"github.com/gatewright/gatewright/client/exit"
	"github.com/gatewright/gatewright/client/output"
	"github.com/gatewright/gatewright/client/profile"
	"github.com/gatewright/gatewright/client/prompt"
	"github.com/gatewright/gatewright/shared/base/terminal"
	"github.com/gatewright/gatewright/shared/runtime/commandline"
)

// App runs command lines. Its fields are the environment of the process and the program's own version and commands.
type App struct {
	In       *os.File
	Out, Err io.Writer
	Getenv   func(string) string
	// HTTP and Sleep replace those of package call in tests.
	HTTP  *http.Client
	Sleep func(context.Context, time.Duration) error
	// Now returns the current time. If Now is nil, commands use the machine's clock.
	Now func() time.Time
	// Version is the text that --version prints.
	Version string
	// AddCommands adds the program's own commands to root or to one of its groups. It can be nil.
	AddCommands func(root *cobra.Command)
	// ExitCode returns the exit code of a command line that has run. If handled is false, Run reports the error and
	// determines the exit code itself. ExitCode can be nil.
	ExitCode func(executed *cobra.Command, err error) (code exit.Code, handled bool)
}

// Run runs a command line and reports an error on stderr. It returns the exit code of the process.
func (a *App) Run(ctx context.Context, args []string) exit.Code {
	//nolint:contextcheck // commands get the context from ExecuteContext
	root := a.root(needsOperations(args), mentionedIn(args))
	root.SetArgs(args)
	executed, err := commandline.Execute(ctx, root)
	if a.ExitCode != nil {
		if code, handled := a.ExitCode(executed, err); handled {
			return code
		}
	}
	if commandline.IsUsage(err) {
		err = exit.WithCode(exit.Usage, err)
	}
	if err != nil && errors.Is(context.Cause(ctx), exit.ErrInterrupted) && !errors.Is(err, exit.ErrInterrupted) {
		err = exit.WithCode(exit.Interrupted, exit.ErrInterrupted)
	}
	if err != nil {
		a.errorOutput(args).Fail(err)
	}
	return exit.CodeOf(err)
}

// errorOutput returns the output for errors. It applies the output flags in args even if the rest of the command line
// is invalid.
func (a *App) errorOutput(args []string) *output.Output {
	flagValues := outputFlags{}
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.ParseErrorsAllowlist.UnknownFlags = true
	flags.SetOutput(io.Discard)
	flagValues.register(flags)
	_ = flags.Parse(args)
	o, err := a.output(flagValues)
	if err != nil {
		return output.NewPlain(a.Err, a.useColor(a.Err))
	}
	return o
}

// mentionedIn returns a function that reports whether args contain the name of a resource, or the man command, which
// needs the commands of all resources.
func mentionedIn(args []string) func(resource string) bool {
	return func(resource string) bool {
		return slices.Contains(args, resource) || slices.Contains(args, manCommandName)
	}
}

// needsOperations reports whether a command line may need the commands that are generated from the operations'
// declarations. Reading the declarations takes milliseconds.
func needsOperations(args []string) bool {
	return slices.ContainsFunc(args, func(arg string) bool {
		return arg == apiCommandName || arg == manCommandName || strings.HasPrefix(arg, cobra.ShellCompRequestCmd)
	})
}

// Root returns the root command. If includeOperations is true, it includes the commands that are generated from the
// operations' declarations.
func (a *App) Root(includeOperations bool) *cobra.Command {
	return a.root(includeOperations, func(string) bool { return true })
}

// root is like Root, but adds subcommands only to the resources that include accepts. The commands of all resources
// would take two milliseconds at each start.
func (a *App) root(includeOperations bool, include func(name string) bool) *cobra.Command {
	root := &cobra.Command{
		Use:   "gatewright",
		Short: "Gatewright: the command line client of an installation",
		Long: "Gatewright: the command line client of an installation.\n\n" +
			"`gatewright login` keeps the address of an installation and a key. Every command takes --output json for " +
			"scripts;\ndocs/command-line.md has what they end with.",
	}
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	root.AddGroup(&cobra.Group{ID: groupProjects, Title: "Projects and deployments:"},
		&cobra.Group{ID: groupResources, Title: "Resources:"},
		&cobra.Group{ID: groupFiles, Title: "Resources in files:"}, &cobra.Group{ID: groupAPI, Title: "The management API:"},
		&cobra.Group{ID: groupProfiles, Title: "Installations and keys:"})
	root.AddCommand(a.initCommand(), a.validateCommand(), a.schemaCommand(), a.devCommand(), a.deployCommand(),
		a.deploymentCommand(), a.apiCommand(includeOperations), a.whoamiCommand(), a.loginCommand(), a.logoutCommand(),
		a.profileCommand(), a.completionCommand())
	root.AddCommand(a.filesCommands()...)
	a.addResources(root, include)
	a.addMan(root)
	if a.AddCommands != nil {
		a.AddCommands(root)
	}
	commandline.Prepare(root, a.Version)
	root.PersistentPreRunE = rejectEmptyFlags
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		return commandline.RequireCommand(cmd, args)
	}
	return root
}

// These are the IDs of groups of commands in the help. Another is groupFiles.
const (
	groupProjects  = "projects"
	groupResources = "resources"
	groupAPI       = "api"
	groupProfiles  = "profiles"
)

// manCommandName is the command that writes the manual pages of all commands (addMan).
const manCommandName = "man"

// outputFlags has the output flags.
type outputFlags struct{ output, jq string }

func (f *outputFlags) register(flags *pflag.FlagSet) {
	var names []string
	for _, format := range output.Formats() {
		names = append(names, string(format))
	}
	flags.StringVarP(&f.output, "output", "o", "", "how the document is written: "+
		strings.Join(names, ", ")+" (default "+names[0]+")")
	flags.StringVar(&f.jq, "jq", "", "a jq program that is asked of the JSON document, such as .data[].name")
}

// targetFlags has the flags that select the installation and the account, and --timeout.
type targetFlags struct {
	overrides profile.Overrides
	timeout   time.Duration
}

// defaultTimeout is the default time limit of a command, including its waits.
const defaultTimeout = 2 * time.Minute

func (f *targetFlags) register(flags *pflag.FlagSet, timeout time.Duration) {
	flags.StringVar(&f.overrides.Profile, "profile", "", "the profile that says which installation is meant ("+
		profile.VarProfile+")")
	flags.StringVar(&f.overrides.URL, "url", "", "the installation's address, for a key of "+
		profile.VarKey+" or "+profile.VarKeyFile+" ("+profile.VarURL+")")
	flags.StringVar(&f.overrides.Account, "account", "", "the account that is meant, where it is not the key's ("+
		profile.VarAccount+")")
	flags.DurationVar(&f.timeout, "timeout", timeout, "how long it may take, with waits")
}

func (a *App) useColor(w io.Writer) bool {
	f, isFile := w.(*os.File)
	return isFile && terminal.SupportsColor(f, a.Getenv)
}

func (a *App) output(f outputFlags) (*output.Output, error) {
	out, isFile := a.Out.(*os.File)
	stderr, isStderrFile := a.Err.(*os.File)
	o := output.Options{Format: output.Format(f.output), Query: f.jq, UseColor: a.useColor(a.Err), Terminal: isFile &&
		isTerminal(out), StderrTerminal: isStderrFile && isTerminal(stderr)}
	return output.New(a.Out, a.Err, o)
}

// isTerminal reports whether f is a character device, such as a terminal. The null device is one, too.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// session is a running command.
type session struct {
	app    *App
	out    *output.Output
	target targetFlags
}

// localCommand adds the output flags to c, makes run its action, and returns c. The target of the session that run gets
// is empty.
func (a *App) localCommand(
	c *cobra.Command, run func(ctx context.Context, s *session, args []string) error,
) *cobra.Command {
	var f outputFlags
	f.register(c.Flags())
	c.RunE = func(cmd *cobra.Command, args []string) error {
		out, err := a.output(f)
		if err != nil {
			return err
		}
		if err := rejectEmptyArguments(cmd, args); err != nil {
			return err
		}
		return run(cmd.Context(), &session{app: a, out: out}, args)
	}
	return c
}

// rejectEmptyArguments refuses empty arguments. An argument is usually empty because a variable of the shell is not
// set. An empty name of a folder would then select the current folder.
func rejectEmptyArguments(cmd *cobra.Command, args []string) error {
	placeholders := strings.Fields(cmd.Use)[1:]
	for i, arg := range args {
		if arg == "" {
			return exit.WithCode(exit.Usage, fmt.Errorf("%s is empty",
				strings.Trim(placeholders[min(i, len(placeholders)-1)], "[]…")))
		}
	}
	return nil
}

// remoteCommand is like localCommand for a command that sends requests to an installation: it also adds the target
// flags. The default of --timeout is defaultTimeout.
func (a *App) remoteCommand(
	c *cobra.Command, run func(ctx context.Context, s *session, args []string) error,
) *cobra.Command {
	return a.remoteCommandWithTimeout(defaultTimeout, c, run)
}

// remoteCommandWithTimeout is like remoteCommand, with another default of --timeout.
func (a *App) remoteCommandWithTimeout(
	timeout time.Duration, c *cobra.Command, run func(ctx context.Context, s *session, args []string) error,
) *cobra.Command {
	var f targetFlags
	f.register(c.Flags(), timeout)
	return a.localCommand(c, func(ctx context.Context, s *session, args []string) error {
		if f.timeout <= 0 {
			return exit.WithCode(exit.Usage, errors.New("--timeout is a time with its unit, such as 25s or 2m"))
		}
		s.target = f
		timeoutErr := exit.WithCode(exit.TimedOut, fmt.Errorf("it takes longer than %s; --timeout gives it more", f.timeout))
		ctx, cancel := context.WithTimeoutCause(ctx, f.timeout, timeoutErr)
		defer cancel()
		return run(ctx, s, args)
	})
}

func (a *App) now() time.Time {
	if a.Now == nil {
		return time.Now()
	}
	return a.Now()
}

// prompter returns a Prompter that asks the user questions at the terminal.
func (a *App) prompter() prompt.Prompter {
	return prompt.Prompter{In: a.In, Out: a.Err, Getenv: a.Getenv}
}

// stdin returns the standard input. When ctx ends, a read returns the cause of ctx.
func (a *App) stdin(ctx context.Context) io.Reader { return prompt.WithContext(ctx, a.In) }

// profiles returns the user's profiles and the path of their file.
func (a *App) profiles() (*profile.Profiles, string, error) {
	path, err := profile.Path(a.Getenv)
	if err != nil {
		return nil, "", err
	}
	p, err := profile.Load(path)
	return p, path, err
}

// api returns an API client for the selected installation.
func (s *session) api() (*call.API, error) {
	p, _, err := s.app.profiles()
	if err != nil {
		return nil, err
	}
	access, err := p.Resolve(s.target.overrides, s.app.Getenv)
	if err != nil {
		return nil, err
	}
	return s.app.api(s, access), nil
}

// api returns an API client for an installation and a key. The client reports waits to the output of s.
func (a *App) api(s *session, access profile.Access) *call.API {
	api := &call.API{Access: access, HTTP: a.HTTP, Sleep: a.Sleep, OnWait: func(reason string, wait time.Duration) {
		s.out.Noticef("%s; asking again in %s", reason, wait.Round(100*time.Millisecond))
	}}
	if api.HTTP == nil {
		api.HTTP = call.NewHTTPClient()
	}
	if api.Sleep == nil {
		api.Sleep = call.Sleep
	}
	return api
}

// Package commands is the command line of the client: what is typed, and which operations of the public API do it.
//
// Every command writes one document on stdout, as a table or as JSON or YAML, and all else on stderr; what it ends with is
// package exit's. Commands by hand are for people; `gatewright api OPERATION` is every operation, made of the declarations.
//
// Read commands.go first, then api.go and flags.go; each other file is a command or a group of some.
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
	"github.com/gatewright/gatewright/local/commandline"
	"github.com/gatewright/gatewright/local/terminal"
)

// App is what a command line runs in.
type App struct {
	In       *os.File
	Out, Err io.Writer
	Getenv   func(string) string
	// HTTP and Sleep are package call's, but in tests.
	HTTP  *http.Client
	Sleep func(context.Context, time.Duration) error
	// Now is the clock, nil for the machine's.
	Now func() time.Time
	// Version is what --version prints.
	Version string
	// More adds commands that are none of this package's, to the root or to a group of this package's, nil for none, and Ended says what those end with: what it does not end is
	// told here.
	More  func(root *cobra.Command)
	Ended func(ran *cobra.Command, err error) (code exit.Code, ended bool)
}

// Run runs a command line, and tells on stderr why it failed. It returns what the process ends with.
func (a *App) Run(ctx context.Context, args []string) exit.Code {
	root := a.root(needsOperations(args), speaksOf(args)) //nolint:contextcheck // commands get it by ExecuteContext
	root.SetArgs(args)
	ran, err := commandline.Execute(ctx, root)
	if a.Ended != nil {
		if code, ended := a.Ended(ran, err); ended {
			return code
		}
	}
	if commandline.IsUsage(err) {
		err = exit.With(exit.Usage, err)
	}
	if err != nil && errors.Is(context.Cause(ctx), exit.ErrInterrupted) && !errors.Is(err, exit.ErrInterrupted) {
		err = exit.With(exit.Interrupted, exit.ErrInterrupted)
	}
	if err != nil {
		a.told(args).Fail(err)
	}
	return exit.Of(err)
}

// told is where a failure is told: as the command line asks for it, though it may be one that can't be read.
func (a *App) told(args []string) *output.Output {
	typed := form{}
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.ParseErrorsAllowlist.UnknownFlags = true
	flags.SetOutput(io.Discard)
	typed.register(flags)
	_ = flags.Parse(args)
	o, err := a.output(typed)
	if err != nil {
		return output.Plain(a.Err, a.colours(a.Err))
	}
	return o
}

// speaksOf reports of a noun whether a command line may be about it: its word is there, or that of the command that writes pages of all.
func speaksOf(args []string) func(noun string) bool {
	return func(noun string) bool { return slices.Contains(args, noun) || slices.Contains(args, manName) }
}

// needsOperations reports whether a command line asks for commands that are made of the declarations, which take
// milliseconds to read.
func needsOperations(args []string) bool {
	return slices.ContainsFunc(args, func(word string) bool {
		return word == apiName || word == manName || strings.HasPrefix(word, cobra.ShellCompRequestCmd)
	})
}

// Root is the command line, with those commands that are made of the declarations or without.
func (a *App) Root(operations bool) *cobra.Command {
	return a.root(operations, func(string) bool { return true })
}

// root is Root with the commands of those nouns alone that a command line speaks of: the others' would take
// two milliseconds of each start.
func (a *App) root(operations bool, nouns func(name string) bool) *cobra.Command {
	root := &cobra.Command{
		Use:   "gatewright",
		Short: "Gatewright: the command line client of an installation",
		Long: "Gatewright: the command line client of an installation.\n\n" +
			"`gatewright login` keeps the address of an installation and a key. Every command takes --output json for scripts;\n" +
			"docs/command-line.md has what they end with.",
	}
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	root.AddGroup(&cobra.Group{ID: groupProjects, Title: "Projects and deployments:"}, &cobra.Group{ID: groupResources, Title: "Resources:"},
		&cobra.Group{ID: groupFiles, Title: "Resources in files:"}, &cobra.Group{ID: groupAPI, Title: "The management API:"}, &cobra.Group{ID: groupProfiles, Title: "Installations and keys:"})
	root.AddCommand(a.initCommand(), a.validateCommand(), a.devCommand(), a.deployCommand(), a.deploymentCommand(), a.apiCommand(operations),
		a.whoamiCommand(), a.loginCommand(), a.logoutCommand(), a.profileCommand(), a.completionCommand())
	root.AddCommand(a.filesCommands()...)
	a.addNouns(root, nouns)
	a.addMan(root)
	if a.More != nil {
		a.More(root)
	}
	commandline.Prepare(root, a.Version)
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		return commandline.NeedsCommand(cmd, args)
	}
	return root
}

// The groups that help lists commands in.
const (
	groupProjects  = "projects"
	groupResources = "resources"
	groupAPI       = "api"
	groupProfiles  = "profiles"
)

// manName is the command that writes pages of all others (addMan).
const manName = "man"

// form is what is typed about the output.
type form struct{ output, jq string }

func (f *form) register(flags *pflag.FlagSet) {
	var names []string
	for _, format := range output.Formats() {
		names = append(names, string(format))
	}
	flags.StringVarP(&f.output, "output", "o", "", "how the document is written: "+strings.Join(names, ", ")+" (default "+names[0]+")")
	flags.StringVar(&f.jq, "jq", "", "a jq program that is asked of the JSON document, such as .data[].name")
}

// reach is what is typed about whom to ask.
type reach struct {
	typed   profile.Typed
	timeout time.Duration
}

// defaultTimeout is how long a command may take, waits included.
const defaultTimeout = 2 * time.Minute

func (r *reach) register(flags *pflag.FlagSet, timeout time.Duration) {
	flags.StringVar(&r.typed.Profile, "profile", "", "the profile that says which installation is meant ("+profile.VarName+")")
	flags.StringVar(&r.typed.URL, "url", "", "the installation's address, for a key of "+profile.VarKey+" or "+profile.VarKeyFile+" ("+profile.VarURL+")")
	flags.StringVar(&r.typed.Account, "account", "", "the account that is meant, where it is not the key's ("+profile.VarAccount+")")
	flags.DurationVar(&r.timeout, "timeout", timeout, "how long it may take, with waits")
}

func (a *App) colours(w io.Writer) bool {
	f, isFile := w.(*os.File)
	return isFile && terminal.Colours(f, a.Getenv)
}

func (a *App) output(f form) (*output.Output, error) {
	out, isFile := a.Out.(*os.File)
	stderr, told := a.Err.(*os.File)
	o := output.Options{Format: output.Format(f.output), Query: f.jq, Colours: a.colours(a.Err), Terminal: isFile && isTerminal(out), Watched: told && isTerminal(stderr)}
	return output.New(a.Out, a.Err, o)
}

func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// session is a command that runs.
type session struct {
	app   *App
	out   *output.Output
	reach reach
}

// local has a command run that asks no installation.
func (a *App) local(c *cobra.Command, run func(ctx context.Context, s *session, args []string) error) *cobra.Command {
	var f form
	f.register(c.Flags())
	c.RunE = func(cmd *cobra.Command, args []string) error {
		out, err := a.output(f)
		if err != nil {
			return err
		}
		if err := nothingEmpty(cmd, args); err != nil {
			return err
		}
		return run(cmd.Context(), &session{app: a, out: out}, args)
	}
	return c
}

// nothingEmpty refuses a word that is empty, and a file's or a folder's name that is: most often a variable of the shell has no value. It would be
// the folder that the command runs in, or have a secret on stdout.
func nothingEmpty(cmd *cobra.Command, words []string) error {
	names := strings.Fields(cmd.Use)[1:]
	for i, word := range words {
		if word == "" {
			return exit.With(exit.Usage, fmt.Errorf("%s is empty", strings.Trim(names[min(i, len(names)-1)], "[]…")))
		}
	}
	var err error
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if name, _ := pflag.UnquoteUsage(f); f.Value.String() == "" && (name == "FILE" || name == "FOLDER") {
			err = exit.With(exit.Usage, fmt.Errorf("--%s is empty: name a %s, or leave it out", f.Name, strings.ToLower(name)))
		}
	})
	return err
}

// asking has a command run that asks an installation, for as long as --timeout.
func (a *App) asking(c *cobra.Command, run func(ctx context.Context, s *session, args []string) error) *cobra.Command {
	return a.askingFor(defaultTimeout, c, run)
}

// askingFor is asking with a --timeout of its own, where none is typed.
func (a *App) askingFor(timeout time.Duration, c *cobra.Command, run func(ctx context.Context, s *session, args []string) error) *cobra.Command {
	var r reach
	r.register(c.Flags(), timeout)
	return a.local(c, func(ctx context.Context, s *session, args []string) error {
		if r.timeout <= 0 {
			return exit.With(exit.Usage, errors.New("--timeout is a time with its unit, such as 25s or 2m"))
		}
		s.reach = r
		late := exit.With(exit.TimedOut, fmt.Errorf("it takes longer than %s; --timeout gives it more", r.timeout))
		ctx, stop := context.WithTimeoutCause(ctx, r.timeout, late)
		defer stop()
		return run(ctx, s, args)
	})
}

func (a *App) now() time.Time {
	if a.Now == nil {
		return time.Now()
	}
	return a.Now()
}

// person is who may be asked.
func (a *App) person() prompt.Person {
	return prompt.Person{In: a.In, Out: a.Err, Getenv: a.Getenv}
}

// stdin is what is piped in, or typed, until ctx ends.
func (a *App) stdin(ctx context.Context) io.Reader { return prompt.Until(ctx, a.In) }

// profiles reads the user's.
func (a *App) profiles() (*profile.Profiles, string, error) {
	path, err := profile.Path(a.Getenv)
	if err != nil {
		return nil, "", err
	}
	p, err := profile.Load(path)
	return p, path, err
}

// api is the installation that is meant.
func (s *session) api() (*call.API, error) {
	p, _, err := s.app.profiles()
	if err != nil {
		return nil, err
	}
	access, err := p.Decide(s.reach.typed, s.app.Getenv)
	if err != nil {
		return nil, err
	}
	return s.app.api(s, access), nil
}

func (a *App) api(s *session, access profile.Access) *call.API {
	api := &call.API{Access: access, HTTP: a.HTTP, Sleep: a.Sleep, Waits: func(why string, wait time.Duration) {
		s.out.Notice("%s; asking again in %s", why, wait.Round(100*time.Millisecond))
	}}
	if api.HTTP == nil {
		api.HTTP = call.Client()
	}
	if api.Sleep == nil {
		api.Sleep = call.Sleep
	}
	return api
}

// Package commandline is what the product's programs have in common as command lines: which of what was typed
// cannot be followed, what is said of it, and the exit codes that scripts go by. What was typed is repeated only
// where it can be no secret at a wrong place.
//
// What it is not: commands. Those are of each program's main, and of package product. Read this file, then wrap.go for how wide help is.
package commandline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/disk"
	"github.com/gatewright/gatewright/shared/lazy"
)

// The exit codes of all programs. docs/tunnels.md has them for users.
const (
	ExitDone  = 0
	ExitOther = 1
	// ExitUsage is of what was typed, an environment or a file that it names, that can't be followed.
	ExitUsage = 2
	// ExitInterrupted is what a shell reports for a command that a signal ended before it was done.
	ExitInterrupted = 130
)

// UsageError is a command line, or an environment, that can't be followed. Its program ends with ExitUsage.
type UsageError struct{ error }

// Usage makes err, which is not nil, one.
func Usage(err error) error { return UsageError{err} }

// Unwrap gives the error that it was made of.
func (e UsageError) Unwrap() error { return e.error }

// IsUsage reports whether err is, or wraps, a UsageError.
func IsUsage(err error) bool {
	_, is := errors.AsType[UsageError](err)
	return is
}

// Prepare makes root, which has all of its commands by now, the command line of a program: without a command it
// names them, flags and words that it does not take are a UsageError, and nothing but its caller prints one.
// version is what --version prints.
func Prepare(root *cobra.Command, version string) {
	root.SilenceUsage, root.SilenceErrors = true, true
	root.Version = version
	root.SetVersionTemplate("{{.Version}}")
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if words := cmd.Flags().Args(); cmd.HasSubCommands() && len(words) > 0 {
			return NeedsCommand(cmd, words) // the flag is one of the command that there is not
		}
		invalid, isValue := errors.AsType[*pflag.InvalidValueError](err)
		switch { // what was typed may be a secret at a wrong place
		case isValue:
			err = fmt.Errorf("--%s takes %s", invalid.GetFlag().Name, valueOf(invalid.GetFlag()))
		case strings.Contains(err.Error(), "shorthand"):
			err = errors.New("there is no such flag")
		default:
			if unknown, is := errors.AsType[*pflag.NotExistError](err); is {
				if near := nearestFlag(cmd, unknown.GetSpecifiedName()); near != "" {
					return Usage(fmt.Errorf("%w: %s", err, config.DidYouMean("--"+near)))
				}
			}
		}
		return Usage(fmt.Errorf("%w: `%s --help` lists what it takes", err, cmd.CommandPath()))
	})
	Group(root)
	wordsAreUsage(root)
}

// Execute runs the command line that root was prepared for. Help about a command that there is not is a UsageError, as the command itself is:
// cobra would show that of the one above, as if all were well. On a terminal help is as wide as that at most; where it cannot be written, that is an error.
func Execute(ctx context.Context, root *cobra.Command) (ran *cobra.Command, err error) {
	shows, unwritten := root.HelpFunc(), error(nil)
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		if asksOfNone(cmd) {
			return
		}
		out := cmd.OutOrStdout()
		var help strings.Builder
		cmd.SetOut(&help)
		shows(cmd, args)
		cmd.SetOut(out)
		_, unwritten = io.WriteString(out, wrapped(help.String(), columnsOf(out)))
	})
	ran, err = root.ExecuteContextC(ctx)
	if err == nil && unwritten != nil {
		err = fmt.Errorf("write to stdout: %w", disk.Cause(unwritten))
	}
	if err == nil && asksOfNone(ran) {
		err = NeedsCommand(ran, ran.Flags().Args())
	}
	return ran, err
}

// asksOfNone reports whether --help follows a word that is none of cmd's commands.
func asksOfNone(cmd *cobra.Command) bool {
	asked, err := cmd.Flags().GetBool("help")
	return err == nil && asked && cmd.HasSubCommands() && cmd.Flags().NArg() > 0
}

// Group makes cmd one that does nothing but hold others.
func Group(cmd *cobra.Command) {
	cmd.Args, cmd.RunE = cobra.ArbitraryArgs, NeedsCommand
}

// wordsAreUsage has words that a command does not take be a command line that can't be followed, of all commands.
func wordsAreUsage(cmd *cobra.Command) {
	if takes := cmd.Args; takes != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := takes(cmd, args); err != nil {
				return Usage(wordsError(cmd, args, err))
			}
			return nil
		}
	}
	for _, c := range cmd.Commands() {
		wordsAreUsage(c)
	}
}

// counting is how cobra's own errors of too few or too many words begin, which have no type.
var counting = lazy.Regexp(`^(accepts|requires|unknown command)\b`)

// wordsError says in place of cobra which words are missing, or that there are too many, as the command's usage line names them; a command's own
// errors stay. What was typed is not repeated.
func wordsError(cmd *cobra.Command, args []string, err error) error {
	if !counting().MatchString(err.Error()) {
		return err
	}
	var names, needed []string
	for _, name := range strings.Fields(cmd.Use)[1:] {
		if strings.HasPrefix(name, "-") {
			break // the flags that it needs come last
		}
		names = append(names, name)
		if !strings.HasPrefix(name, "[") {
			needed = append(needed, name)
		}
	}
	help := fmt.Sprintf("`%s --help` says what it takes", cmd.CommandPath())
	switch endless := len(names) > 0 && strings.Contains(names[len(names)-1], "…"); {
	case len(args) < len(needed):
		return fmt.Errorf("it needs %s: %s", strings.Join(needed[len(args):], " and "), help)
	case len(args) <= len(names) || endless:
		return err
	case len(names) == 0:
		return fmt.Errorf("it takes no words: %s", help)
	}
	return fmt.Errorf("it takes %s, and nothing more (quote a word that has spaces): %s", strings.Join(names, " and "), help)
}

// nearestFlag is the flag of a command whose name is most like one that it has not, "" for none.
func nearestFlag(cmd *cobra.Command, typed string) string {
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	near, is := config.Nearest(typed, names, min(suggestedDistance, mayDiffer(typed))) // --help is there at least
	if !is {
		return ""
	}
	return near
}

// suggestedDistance is how many letters what was typed may differ in from what is suggested.
const suggestedDistance = 2

// suggestedOf is how many letters a word has for each that may be another one: of a short word every other one is near.
const suggestedOf = 3

// mayDiffer is how many letters of a word that was typed may be others.
func mayDiffer(typed string) int { return max(1, len(typed)/suggestedOf) }

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

// NeedsCommand is the error of a group of which no command was named, or with args one that it has not. It does not repeat what was typed, which may be
// a secret at a wrong place.
func NeedsCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 || args[0] == "" {
		return Usage(fmt.Errorf("name one of its commands: `%s --help` lists them", cmd.CommandPath()))
	}
	hint := fmt.Sprintf("`%s --help` lists them", cmd.CommandPath())
	near := ""
	cmd.SuggestionsMinimumDistance = suggestedDistance // cobra's own default holds for its own messages alone
	if all := cmd.SuggestionsFor(args[0]); len(all) > 0 {
		if one, is := config.Nearest(args[0], all, mayDiffer(args[0])); is {
			near = one
		}
		if begun := slices.IndexFunc(all, func(name string) bool { return strings.HasPrefix(name, args[0]) }); begun >= 0 {
			near = all[begun] // a word that was not ended is nearer than one of other letters
		}
	}
	for _, c := range cmd.Commands() {
		if slices.Contains(c.SuggestFor, args[0]) { // another's word for it, which is no mistake of typing
			near = c.Name()
		}
	}
	if near != "" {
		hint = config.DidYouMean(near)
	}
	return Usage(fmt.Errorf("it has no such command: %s", hint))
}

// NoWords refuses words after a command that is told everything by variables, and does not repeat them.
func NoWords(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("it takes no words, its settings are variables: `%s --help` lists them", cmd.CommandPath())
	}
	return nil
}

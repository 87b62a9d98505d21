// Package commandline is what the product's programs have in common as command lines: which of what was typed
// cannot be followed, what is said of it, and the exit codes that scripts go by. What was typed is repeated only
// where it can be no secret at a wrong place.
//
// What it is not: commands. Those are of each program's main, and of package product. There is only this file.
package commandline

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
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
		invalid, isValue := errors.AsType[*pflag.InvalidValueError](err)
		switch { // what was typed may be a secret at a wrong place
		case isValue:
			err = fmt.Errorf("--%s takes %s", invalid.GetFlag().Name, valueOf(invalid.GetFlag()))
		case strings.Contains(err.Error(), "shorthand"):
			err = errors.New("there is no such flag")
		}
		return Usage(fmt.Errorf("%w: `%s --help` lists what it takes", err, cmd.CommandPath()))
	})
	Group(root)
	wordsAreUsage(root)
}

// Group makes cmd one that does nothing but hold others.
func Group(cmd *cobra.Command) {
	cmd.Args, cmd.RunE = cobra.ArbitraryArgs, NeedsCommand
}

// wordsAreUsage has words that a command does not take be a command line that can't be followed, of all commands.
func wordsAreUsage(cmd *cobra.Command) {
	cmd.SuggestionsMinimumDistance = 2 // cobra's own default holds for its own messages alone
	if takes := cmd.Args; takes != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := takes(cmd, args); err != nil {
				return Usage(err)
			}
			return nil
		}
	}
	for _, c := range cmd.Commands() {
		wordsAreUsage(c)
	}
}

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
	if len(args) == 0 {
		return Usage(fmt.Errorf("name one of its commands: `%s --help` lists them", cmd.CommandPath()))
	}
	hint := fmt.Sprintf("`%s --help` lists them", cmd.CommandPath())
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		begun := slices.IndexFunc(near, func(name string) bool { return strings.HasPrefix(name, args[0]) })
		hint = fmt.Sprintf("did you mean %s?", near[max(0, begun)]) // a word that was not ended is nearer than one of other letters
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

// Package commandline is the part of the command line that the product's programs share: usage errors and the
// exit codes for scripts. Error texts repeat the user's input only where it cannot be a misplaced secret.
//
// The package has no commands: they are in the main package of each program, and
// in package product. Read this file first, then wrap.go for the width of help.
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

	"github.com/gatewright/gatewright/shared/base/disk"
	"github.com/gatewright/gatewright/shared/base/lazy"
	"github.com/gatewright/gatewright/shared/base/spelling"
)

// The exit codes of the server's programs, and of `gatewright tunnel connect` (docs/tunnels.md). The client's other
// commands have the codes of package client/exit.
const (
	ExitDone = 0
	// ExitOther is for an error without a code of its own.
	ExitOther = 1
	// ExitUsage is for a command line, an environment or a named file that is invalid.
	ExitUsage = 2
	// ExitInterrupted is for a command that a signal ended before
	// it was finished. Shells report the same code for SIGINT.
	ExitInterrupted = 130
)

// UsageError is an invalid command line or environment. The program ends with ExitUsage.
type UsageError struct{ error }

// Usage returns err, which must not be nil, as a UsageError.
func Usage(err error) error { return UsageError{err} }

// Unwrap returns the wrapped error.
func (e UsageError) Unwrap() error { return e.error }

// IsUsage reports whether err is, or wraps, a UsageError.
func IsUsage(err error) bool {
	_, ok := errors.AsType[UsageError](err)
	return ok
}

// Prepare makes root the command line of a program. Add all commands to root before the call. Without a command, the
// program returns a UsageError that asks for one. Flags and arguments that a command does not accept are a UsageError
// too. cobra prints no errors, so the caller has to print them. --version prints version.
func Prepare(root *cobra.Command, version string) {
	root.SilenceUsage, root.SilenceErrors = true, true
	root.Version = version
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if args := cmd.Flags().Args(); cmd.HasSubCommands() && len(args) > 0 {
			return RequireCommand(cmd, args) // the flag follows an unknown command: report the command
		}
		invalid, isInvalidValue := errors.AsType[*pflag.InvalidValueError](err)
		switch { // the input may be a misplaced secret
		case isInvalidValue:
			err = fmt.Errorf("--%s takes %s", invalid.GetFlag().Name, valueDescription(invalid.GetFlag()))
		case strings.Contains(err.Error(), "shorthand"):
			err = errors.New("there is no such flag")
		default:
			if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
				if suggestion := nearestFlag(cmd, unknown.GetSpecifiedName()); suggestion != "" {
					return Usage(fmt.Errorf("%w: %s", err, spelling.DidYouMean("--"+suggestion)))
				}
			}
		}
		return Usage(fmt.Errorf("%w: `%s --help` lists what it takes", err, cmd.CommandPath()))
	})
	MakeGroup(root)
	wrapArgsErrors(root)
}

// Execute runs the command line of root after Prepare. --help after a command that does not exist is a UsageError,
// although cobra would show the help of the parent command without an error. On a terminal, help is wrapped at the
// terminal's width. A failure to write help is an error.
func Execute(ctx context.Context, root *cobra.Command) (executed *cobra.Command, err error) {
	addVersionFlag(root)
	showHelp, writeErr := root.HelpFunc(), error(nil)
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		if isHelpForUnknownCommand(cmd) {
			return
		}
		out := cmd.OutOrStdout()
		var help strings.Builder
		cmd.SetOut(&help)
		showHelp(cmd, args)
		cmd.SetOut(out)
		_, writeErr = io.WriteString(out, wrapHelp(help.String(), terminalColumns(out)))
	})
	executed, err = root.ExecuteContextC(ctx)
	if err == nil && writeErr != nil {
		err = fmt.Errorf("write to stdout: %w", disk.Cause(writeErr))
	}
	if err == nil && isHelpForUnknownCommand(executed) {
		err = RequireCommand(executed, executed.Flags().Args())
	}
	return executed, err
}

// addVersionFlag makes root print its version, and nothing else, if it is called with --version. It does nothing for a
// program without a version. cobra's own flag can only print the version alone with a template, and a program that
// calls text/template contains all exported methods of all its types. That is 12 MB of the server.
func addVersionFlag(root *cobra.Command) {
	version, run := root.Version, root.RunE
	if version == "" {
		return
	}
	root.Version = "" // without a version, cobra adds no flag
	requested := root.Flags().BoolP("version", "v", false, "version for "+root.Name())
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if *requested {
			_, err := io.WriteString(cmd.OutOrStdout(), version)
			return err
		}
		return run(cmd, args)
	}
}

// isHelpForUnknownCommand reports whether --help follows an argument that is not a command of cmd.
func isHelpForUnknownCommand(cmd *cobra.Command) bool {
	help, err := cmd.Flags().GetBool("help")
	return err == nil && help && cmd.HasSubCommands() && cmd.Flags().NArg() > 0
}

// MakeGroup makes cmd a command that only contains other commands,
// and returns a UsageError if it is called without one of them.
func MakeGroup(cmd *cobra.Command) {
	cmd.Args, cmd.RunE = cobra.ArbitraryArgs, RequireCommand
}

// wrapArgsErrors makes cmd and all commands below it return a UsageError for arguments that they do not accept.
func wrapArgsErrors(cmd *cobra.Command) {
	if validate := cmd.Args; validate != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := validate(cmd, args); err != nil {
				return Usage(argsError(cmd, args, err))
			}
			return nil
		}
	}
	for _, c := range cmd.Commands() {
		wrapArgsErrors(c)
	}
}

// argCountError matches the beginning of cobra's errors for too few or too many arguments. These errors have no type of
// their own.
var argCountError = lazy.Regexp(`^(accepts|requires|unknown command)\b`)

// argsError replaces cobra's error for a wrong number of arguments. The new error names the missing arguments as the
// usage line does, or says that there are too many, and does not repeat the input. Other errors are returned unchanged.
func argsError(cmd *cobra.Command, args []string, err error) error {
	if !argCountError().MatchString(err.Error()) {
		return err
	}
	var names, required []string
	for _, name := range strings.Fields(cmd.Use)[1:] {
		if strings.HasPrefix(name, "-") {
			break // required flags come last
		}
		names = append(names, name)
		if !strings.HasPrefix(name, "[") {
			required = append(required, name)
		}
	}
	help := fmt.Sprintf("`%s --help` says what it takes", cmd.CommandPath())
	switch variadic := len(names) > 0 && strings.Contains(names[len(names)-1], "…"); {
	case len(args) < len(required):
		return fmt.Errorf("it needs %s: %s", strings.Join(required[len(args):], " and "), help)
	case len(args) <= len(names) || variadic:
		return err
	case len(names) == 0:
		return fmt.Errorf("it takes no words: %s", help)
	}
	return fmt.Errorf("it takes %s, and nothing more (quote a word that has spaces): %s", strings.Join(names, " and "),
		help)
}

// nearestFlag returns the name of the command's flag that is most
// similar to input. It returns "" if no name is similar enough.
func nearestFlag(cmd *cobra.Command, input string) string {
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	nearest, ok := spelling.Nearest(input, names, min(maxSuggestionDistance, maxTypos(input))) // names has at least help
	if !ok {
		return ""
	}
	return nearest
}

// maxSuggestionDistance is the maximum number of letters that may differ between a suggestion and the input.
const maxSuggestionDistance = 2

// lettersPerTypo is the number of letters of the input for each letter that may
// differ. Without this rule, a short word would be similar to any other short word.
const lettersPerTypo = 3

// maxTypos returns the maximum number of letters of the input that may differ.
func maxTypos(input string) int { return max(1, len(input)/lettersPerTypo) }

// valueDescription describes the values that a flag accepts.
func valueDescription(f *pflag.Flag) string {
	switch f.Value.Type() {
	case "duration":
		return "a time with its unit, such as 25s or 2m"
	case "bool":
		return "true or false"
	}
	return "a whole number"
}

// RequireCommand returns a UsageError for a group that is called without a command, or with args that
// begin with an unknown command. The error does not repeat the input, which may be a misplaced secret.
func RequireCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 || args[0] == "" {
		return Usage(fmt.Errorf("name one of its commands: `%s --help` lists them", cmd.CommandPath()))
	}
	hint := fmt.Sprintf("`%s --help` lists them", cmd.CommandPath())
	suggestion := ""
	cmd.SuggestionsMinimumDistance = maxSuggestionDistance // cobra applies its default only in its own error messages
	if all := cmd.SuggestionsFor(args[0]); len(all) > 0 {
		if nearest, ok := spelling.Nearest(args[0], all, maxTypos(args[0])); ok {
			suggestion = nearest
		}
		if completion := slices.IndexFunc(all, func(name string) bool {
			return strings.HasPrefix(name, args[0])
		}); completion >= 0 {
			suggestion = all[completion] // the beginning of a command's name is a better match than a similar name
		}
	}
	for _, c := range cmd.Commands() {
		if slices.Contains(c.SuggestFor, args[0]) { // a synonym, not a typing mistake
			suggestion = c.Name()
		}
	}
	if suggestion != "" {
		hint = spelling.DidYouMean(suggestion)
	}
	return Usage(fmt.Errorf("it has no such command: %s", hint))
}

// NoArgs returns an error for arguments of a command whose settings are
// only environment variables. The error does not repeat the arguments.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("it takes no words, its settings are variables: `%s --help` lists them", cmd.CommandPath())
	}
	return nil
}

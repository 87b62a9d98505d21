package commands

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gatewright/gatewright/client/output"
)

// completionTimeout is the maximum time that a shell waits for names of objects while the user types.
const completionTimeout = time.Second

// valueSource says which operation lists the values of an argument. member is the member of each entry that has the
// value.
type valueSource struct {
	operation, member string
	requires          []string // required arguments of the list operation
}

// valueSources has the arguments whose values the API can list.
var valueSources = map[string]valueSource{
	"accountName":    {"AccountService_list", "name", nil},
	"bucketName":     {"ApiKeyBucketsService_list", "name", nil},
	"consumerName":   {"ApiKeyConsumersService_list", "name", []string{"bucketName"}},
	"keyId":          {"ApiKeyKeysService_list", "id", []string{"bucketName", "consumerName"}},
	"projectName":    {"ProjectsService_list", "name", nil},
	"deploymentName": {"DeploymentsService_list", "name", []string{"projectName"}},
	"hostname":       {"CustomDomainsService_list", "hostname", nil},
	"variableName":   {"VariablesService_list", "name", []string{"projectName", "branchName"}},
	"tunnelId":       {"TunnelService_list", "id", nil},
	"accountKeyId":   {"AccountKeysService_list", "id", nil},
	"bucketId":       {"MeteringBucketsService_list", "id", nil},
	"planId":         {"MeteringPlansService_list", "id", []string{"bucketId"}},
	"subscriptionId": {"MeteringSubscriptionsService_list", "id", []string{"bucketId"}},
}

// completeNames returns a function that completes an argument with the values that the API lists on the first page. If
// the request fails, or takes longer than completionTimeout, the function returns no values. flagValue returns the
// values of other arguments on the command line.
func (a *App) completeNames(
	argument string, flagValue func(cmd *cobra.Command, argument string) string,
) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
		names, err := a.listNames(cmd, valueSources[argument], flagValue)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return slices.DeleteFunc(names, func(name string) bool {
			return !strings.HasPrefix(name, prefix)
		}), cobra.ShellCompDirectiveNoFileComp
	}
}

func (a *App) listNames(
	cmd *cobra.Command, source valueSource, flagValue func(*cobra.Command, string) string,
) ([]string, error) {
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	arguments := map[string]any{}
	for _, name := range source.requires {
		if arguments[name] = flagValue(cmd, name); arguments[name] == "" {
			return nil, fmt.Errorf("%s is not known", name)
		}
	}
	s := &session{app: a, out: output.NewPlain(io.Discard, false)}
	for flag, target := range map[string]*string{
		"profile": &s.target.overrides.Profile, "url": &s.target.overrides.URL,
		"account": &s.target.overrides.Account,
	} {
		if f := cmd.Flags().Lookup(flag); f != nil {
			*target = f.Value.String()
		}
	}
	resp, err := s.call(ctx, source.operation, arguments)
	if err != nil {
		return nil, err
	}
	var page struct{ Data []map[string]any }
	if err := json.Unmarshal(resp.Body, &page); err != nil {
		return nil, err
	}
	var names []string
	for _, entry := range page.Data {
		if name, ok := entry[source.member].(string); ok && isSafeCompletion(name) {
			names = append(names, name)
		}
	}
	return names, nil
}

// isSafeCompletion reports whether a name is safe as a completion: it has only printable characters, the shell does not
// show it as a message, and commands do not parse it as a flag, such as --yes.
func isSafeCompletion(name string) bool {
	const messagePrefix = "_activeHelp_" // the prefix in cobra's scripts
	return name == output.Printable(name) && !strings.HasPrefix(name, "-") && !strings.HasPrefix(name, messagePrefix)
}

// argumentFlagValue returns the value of the flag for an argument, such as --project-name or --project for projectName.
// It returns "" if there is no such flag.
func argumentFlagValue(cmd *cobra.Command, argument string) string {
	for _, name := range []string{flagName(argument), strings.TrimSuffix(flagName(argument), "-name")} {
		if f := cmd.Flags().Lookup(name); f != nil {
			return f.Value.String()
		}
	}
	return ""
}

// shells has the writers of completion scripts, by the names of the shells.
var shells = map[string]func(*cobra.Command, io.Writer) error{
	"bash":       func(root *cobra.Command, w io.Writer) error { return root.GenBashCompletionV2(w, true) },
	"zsh":        func(root *cobra.Command, w io.Writer) error { return root.GenZshCompletion(w) },
	"fish":       func(root *cobra.Command, w io.Writer) error { return root.GenFishCompletion(w, true) },
	"powershell": func(root *cobra.Command, w io.Writer) error { return root.GenPowerShellCompletionWithDesc(w) },
}

func (a *App) completionCommand() *cobra.Command {
	names := slices.Sorted(maps.Keys(shells))
	return &cobra.Command{
		Use: "completion SHELL", Short: "Write what completes commands and names in a shell: " + strings.Join(names, ", "),
		GroupID: groupProfiles,
		Long: "Write what completes commands and names in a shell: " + strings.Join(names, ", ") + ".\n\n" +
			"Names are the installation's, asked for as you type, within a second or not at all.",
		Example: "  source <(gatewright completion bash)\n  gatewright completion fish > " +
			"~/.config/fish/completions/gatewright.fish",
		ValidArgs: names, Args: cobra.MatchAll(cobra.ExactArgs(1), func(_ *cobra.Command, args []string) error {
			if shells[args[0]] == nil {
				return fmt.Errorf("the shell is one of %s", strings.Join(names, ", "))
			}
			return nil
		}),
		RunE: func(cmd *cobra.Command, args []string) error { return shells[args[0]](cmd.Root(), a.Out) },
	}
}

// Reference returns the help of every command that is not hidden, in Markdown. It does not include the commands of
// single operations, which `gatewright api` lists.
func Reference(root *cobra.Command) string {
	var b strings.Builder
	b.WriteString("# Commands of the client\n\nThe help of each command of `gatewright`, as `make goldens " +
		"PKG=./cmd/gatewright` writes it. " +
		"[The command line](../command-line.md) says how they go together; those of a server are [its " +
		"own](../one-server.md).\n")
	for _, c := range allCommands(root) {
		text := c.Long
		if text == "" {
			text = c.Short + "."
		}
		fmt.Fprintf(&b, "\n## %s\n\n```text\n%s\n\n%s```\n", c.CommandPath(), strings.TrimSpace(text), c.UsageString())
	}
	return b.String()
}

// allCommands returns c and all commands below it, in the order of the help. It omits the command help, hidden
// commands, commands that do not parse flags, and the commands of single operations.
func allCommands(c *cobra.Command) (all []*cobra.Command) {
	if c.Hidden || c.DisableFlagParsing || c.Name() == "help" {
		return nil
	}
	all = append(all, c)
	if c.Name() == apiCommandName {
		return all
	}
	for _, sub := range c.Commands() {
		all = append(all, allCommands(sub)...)
	}
	return all
}

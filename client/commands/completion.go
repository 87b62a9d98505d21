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

// completionTime is how long a shell waits for names at most: a person goes on typing.
const completionTime = time.Second

// listed says where the values of an argument are listed.
type listed struct {
	operation, member string
	needs             []string // arguments of the list
}

// lists are the arguments whose values the API can name.
var lists = map[string]listed{
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

// completed completes the values of an argument by names that the API lists, none where it does not answer within a second. typed is
// what the command line says of other arguments.
func (a *App) completed(argument string, typed func(cmd *cobra.Command, argument string) string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		names, err := a.listNames(cmd, lists[argument], typed)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, begun) }), cobra.ShellCompDirectiveNoFileComp
	}
}

func (a *App) listNames(cmd *cobra.Command, of listed, typed func(*cobra.Command, string) string) ([]string, error) {
	ctx, stop := context.WithTimeout(cmd.Context(), completionTime)
	defer stop()
	arguments := map[string]any{}
	for _, name := range of.needs {
		if arguments[name] = typed(cmd, name); arguments[name] == "" {
			return nil, fmt.Errorf("%s is not known", name)
		}
	}
	s := &session{app: a, out: output.Plain(io.Discard, false)}
	for flag, into := range map[string]*string{"profile": &s.reach.typed.Profile, "url": &s.reach.typed.URL, "account": &s.reach.typed.Account} {
		if f := cmd.Flags().Lookup(flag); f != nil {
			*into = f.Value.String()
		}
	}
	answer, err := s.named(ctx, of.operation, arguments)
	if err != nil {
		return nil, err
	}
	var page struct{ Data []map[string]any }
	if err := json.Unmarshal(answer.Body, &page); err != nil {
		return nil, err
	}
	var names []string
	for _, entry := range page.Data {
		if name, isText := entry[of.member].(string); isText && completes(name) {
			names = append(names, name)
		}
	}
	return names, nil
}

// completes reports whether a shell may be given a name: not one that it would show as a message, nor one that a command takes for a flag, such as --yes.
func completes(name string) bool {
	const message = "_activeHelp_" // as the scripts of cobra begin one
	return name == output.Printable(name) && !strings.HasPrefix(name, "-") && !strings.HasPrefix(name, message)
}

// byFlag is what a flag says of an argument.
func byFlag(cmd *cobra.Command, argument string) string {
	for _, name := range []string{flagName(argument), strings.TrimSuffix(flagName(argument), "-name")} {
		if f := cmd.Flags().Lookup(name); f != nil {
			return f.Value.String()
		}
	}
	return ""
}

// shells are those that commands and names are completed for.
var shells = map[string]func(*cobra.Command, io.Writer) error{
	"bash":       func(root *cobra.Command, w io.Writer) error { return root.GenBashCompletionV2(w, true) },
	"zsh":        func(root *cobra.Command, w io.Writer) error { return root.GenZshCompletion(w) },
	"fish":       func(root *cobra.Command, w io.Writer) error { return root.GenFishCompletion(w, true) },
	"powershell": func(root *cobra.Command, w io.Writer) error { return root.GenPowerShellCompletionWithDesc(w) },
}

func (a *App) completionCommand() *cobra.Command {
	names := slices.Sorted(maps.Keys(shells))
	return &cobra.Command{
		Use: "completion SHELL", Short: "Write what completes commands and names in a shell: " + strings.Join(names, ", "), GroupID: groupProfiles,
		Long: "Write what completes commands and names in a shell: " + strings.Join(names, ", ") + ".\n\n" +
			"Names are the installation's, asked for as you type, within a second or not at all.",
		Example:   "  source <(gatewright completion bash)\n  gatewright completion fish > ~/.config/fish/completions/gatewright.fish",
		ValidArgs: names, Args: cobra.MatchAll(cobra.ExactArgs(1), func(_ *cobra.Command, args []string) error {
			if shells[args[0]] == nil {
				return fmt.Errorf("the shell is one of %s", strings.Join(names, ", "))
			}
			return nil
		}),
		RunE: func(cmd *cobra.Command, args []string) error { return shells[args[0]](cmd.Root(), a.Out) },
	}
}

// Reference is the help of every command that is not hidden, in Markdown, but for those of operations: `gatewright api` lists these.
func Reference(root *cobra.Command) string {
	var b strings.Builder
	b.WriteString("# Commands of the client\n\nThe help of each command of `gatewright`, as `make goldens PKG=./cmd/gatewright` writes it. " +
		"[The command line](../command-line.md) says how they go together; those of a server are [its own](../one-server.md).\n")
	for _, c := range everyCommand(root) {
		text := c.Long
		if text == "" {
			text = c.Short + "."
		}
		fmt.Fprintf(&b, "\n## %s\n\n```text\n%s\n\n%s```\n", c.CommandPath(), strings.TrimSpace(text), c.UsageString())
	}
	return b.String()
}

// everyCommand is each command that has a help of its own, in the order of the help.
func everyCommand(c *cobra.Command) (all []*cobra.Command) {
	if c.Hidden || c.DisableFlagParsing || c.Name() == "help" {
		return nil
	}
	all = append(all, c)
	if c.Name() == apiName {
		return all
	}
	for _, sub := range c.Commands() {
		all = append(all, everyCommand(sub)...)
	}
	return all
}

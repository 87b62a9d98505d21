package commands

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gatewright/gatewright/client/call"
	"github.com/gatewright/gatewright/client/output"
	"github.com/gatewright/gatewright/shared/management/apitools"
	"github.com/gatewright/gatewright/shared/runtime/commandline"
)

// apiCommandName is the command that has a subcommand for each operation.
const apiCommandName = "api"

// accountArgument is never required: package call adds the selected account.
const accountArgument = call.AccountArgument

// apiCommand returns the command that lists the operations of the API. If includeOperations is true, the command has a
// subcommand for each operation.
func (a *App) apiCommand(includeOperations bool) *cobra.Command {
	c := a.localCommand(&cobra.Command{
		Use:     apiCommandName + " [OPERATION]",
		Short:   "Call any operation of the management API",
		GroupID: groupAPI,
		Long: "Call any operation of the management API. Without a word it lists them.\n\n" +
			"The flags of an operation are its parameters and the members of its body, as docs/api.md has them; --body FILE is\n" +
			"the whole body. A change has an Idempotency-Key of its own where none is named, so that it is made once " +
			"however often\n" +
			"it has to be sent.",
		Example: "  gatewright api --jq '.[].name'\n  gatewright api ApiKeyBucketsService_list --jq '.data[].name'",
		Args:    cobra.ArbitraryArgs,
	}, func(ctx context.Context, s *session, _ []string) error {
		return listOperations(ctx, s.out)
	})
	list := c.RunE
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return commandline.RequireCommand(cmd, args)
		}
		return list(cmd, args)
	}
	if !includeOperations {
		return c
	}
	tools, err := apitools.Load()
	if err != nil {
		c.RunE = func(*cobra.Command, []string) error { return err }
		return c
	}
	for i := range tools {
		t := &tools[i]
		if !c.ContainsGroup(t.Group) {
			c.AddGroup(&cobra.Group{ID: t.Group, Title: t.Group + ":"})
		}
		c.AddCommand(a.operationCommand(t))
	}
	return c
}

// listOperations writes a document that lists all operations.
func listOperations(ctx context.Context, out *output.Output) error {
	type operation struct {
		Name   string `json:"name"`
		Method string `json:"method"`
		Path   string `json:"path"`
		Scope  string `json:"scope"`
		Title  string `json:"title"`
	}
	tools, err := apitools.Load()
	if err != nil {
		return err
	}
	all := make([]operation, 0, len(tools))
	for _, t := range tools {
		all = append(all, operation{t.Name, t.Method, t.Path, t.Scope, t.Title})
	}
	document, err := json.Marshal(all)
	if err != nil {
		return fmt.Errorf("write the list of operations: %w", err)
	}
	return out.Document(ctx, document, func() (output.Grid, error) {
		g := output.Grid{Columns: []string{"NAME", "SCOPE", "TITLE"}}
		for _, o := range all {
			g.Rows = append(g.Rows, []string{o.Name, o.Scope, o.Title})
		}
		return g, nil
	})
}

// operationCommand returns the command that calls one operation.
func (a *App) operationCommand(t *apitools.Tool) *cobra.Command {
	arguments, err := operationArguments(t)
	c := &cobra.Command{Use: t.Name, Short: t.Title, GroupID: t.Group, Args: cobra.NoArgs}
	hasPages := t.Method == http.MethodGet && slices.ContainsFunc(arguments, func(arg argument) bool {
		return arg.name == "offset"
	})
	var allPages bool
	c = a.remoteCommand(c, func(ctx context.Context, s *session, _ []string) error {
		if err != nil {
			return err
		}
		values, err := argumentsFromFlags(c, t, arguments, a.stdin(ctx))
		if err != nil {
			return err
		}
		api, err := s.api()
		if err != nil {
			return err
		}
		body := []byte(nil)
		if allPages {
			body, err = api.ListAll(ctx, t, values)
		} else {
			var resp *call.Response
			if resp, err = api.Do(ctx, t, values); err == nil {
				body = resp.Body
			}
		}
		if err != nil {
			return err
		}
		if len(bytes.TrimSpace(body)) == 0 {
			s.out.Infof("done")
			return nil
		}
		return s.out.Document(ctx, body, nil)
	})
	c.Long, c.Example = operationHelp(t), operationExample(t, arguments)
	c.Flags().SortFlags = false
	for _, arg := range arguments {
		arg.register(c.Flags())
	}
	if t.TakesBody {
		c.Flags().String(bodyFlag, "", "a `FILE` with the body in JSON, - for stdin; flags go before what it has")
	}
	if hasPages {
		c.Flags().BoolVar(&allPages, "all", false, "ask for page after page, and write one list of all")
	}
	for _, arg := range arguments {
		if valueSources[arg.name].operation != "" {
			_ = c.RegisterFlagCompletionFunc(arg.flag, a.completeNames(arg.name, argumentFlagValue))
		}
		if values := arg.enum(); len(values) > 0 {
			_ = c.RegisterFlagCompletionFunc(arg.flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
		}
	}
	return c
}

// operationHelp returns the help text of an operation.
func operationHelp(t *apitools.Tool) string {
	help := t.Description + "\n\n" + t.Method + " " + t.Path
	switch {
	case t.Public:
		help += "\nNo key is needed."
	case t.Scope != "":
		help += "\nThe key needs the scope " + t.Scope + "."
	}
	return help
}

// operationExample returns a command line with the required arguments of an operation, except the account. The line has
// --body if the body is required and no other flag is.
func operationExample(t *apitools.Tool, arguments []argument) string {
	line := "  gatewright api " + t.Name
	for _, arg := range arguments {
		if !arg.required || arg.name == accountArgument {
			continue
		}
		value := strings.ToUpper(strings.NewReplacer("-file", "", "-", "_").Replace(arg.flag))
		if enum := arg.enum(); len(enum) > 0 {
			value = enum[0]
		}
		if arg.isFile {
			value = "-"
		}
		line += " --" + arg.flag + " " + value
	}
	if t.BodyRequired && !strings.Contains(line, " --") {
		line += " --" + bodyFlag + " FILE"
	}
	return line
}

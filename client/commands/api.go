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
	"github.com/gatewright/gatewright/local/commandline"
	"github.com/gatewright/gatewright/shared/apitools"
)

// apiName is the command that has every operation.
const apiName = "api"

const accountArgument = call.AccountArgument

// apiCommand lists the operations of the API, and below it is each of them.
func (a *App) apiCommand(operations bool) *cobra.Command {
	c := a.local(&cobra.Command{
		Use:     apiName + " [OPERATION]",
		Short:   "Call any operation of the management API",
		GroupID: groupAPI,
		Long: "Call any operation of the management API. Without a word it lists them.\n\n" +
			"The flags of an operation are its parameters and the members of its body, as docs/api.md has them; --body FILE is\n" +
			"the whole body. A change has an Idempotency-Key of its own where none is named, so that it is made once however often\n" +
			"it has to be sent.",
		Example: "  gatewright api --jq '.[].name'\n  gatewright api ApiKeyBucketsService_list --jq '.data[].name'",
		Args:    cobra.ArbitraryArgs,
	}, func(ctx context.Context, s *session, args []string) error {
		if len(args) > 0 {
			return nil // below
		}
		return listOperations(ctx, s.out)
	})
	list := c.RunE
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return commandline.NeedsCommand(cmd, args)
		}
		return list(cmd, args)
	}
	if !operations {
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

// listOperations is the document with all operations.
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

// operationCommand is one operation.
func (a *App) operationCommand(t *apitools.Tool) *cobra.Command {
	all, err := arguments(t)
	c := &cobra.Command{Use: t.Name, Short: t.Title, GroupID: t.Group, Args: cobra.NoArgs}
	pages := t.Method == http.MethodGet && slices.ContainsFunc(all, func(g argument) bool { return g.name == "offset" })
	var every bool
	c = a.asking(c, func(ctx context.Context, s *session, _ []string) error {
		if err != nil {
			return err
		}
		values, err := typedArguments(c, t, all, a.stdin(ctx))
		if err != nil {
			return err
		}
		api, err := s.api()
		if err != nil {
			return err
		}
		body := []byte(nil)
		if every {
			body, err = api.Pages(ctx, t, values)
		} else {
			var answer *call.Answer
			if answer, err = api.Do(ctx, t, values); err == nil {
				body = answer.Body
			}
		}
		if err != nil {
			return err
		}
		if len(bytes.TrimSpace(body)) == 0 {
			s.out.Say("done")
			return nil
		}
		return s.out.Document(ctx, body, nil)
	})
	c.Long, c.Example = described(t), example(t, all)
	c.Flags().SortFlags = false
	for _, g := range all {
		g.register(c.Flags())
	}
	if t.TakesBody {
		c.Flags().String(bodyFlag, "", "a `FILE` with the body in JSON, - for stdin; flags go before what it has")
	}
	if pages {
		c.Flags().BoolVar(&every, "all", false, "ask for page after page, and write one list of all")
	}
	for _, g := range all {
		if lists[g.name].operation != "" {
			_ = c.RegisterFlagCompletionFunc(g.flag, a.completed(g.name, byFlag))
		}
		if values := g.enum(); len(values) > 0 {
			_ = c.RegisterFlagCompletionFunc(g.flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
		}
	}
	return c
}

// described is the help of an operation.
func described(t *apitools.Tool) string {
	text := t.Description + "\n\n" + t.Method + " " + t.Path
	switch {
	case t.Public:
		text += "\nNo key is needed."
	case t.Scope != "":
		text += "\nThe key needs the scope " + t.Scope + "."
	}
	return text
}

// example is a line with what an operation needs.
func example(t *apitools.Tool, all []argument) string {
	line := "  gatewright api " + t.Name
	for _, g := range all {
		if !g.required || g.name == accountArgument {
			continue
		}
		value := strings.ToUpper(strings.NewReplacer("-file", "", "-", "_").Replace(g.flag))
		if enum := g.enum(); len(enum) > 0 {
			value = enum[0]
		}
		if g.file {
			value = "-"
		}
		line += " --" + g.flag + " " + value
	}
	if t.BodyNeeded && !strings.Contains(line, " --") {
		line += " --" + bodyFlag + " FILE"
	}
	return line
}

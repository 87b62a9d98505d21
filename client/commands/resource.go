package commands

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gatewright/gatewright/client/call"
	"github.com/gatewright/gatewright/client/exit"
	"github.com/gatewright/gatewright/client/output"
	"github.com/gatewright/gatewright/shared/base/lazy"
	"github.com/gatewright/gatewright/shared/management/apitools"
	"github.com/gatewright/gatewright/shared/runtime/commandline"
)

// resource is a kind of resource on the command line. Its subcommands list, read, create, change and delete objects.
type resource struct {
	name, short string
	// suggestFor are other names of the resource, in the documentation and in the API. They are not commands: if a user
	// enters one, the error suggests this resource.
	suggestFor []string
	verbs      []verb
	// customCommands returns the resource's other commands, which are not a call of a single operation.
	customCommands func(a *App) []*cobra.Command
	// children are the resources within this resource.
	children []resource
}

// verb is a command that calls one operation.
type verb struct {
	name, short, long string
	// operation is called with the arguments in params.
	operation string
	params    []parameter
	// hasBodyFlag adds the flag --body, for members of the request body that have no flag.
	hasBodyFlag bool
	// columns are the columns of the table for a list operation, nil for other operations. The command reads all pages
	// of the list. empty is the message for an empty list.
	columns columns
	empty   string
	// table returns a function that returns the table for a response. If table is nil, writeDocument chooses the table:
	// the columns of a list, the table of a new key, or a table of all members.
	table func(document []byte) func() (output.Grid, error)
	// secretMember is the response's member with a new secret, "" for none. The secret is shown once, or written to the
	// file of --out.
	secretMember string
	// lostHint says what to do if a new secret could not be written. {id} and {tunnelId} are replaced with values of
	// the response. The name of an argument in braces, such as {bucketName}, is replaced with the argument's value.
	lostHint string
	// showsSecrets adds the flag --reveal. Without --reveal, secrets in the response are masked.
	showsSecrets bool
	// deletes describes what is deleted, nil for a command that deletes nothing.
	deletes *deletion
	// statusOperation is the operation that returns the progress of the started operation, "" if the response is
	// already the result.
	statusOperation string
	// hint is a message on stderr after success.
	hint string
}

// outFlag is the flag that names the file for a new secret. revealFlag shows secrets in a response. yesFlag skips the
// confirmation.
const (
	outFlag    = "out"
	revealFlag = "reveal"
	yesFlag    = "yes"
)

// keyFormatArgument is the argument that says whether a response shows keys in full.
const keyFormatArgument = "key-format"

// resourceCommand returns the command of a resource with its verbs. path is the path of the parent command.
func (a *App) resourceCommand(path string, r resource) *cobra.Command {
	path += " " + r.name
	group := &cobra.Command{Use: r.name, Short: r.short, SuggestFor: r.suggestFor}
	commandline.MakeGroup(group)
	for _, v := range r.verbs {
		group.AddCommand(a.verbCommand(path, v))
	}
	if r.customCommands != nil {
		group.AddCommand(r.customCommands(a)...)
	}
	for _, child := range r.children {
		group.AddCommand(a.resourceCommand(path, child))
	}
	return group
}

// newCommand returns the command of a verb with its arguments and help, but without its flags (addFlags) and its
// action.
func (v verb) newCommand(path string) *cobra.Command {
	use, example, positionals := v.name, "  "+path+" "+v.name, 0
	for _, p := range v.params {
		switch {
		case p.placeholder != "":
			use, example, positionals = use+" "+p.placeholder, example+" "+p.example, positionals+1
		case p.required:
			example += " --" + p.flag + " " + p.example
			use += " --" + p.flag + " " + strings.ToUpper(strings.ReplaceAll(strings.TrimSuffix(p.flag, "-file"), "-", "_"))
		}
	}
	if v.deletes != nil {
		example += " --" + yesFlag
	}
	if p, ok := v.exampleFlag(); ok {
		example += " --" + p.flag + " " + p.example
	}
	c := &cobra.Command{
		Use: use, Short: v.short, Example: example, Args: cobra.ExactArgs(positionals),
		SuggestFor: verbSynonyms(v.name),
	}
	if v.long != "" {
		c.Long = v.short + ".\n\n" + v.long
	}
	return c
}

// verbSynonyms returns the names that other command lines use for a verb.
func verbSynonyms(verb string) []string {
	switch verb {
	case "list":
		return []string{"ls"}
	case "get":
		return []string{"read", "show", "describe", "view"}
	case "create":
		return []string{"add", "new", "make"}
	case updateVerb:
		return []string{"edit", "patch", "change"}
	case "set":
		return []string{"create", "add", "update"}
	case "delete":
		return []string{"rm", "remove", "revoke", "destroy"}
	}
	return nil
}

// addFlags adds the flags of a verb to its command, except --reveal. It also adds the completions of the flags and of
// the first positional argument.
func (a *App) addFlags(v verb, c *cobra.Command) {
	for _, p := range v.params {
		_, hasNames := valueSources[p.argument]
		var complete cobra.CompletionFunc
		switch {
		case p.placeholder != "":
			if hasNames && v.name != "create" {
				c.ValidArgsFunction = a.completeFirst(p.argument, v.flagValue)
			}
			continue
		case len(p.choices) > 0:
			complete = cobra.FixedCompletions(p.choices, cobra.ShellCompDirectiveNoFileComp)
		case hasNames:
			complete = a.completeNames(p.argument, v.flagValue)
		}
		p.register(c.Flags())
		if complete != nil {
			_ = c.RegisterFlagCompletionFunc(p.flag, complete)
		}
	}
	if v.hasBodyFlag {
		c.Flags().String(bodyFlag, "", "a `FILE` with the body in JSON, - for stdin; flags go before what it has")
	}
	switch {
	case v.secretMember != "":
		c.Flags().String(outFlag, "", "write the secret into a new `FILE` that its owner alone may read, and mask "+
			"it on stdout")
	case v.deletes != nil:
		c.Flags().Bool(yesFlag, false, "delete it without being asked")
	}
}

// completeFirst returns a function that completes the first positional argument of a command, and no other.
func (a *App) completeFirst(argument string, flagValue func(*cobra.Command, string) string) cobra.CompletionFunc {
	complete := a.completeNames(argument, flagValue)
	return func(c *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return complete(c, args, prefix)
	}
}

// flagValue returns the value of the flag that sets an argument of the operation, or "" if there is no such flag.
func (v verb) flagValue(c *cobra.Command, argument string) string {
	for _, p := range v.params {
		if f := c.Flags().Lookup(p.flag); p.argument == argument && f != nil {
			return f.Value.String()
		}
	}
	return ""
}

func (a *App) verbCommand(path string, v verb) *cobra.Command {
	c := v.newCommand(path)
	a.remoteCommand(c, func(ctx context.Context, s *session, args []string) (err error) {
		defer func() { err = v.explainNotFound(c, args, err) }()
		reader := &flagReader{in: a.stdin(ctx)}
		arguments, err := v.arguments(c, args, reader, a.now)
		if err != nil {
			return err
		}
		if v.deletes != nil {
			yes, _ := c.Flags().GetBool(yesFlag)
			return s.remove(ctx, v, arguments, args, yes)
		}
		if v.secretMember != "" {
			out, _ := c.Flags().GetString(outFlag)
			return s.createSecret(ctx, v, arguments, out)
		}
		reveal := false
		if f := c.Flags().Lookup(revealFlag); f != nil {
			reveal = f.Changed && f.Value.String() == "true"
		}
		return s.run(ctx, v, arguments, reveal)
	})
	a.addFlags(v, c)
	if v.showsSecrets {
		c.Flags().Bool(revealFlag, false, "show secrets, which are masked without it")
	}
	return c
}

// idPattern matches the IDs that commands take as positional arguments.
var idPattern = lazy.Regexp(`^[a-z]+_[0-9A-Za-z]{24}$`)

// explainNotFound adds a hint to a not-found error if the command line seems to have a name instead of an ID.
func (v verb) explainNotFound(c *cobra.Command, args []string, err error) error {
	group := c.Parent()
	for group != nil && !slices.ContainsFunc(group.Commands(), func(sub *cobra.Command) bool {
		return sub.Name() == "list"
	}) {
		group = group.Parent() // a command without `list` belongs to a group with `list` above it
	}
	if exit.CodeOf(err) != exit.NotFound || group == nil {
		return err
	}
	i := 0
	for _, p := range v.params {
		if p.placeholder == "" {
			continue
		}
		if strings.HasSuffix(p.placeholder, "ID") && !idPattern().MatchString(args[i]) {
			return fmt.Errorf("%w\n%s is an id, which `%s list` tells, and no name", err, p.placeholder, group.CommandPath())
		}
		i++
	}
	return err
}

// arguments returns the arguments of the operation, from positional arguments, flags and --body.
func (v verb) arguments(
	c *cobra.Command, args []string, reader *flagReader, now func() time.Time,
) (map[string]any, error) {
	params, body := v.params, map[string]json.RawMessage{}
	if f := c.Flags().Lookup(bodyFlag); f != nil && f.Changed {
		text, err := reader.readFile(bodyFlag, f.Value.String())
		if err != nil {
			return nil, err
		}
		t, err := call.Operation(v.operation)
		if err != nil {
			return nil, err
		}
		if err := addBody(t, body, text); err != nil {
			return nil, exit.WithCode(exit.Usage, err)
		}
		params = nil
		for _, p := range v.params {
			if body[p.argument] != nil {
				p.required, p.defaultValue = false, ""
			}
			params = append(params, p)
		}
	}
	arguments, err := parameterValues(params, c.Flags(), args, reader, now)
	if err != nil {
		return nil, fmt.Errorf("%w: `%s --help` says what it takes", err, c.CommandPath())
	}
	for name, value := range body {
		if _, exists := arguments[name]; !exists {
			arguments[name] = value
		}
	}
	if err := v.requireChange(arguments); err != nil {
		return nil, fmt.Errorf("%w: `%s --help` says what it takes", err, c.CommandPath())
	}
	return arguments, nil
}

// run calls the operation and writes the response.
func (s *session) run(ctx context.Context, v verb, arguments map[string]any, reveal bool) error {
	api, err := s.api()
	if err != nil {
		return err
	}
	t, err := call.Operation(v.operation)
	if err != nil {
		return err
	}
	if reveal && takesArgument(t, keyFormatArgument) {
		arguments[keyFormatArgument] = "visible"
	}
	var document []byte
	if v.columns != nil {
		document, err = api.List(ctx, v.operation, arguments)
	} else {
		document, err = s.callAndWait(ctx, api, v, arguments)
	}
	if err != nil {
		return err
	}
	if !reveal {
		document, _ = t.Mask(document)
	}
	if err := s.writeDocument(ctx, v, document); err != nil {
		return err
	}
	if v.hint != "" {
		s.out.Infof("%s", v.hint)
	}
	return nil
}

// callAndWait returns the response of the operation. If the operation continues in the background, callAndWait waits
// until it ends, and returns its last status.
func (s *session) callAndWait(ctx context.Context, api *call.API, v verb, arguments map[string]any) ([]byte, error) {
	resp, err := api.Call(ctx, v.operation, arguments)
	if err != nil {
		return nil, err
	}
	if v.statusOperation == "" {
		return resp.Body, nil
	}
	return waitForOperation(ctx, api, v.statusOperation, arguments, resp.Body)
}

// waitForOperation waits until a background operation ends, and returns its last status. status is its first status.
// For each further status, waitForOperation adds the operation's ID to arguments and calls statusOperation with them.
// It returns an error with the reason if the background operation fails.
func waitForOperation(
	ctx context.Context, api *call.API, statusOperation string, arguments map[string]any, status []byte,
) ([]byte, error) {
	t, err := call.Operation(statusOperation)
	if err != nil {
		return nil, err
	}
	for {
		id, done, err := call.OperationStatus(status)
		if err != nil {
			return nil, err
		}
		if done {
			return status, nil
		}
		if err := api.Sleep(ctx, pollInterval); err != nil {
			return nil, fmt.Errorf("wait for the operation %s, which goes on: %w", id, err)
		}
		arguments["operationId"] = id
		resp, err := api.Call(ctx, statusOperation, knownArguments(t, arguments))
		if err != nil {
			return nil, err
		}
		status = resp.Body
	}
}

// writeDocument writes a response. If the response is empty, it writes the message "done".
func (s *session) writeDocument(ctx context.Context, v verb, document []byte) error {
	switch {
	case len(bytes.TrimSpace(document)) == 0:
		s.out.Infof("done")
		return nil
	case v.table != nil:
		return s.out.Document(ctx, document, v.table(document))
	case v.columns != nil:
		return s.out.Document(ctx, document, v.columns.dataTable(document, v.empty))
	case v.secretMember == keyMember:
		return s.out.Document(ctx, document, keyTable(document))
	}
	return s.out.Document(ctx, document, nil)
}

func takesArgument(t *apitools.Tool, name string) bool {
	for _, arg := range t.Arguments {
		if arg.Name == name {
			return true
		}
	}
	return false
}

// knownArguments returns only those arguments that the operation t takes.
func knownArguments(t *apitools.Tool, arguments map[string]any) map[string]any {
	known := maps.Clone(arguments)
	maps.DeleteFunc(known, func(name string, _ any) bool { return !takesArgument(t, name) })
	return known
}

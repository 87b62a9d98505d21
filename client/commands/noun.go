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
	"github.com/gatewright/gatewright/local/commandline"
	"github.com/gatewright/gatewright/shared/apitools"
	"github.com/gatewright/gatewright/shared/lazy"
)

// noun is a word of the command line below which a kind of objects is listed, read, made, changed and deleted.
type noun struct {
	name, short string
	// also are what the documentation and the API call it, which is suggested for.
	also  []string
	verbs []verb
	// own are commands that do more than ask an operation.
	own func(a *App) []*cobra.Command
	// below are nouns of its own.
	below []noun
}

// verb is a command that asks one operation.
type verb struct {
	name, short, long string
	// operation is asked with what takes says.
	operation string
	takes     []given
	// body adds --body, with members of the body that no flag has.
	body bool
	// shown are the columns of a list, which is asked for page by page; nil for what is no list. empty is what is said of none.
	shown columns
	empty string
	// table makes the table of the answer, nil for one of all of its members.
	table func(document []byte) func() (output.Grid, error)
	// made is the member of the answer that is a new secret: it is shown, this once, or written into --out's file.
	made string
	// lost says what to do about a secret that was made and could not be written: {id} and {tunnelId} are of the answer, {bucketName} is the argument of that name.
	lost string
	// secret adds --reveal: what is read has secrets, which are masked without it.
	secret bool
	// removes says what goes, nil for a command that removes nothing.
	removes *removal
	// awaits is the operation that tells how the one goes which the answer names, "" for what is done with the answer.
	awaits string
	// then is said on stderr at the end.
	then string
}

// removal is what a delete removes.
type removal struct {
	// what it is called, as in "the bucket".
	what string
	// below is what goes with it.
	below []counted
}

// counted are objects that go with another.
type counted struct {
	// operation lists them, of arguments that the delete has too, "" where no list has them all; member is the list in its answer, "" where it has a total.
	operation, member string
	one, more         string
	// each gives what argument has in each of several lists, nil for the one of the delete's arguments. Of such a list
	// that is not seen nobody knows whether it has anything.
	argument string
	each     func(arguments map[string]any) []string
}

// outFlag names the file that a new secret is written into, and revealFlag shows secrets of what is read.
const (
	outFlag    = "out"
	revealFlag = "reveal"
	yesFlag    = "yes"
)

// keyFormat is the argument that says how the keys of an answer are shown.
const keyFormat = "key-format"

// nounCommand is a noun with its verbs, below a command's path.
func (a *App) nounCommand(path string, n noun) *cobra.Command {
	path += " " + n.name
	group := &cobra.Command{Use: n.name, Short: n.short, SuggestFor: n.also}
	commandline.Group(group)
	for _, v := range n.verbs {
		group.AddCommand(a.verbCommand(path, v))
	}
	if n.own != nil {
		group.AddCommand(n.own(a)...)
	}
	for _, below := range n.below {
		group.AddCommand(a.nounCommand(path, below))
	}
	return group
}

// shape is the command of a verb, without what it does: its words, its help and its flags.
func (v verb) shape(path string) *cobra.Command {
	use, example, words := v.name, "  "+path+" "+v.name, 0
	for _, g := range v.takes {
		switch {
		case g.word != "":
			use, example, words = use+" "+g.word, example+" "+g.sample, words+1
		case g.required:
			example += " --" + g.flag + " " + g.sample
			use += " --" + g.flag + " " + strings.ToUpper(strings.ReplaceAll(strings.TrimSuffix(g.flag, "-file"), "-", "_"))
		}
	}
	if v.removes != nil {
		example += " --" + yesFlag
	}
	if g, has := v.optional(); has {
		example += " --" + g.flag + " " + g.sample
	}
	c := &cobra.Command{Use: use, Short: v.short, Example: example, Args: cobra.ExactArgs(words), SuggestFor: otherWords(v.name)}
	if v.long != "" {
		c.Long = v.short + ".\n\n" + v.long
	}
	return c
}

// otherWords are what other command lines call a verb of this one.
func otherWords(verb string) []string {
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

// flags adds what a verb takes to its command, and how a shell completes it.
func (a *App) flags(v verb, c *cobra.Command) {
	for _, g := range v.takes {
		_, names := lists[g.argument]
		var complete cobra.CompletionFunc
		switch {
		case g.word != "":
			if names && v.name != "create" {
				c.ValidArgsFunction = a.completedOnce(g.argument, v.typed)
			}
			continue
		case len(g.choices) > 0:
			complete = cobra.FixedCompletions(g.choices, cobra.ShellCompDirectiveNoFileComp)
		case names:
			complete = a.completed(g.argument, v.typed)
		}
		g.register(c.Flags())
		if complete != nil {
			_ = c.RegisterFlagCompletionFunc(g.flag, complete)
		}
	}
	if v.body {
		c.Flags().String(bodyFlag, "", "a `FILE` with the body in JSON, - for stdin; flags go before what it has")
	}
	switch {
	case v.made != "":
		c.Flags().String(outFlag, "", "write the secret into a new `FILE` that its owner alone may read, and mask it on stdout")
	case v.removes != nil:
		c.Flags().Bool(yesFlag, false, "delete it without being asked")
	}
}

// completedOnce completes a command's one word.
func (a *App) completedOnce(argument string, typed func(*cobra.Command, string) string) cobra.CompletionFunc {
	complete := a.completed(argument, typed)
	return func(c *cobra.Command, words []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(words) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return complete(c, words, begun)
	}
}

// typed is what a command line says of an argument by a flag, "" for nothing.
func (v verb) typed(c *cobra.Command, argument string) string {
	for _, g := range v.takes {
		if f := c.Flags().Lookup(g.flag); g.argument == argument && f != nil {
			return f.Value.String()
		}
	}
	return ""
}

func (a *App) verbCommand(path string, v verb) *cobra.Command {
	c := v.shape(path)
	a.asking(c, func(ctx context.Context, s *session, words []string) (err error) {
		defer func() { err = v.explained(c, words, err) }()
		stdin := &onceRead{in: a.stdin(ctx)}
		arguments, err := v.arguments(c, words, stdin, a.now)
		if err != nil {
			return err
		}
		if v.removes != nil {
			yes, _ := c.Flags().GetBool(yesFlag)
			return s.remove(ctx, v, arguments, words, yes)
		}
		if v.made != "" {
			out, _ := c.Flags().GetString(outFlag)
			return s.make(ctx, v, arguments, out)
		}
		reveal := false
		if f := c.Flags().Lookup(revealFlag); f != nil {
			reveal = f.Changed && f.Value.String() == "true"
		}
		return s.ask(ctx, v, arguments, reveal)
	})
	a.flags(v, c)
	if v.secret {
		c.Flags().Bool(revealFlag, false, "show secrets, which are masked without it")
	}
	return c
}

// idForm is the form of ids that commands take as a word.
var idForm = lazy.Regexp(`^[a-z]+_[0-9A-Za-z]{24}$`)

// explained is an error of what is not there, with what its id is where a name was typed in its place.
func (v verb) explained(c *cobra.Command, words []string, err error) error {
	group := c.Parent()
	for group != nil && !slices.ContainsFunc(group.Commands(), func(of *cobra.Command) bool { return of.Name() == "list" }) {
		group = group.Parent() // what has no list of its own is of what one around it lists
	}
	if exit.Of(err) != exit.NotFound || group == nil {
		return err
	}
	at := 0
	for _, g := range v.takes {
		if g.word == "" {
			continue
		}
		if strings.HasSuffix(g.word, "ID") && !idForm().MatchString(words[at]) {
			return fmt.Errorf("%w\n%s is an id, which `%s list` tells, and no name", err, g.word, group.CommandPath())
		}
		at++
	}
	return err
}

// arguments are those of the operation: of words, flags and --body.
func (v verb) arguments(c *cobra.Command, words []string, stdin *onceRead, now func() time.Time) (map[string]any, error) {
	takes, body := v.takes, map[string]json.RawMessage{}
	if f := c.Flags().Lookup(bodyFlag); f != nil && f.Changed {
		text, err := stdin.file(bodyFlag, f.Value.String())
		if err != nil {
			return nil, err
		}
		t, err := call.Operation(v.operation)
		if err != nil {
			return nil, err
		}
		if err := takeBody(t, body, text); err != nil {
			return nil, exit.With(exit.Usage, err)
		}
		takes = nil
		for _, g := range v.takes {
			if body[g.argument] != nil {
				g.required, g.preset = false, ""
			}
			takes = append(takes, g)
		}
	}
	arguments, err := typed(takes, c.Flags(), words, stdin, now)
	if err != nil {
		return nil, fmt.Errorf("%w: `%s --help` says what it takes", err, c.CommandPath())
	}
	for name, value := range body {
		if _, there := arguments[name]; !there {
			arguments[name] = value
		}
	}
	if err := v.changes(arguments); err != nil {
		return nil, fmt.Errorf("%w: `%s --help` says what it takes", err, c.CommandPath())
	}
	return arguments, nil
}

// ask asks the operation, and writes its answer.
func (s *session) ask(ctx context.Context, v verb, arguments map[string]any, reveal bool) error {
	api, err := s.api()
	if err != nil {
		return err
	}
	t, err := call.Operation(v.operation)
	if err != nil {
		return err
	}
	if reveal && takesArgument(t, keyFormat) {
		arguments[keyFormat] = "visible"
	}
	var document []byte
	if v.shown != nil {
		document, err = api.List(ctx, v.operation, arguments)
	} else {
		document, err = s.answer(ctx, api, v, arguments)
	}
	if err != nil {
		return err
	}
	if !reveal {
		document, _ = t.Mask(document)
	}
	if err := s.document(ctx, v, document); err != nil {
		return err
	}
	if v.then != "" {
		s.out.Say("%s", v.then)
	}
	return nil
}

// answer is that of the operation, or of the one that it begins, at its end.
func (s *session) answer(ctx context.Context, api *call.API, v verb, arguments map[string]any) ([]byte, error) {
	answer, err := api.Named(ctx, v.operation, arguments)
	if err != nil {
		return nil, err
	}
	if v.awaits == "" {
		return answer.Body, nil
	}
	return await(ctx, api, v.awaits, arguments, answer.Body)
}

// await asks how an operation goes until it has ended. One that has failed is an error that says why.
func await(ctx context.Context, api *call.API, operation string, arguments map[string]any, begun []byte) ([]byte, error) {
	t, err := call.Operation(operation)
	if err != nil {
		return nil, err
	}
	for {
		id, done, err := call.Ended(begun)
		if err != nil {
			return nil, err
		}
		if done {
			return begun, nil
		}
		if err := api.Sleep(ctx, pollEvery); err != nil {
			return nil, fmt.Errorf("wait for the operation %s, which goes on: %w", id, err)
		}
		arguments["operationId"] = id
		answer, err := api.Named(ctx, operation, only(t, arguments))
		if err != nil {
			return nil, err
		}
		begun = answer.Body
	}
}

// document writes an answer, or says that it is done where there is none.
func (s *session) document(ctx context.Context, v verb, document []byte) error {
	switch {
	case len(bytes.TrimSpace(document)) == 0:
		s.out.Say("done")
		return nil
	case v.table != nil:
		return s.out.Document(ctx, document, v.table(document))
	case v.shown != nil:
		return s.out.Document(ctx, document, v.shown.of(document, v.empty))
	case v.made == keyMember:
		return s.out.Document(ctx, document, withKey(document))
	}
	return s.out.Document(ctx, document, nil)
}

// remove tells what goes, asks for its name where nobody has agreed, and removes it.
func (s *session) remove(ctx context.Context, v verb, arguments map[string]any, words []string, yes bool) error {
	api, err := s.api()
	if err != nil {
		return err
	}
	name := words[len(words)-1]
	if !yes && !s.app.person().There() { // before anything is asked
		return s.app.person().Confirm(ctx, "The "+v.removes.what+" "+output.Printable(name)+" would go", name, "--"+yesFlag)
	}
	with, err := v.removes.with(ctx, api, arguments)
	if err != nil {
		return err
	}
	if !yes {
		if err := s.app.person().Confirm(ctx, fmt.Sprintf("The %s %s goes%s", v.removes.what, output.Printable(name), with), name, "--"+yesFlag); err != nil {
			return err
		}
	}
	if _, err := s.answer(ctx, api, v, arguments); err != nil {
		return err
	}
	s.out.Say("the %s %s is deleted%s", v.removes.what, name, with)
	return nil
}

// with says how many objects go with what is removed, "" where nothing can.
func (r removal) with(ctx context.Context, api *call.API, arguments map[string]any) (string, error) {
	var all []string
	for _, c := range r.below {
		if c.operation == "" {
			all = append(all, "all its "+c.more)
			continue
		}
		n, err := c.count(ctx, api, arguments)
		switch {
		case exit.Of(err) == exit.NotAllowed || c.each != nil && exit.Of(err) == exit.NotFound: // a key may delete what it may not list
			all = append(all, "all its "+c.more)
		case err != nil:
			return "", err
		case n == 1:
			all = append(all, "1 "+c.one)
		default:
			all = append(all, fmt.Sprintf("%d %s", n, c.more))
		}
	}
	if len(all) == 0 {
		return "", nil
	}
	return ", with " + strings.Join(all, " and "), nil
}

// count adds up what its lists have.
func (c counted) count(ctx context.Context, api *call.API, arguments map[string]any) (sum int64, err error) {
	if c.each == nil {
		return c.in(ctx, api, arguments)
	}
	for _, value := range c.each(arguments) {
		of := maps.Clone(arguments)
		of[c.argument] = value
		n, err := c.in(ctx, api, of)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// in counts those of one list.
func (c counted) in(ctx context.Context, api *call.API, arguments map[string]any) (int64, error) {
	t, err := call.Operation(c.operation)
	if err != nil {
		return 0, err
	}
	of := only(t, arguments)
	if takesArgument(t, "limit") {
		of["limit"] = 1
	}
	answer, err := api.Named(ctx, c.operation, of)
	if err != nil {
		return 0, err
	}
	if c.member != "" {
		var list []json.RawMessage
		if err := call.Read(member(answer.Body, c.member), &list); err != nil {
			return 0, fmt.Errorf("count the %s: %w", c.more, err)
		}
		return int64(len(list)), nil
	}
	var list struct{ Total int64 }
	if err := call.Read(answer.Body, &list); err != nil {
		return 0, fmt.Errorf("count the %s: %w", c.more, err)
	}
	return list.Total, nil
}

func takesArgument(t *apitools.Tool, name string) bool {
	for _, g := range t.Arguments {
		if g.Name == name {
			return true
		}
	}
	return false
}

// only are those arguments that an operation has.
func only(t *apitools.Tool, arguments map[string]any) map[string]any {
	of := maps.Clone(arguments)
	maps.DeleteFunc(of, func(name string, _ any) bool { return !takesArgument(t, name) })
	return of
}

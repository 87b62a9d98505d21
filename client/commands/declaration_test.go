package commands_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/client/call"
	"github.com/gatewright/gatewright/client/commands"
	"github.com/gatewright/gatewright/client/exit"
	"github.com/gatewright/gatewright/shared/format/project"
	"github.com/gatewright/gatewright/shared/management/apitools"
)

// TestCommandsMatchAPIDeclaration compares commands that are written by hand with the operations that they call.
func TestCommandsMatchAPIDeclaration(t *testing.T) {
	t.Parallel()
	checked := 0
	commands.CheckVerbs(t, func(path string, v commands.Verb) {
		checked++
		op, err := call.Operation(v.Operation)
		if err != nil {
			t.Errorf("%s: Operation(%s) error = %v, want none", path, v.Operation, err)
			return
		}
		checkParameters(t, path, v, op)
		for _, a := range op.Arguments {
			accepted := slices.ContainsFunc(v.Parameters, func(p commands.Parameter) bool {
				return p.Argument == a.Name && p.Required
			})
			if a.Required && !accepted && a.Name != call.AccountArgument {
				t.Errorf("%s does not require %s, want it required, as in %s", path, a.Name, v.Operation)
			}
		}
		if isList := slices.ContainsFunc(op.Arguments, func(a project.Argument) bool {
			return a.Name == "offset"
		}); isList != v.List {
			t.Errorf("%s: List = %t, want %t, as in %s", path, v.List, isList, v.Operation)
		}
		if (op.Method == http.MethodDelete) != v.Deletes {
			t.Errorf("%s: Deletes = %t, want %t, since %s has the method %s",
				path, v.Deletes, !v.Deletes, v.Operation, op.Method)
		}
		hasSecrets := op.Secrets != nil
		if hasSecrets && op.ReadOnly != v.ShowsSecrets {
			t.Errorf("%s: ShowsSecrets = %t, want %t, since the response of %s has secrets and ReadOnly is %t",
				path, v.ShowsSecrets, op.ReadOnly, v.Operation, op.ReadOnly)
		}
		if hasSecrets && !op.ReadOnly && !v.CreatesSecret && !slices.Contains(maskedChanges(), v.Operation) {
			t.Errorf("%s: CreatesSecret = false, want true, since the change %s has a response with secrets", path, v.Operation)
		}
		checkDependents(t, path, v)
	})
	if checked < 40 {
		t.Errorf("%d commands are declared, want at least 40", checked)
	}
}

// checkParameters checks that the parameters of a command are arguments of its operation, with the same choices.
// Secrets must be read from files.
func checkParameters(t *testing.T, path string, v commands.Verb, op *apitools.Tool) {
	t.Helper()
	var input struct {
		Properties map[string]struct{ Enum []any }
	}
	if err := json.Unmarshal(op.Input, &input); err != nil {
		t.Fatal(err)
	}
	for _, p := range v.Parameters {
		i := slices.IndexFunc(op.Arguments, func(a project.Argument) bool { return a.Name == p.Argument })
		if i < 0 {
			t.Errorf("%s takes %s, want an argument of %s", path, p.Argument, v.Operation)
			continue
		}
		isSecret := op.ArgumentSecrets != nil && op.ArgumentSecrets.Members[p.Argument] != nil &&
			op.ArgumentSecrets.Members[p.Argument].Secret
		if isSecret && !p.File {
			t.Errorf("%s takes the secret %s on the command line, want a file", path, p.Argument)
		}
		enum := map[string]bool{}
		for _, value := range input.Properties[p.Argument].Enum {
			if text, ok := value.(string); ok {
				enum[text] = true
			}
		}
		for _, choice := range p.Choices {
			if !enum[choice] {
				t.Errorf("%s takes %s for %s, want a value of %s", path, choice, p.Argument, v.Operation)
			}
		}
		if len(enum) > 0 && len(p.Choices) != len(enum) {
			t.Errorf("%s has %d choices for %s, want %d", path, len(p.Choices), p.Argument, len(enum))
		}
	}
}

// checkDependents checks that a command has the required arguments of the other operations that it calls.
func checkDependents(t *testing.T, path string, v commands.Verb) {
	t.Helper()
	for _, dependent := range append(v.Dependents, commands.Dependent{Operation: v.StatusOperation}) {
		name := dependent.Operation
		if name == "" {
			continue
		}
		other, err := call.Operation(name)
		if err != nil {
			t.Errorf("%s: Operation(%s) error = %v, want none", path, name, err)
			continue
		}
		for _, a := range other.Arguments {
			accepted := slices.ContainsFunc(v.Parameters, func(p commands.Parameter) bool { return p.Argument == a.Name })
			if a.Required && !accepted && a.Name != call.AccountArgument && a.Name != "operationId" &&
				a.Name != dependent.Argument {
				t.Errorf("%s has no %s, want the argument, since it calls %s", path, a.Name, name)
			}
		}
	}
}

// maskedChanges returns changes whose declared responses can contain secrets, but whose commands request masked
// responses.
func maskedChanges() []string {
	return []string{"ApiKeyBucketsService_create", "ApiKeyBucketsService_update", "ApiKeyConsumersService_update"}
}

// TestListColumnsAreUnique checks that the column titles of a table are unique. It also checks the cells with the
// resources of an audit record and with the policies of a route.
func TestListColumnsAreUnique(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ line, resp, want string }{
		{
			"domain list",
			`{"data":[{"hostname":"a.example.com","status":"active","projectName":"shop","certificate":{"status":"issued"}}]}`,
			"HOSTNAME       STATUS  PROJECT NAME  CERTIFICATE STATUS  CREATED ON\na.example.com  active  shop          issued\n",
		},
		{
			"log list", `{"data":[{"action":"consumer.roll-key","resources":[{"type":"consumer","id":"csmr_1",` +
				`"metadata":{"name":"acme"}},{"type":"api-key","id":"key_1","metadata":null}]}]}`,
			"TIMESTAMP  ACTION             RESOURCES                     EMAIL  SUB  SUCCESS  ERROR  REQUEST ID\n           " +
				"consumer.roll-key  consumer acme, api-key key_1\n",
		},
		{
			"deployment routes shop-main-1a2b3c4",
			`{"data":[{"method":"GET","path":"/a","handler":"urlForwardHandler","policies":[{"name":"key",` +
				`"direction":"inbound"},{"name":"ten-a-minute","direction":"inbound"},{"name":"mask","direction":"outbound"}],` +
				`"file":"a.json"}]}`,
			"METHOD  PATH  HANDLER            POLICIES                            FILE\nGET     /a    urlForwardHandler  key, " +
				"ten-a-minute, mask (outbound)  a.json\n",
		},
	} {
		fx := newFixtureWith(t, func(w http.ResponseWriter, _ *http.Request, _ string) { _, _ = io.WriteString(w, c.resp) })
		if got := fx.run("", strings.Fields(c.line)...); got.code != exit.OK || got.out != c.want {
			t.Errorf("gatewright %s = %+v, want code 0 and the output %q", c.line, got, c.want)
		}
	}
}

// TestEveryOperationHasCommand checks that the source code of the commands that are written by hand names each
// operation of the API. testdata/apionly.txt has the other operations, which only `gatewright api` calls, each with a
// reason.
func TestEveryOperationHasCommand(t *testing.T) {
	t.Parallel()
	called := map[string]bool{}
	for _, folder := range []string{".", "../deploy", "../call"} {
		files, err := filepath.Glob(filepath.Join(folder, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") || filepath.Base(file) == "api.go" || filepath.Base(file) == "completion.go" {
				continue
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(parsed, func(n ast.Node) bool {
				if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
					text, _ := strconv.Unquote(literal.Value)
					called[text] = true
				}
				return true
			})
		}
	}
	text, err := os.ReadFile("testdata/apionly.txt")
	if err != nil {
		t.Fatal(err)
	}
	reasons := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, reason, _ := strings.Cut(strings.TrimSpace(line), ": ")
		reasons[name] = reason
	}
	tools, err := apitools.Load()
	if err != nil {
		t.Fatal(err)
	}
	for _, op := range tools {
		switch reason, listed := reasons[op.Name]; {
		case called[op.Name] && listed:
			t.Errorf("testdata/apionly.txt has %s, want only operations that no command calls", op.Name)
		case !called[op.Name] && reason == "":
			t.Errorf("no command calls %s, want a command or a reason in testdata/apionly.txt", op.Name)
		}
		delete(reasons, op.Name)
	}
	for name := range reasons {
		t.Errorf("testdata/apionly.txt has %s, want only operations that exist", name)
	}
}

// TestOtherResourcesGetNoCommands checks that a command line creates only the commands of resources that it mentions.
// This limits the time of each start.
func TestOtherResourcesGetNoCommands(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"--help", "whoami", "consumer list --bucket b", "__complete buck"} {
		if n := commands.SubcommandCount("bucket", strings.Fields(line)...); n != 0 {
			t.Errorf("SubcommandCount(bucket) for %q = %d, want 0", line, n)
		}
	}
	for _, line := range []string{"bucket", "help bucket list", "__complete bucket get x", "man pages"} {
		if n := commands.SubcommandCount("bucket", strings.Fields(line)...); n != 5 {
			t.Errorf("SubcommandCount(bucket) for %q = %d, want 5", line, n)
		}
	}
}

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
	"github.com/gatewright/gatewright/shared/apitools"
	"github.com/gatewright/gatewright/shared/project"
)

// TestDeclaredCommandsAskWhatTheAPIDeclares compares commands by hand with the operations that they ask.
func TestDeclaredCommandsAskWhatTheAPIDeclares(t *testing.T) {
	t.Parallel()
	seen := 0
	commands.CheckVerbs(t, func(path string, v commands.Verb) {
		seen++
		op, err := call.Operation(v.Operation)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			return
		}
		var input struct {
			Properties map[string]struct{ Enum []any }
		}
		if err := json.Unmarshal(op.Input, &input); err != nil {
			t.Fatal(err)
		}
		for _, g := range v.Takes {
			i := slices.IndexFunc(op.Arguments, func(a project.Argument) bool { return a.Name == g.Argument })
			if i < 0 {
				t.Errorf("%s takes %s, which %s has not", path, g.Argument, v.Operation)
				continue
			}
			secret := op.Given != nil && op.Given.Members[g.Argument] != nil && op.Given.Members[g.Argument].Secret
			if secret && !g.File {
				t.Errorf("%s takes the secret %s as a word of the command line", path, g.Argument)
			}
			enum := map[string]bool{}
			for _, value := range input.Properties[g.Argument].Enum {
				if text, isText := value.(string); isText {
					enum[text] = true
				}
			}
			for _, choice := range g.Choices {
				if !enum[choice] {
					t.Errorf("%s takes %s for %s, which %s does not", path, choice, g.Argument, v.Operation)
				}
			}
			if len(enum) > 0 && len(g.Choices) != len(enum) {
				t.Errorf("%s has %d choices for %s of %d", path, len(g.Choices), g.Argument, len(enum))
			}
		}
		for _, a := range op.Arguments {
			taken := slices.ContainsFunc(v.Takes, func(g commands.Given) bool { return g.Argument == a.Name && g.Required })
			if a.Required && !taken && a.Name != call.AccountArgument {
				t.Errorf("%s does not need %s, which %s does", path, a.Name, v.Operation)
			}
		}
		if lists := slices.ContainsFunc(op.Arguments, func(a project.Argument) bool { return a.Name == "offset" }); lists != v.List {
			t.Errorf("%s is a list: %t, and %s: %t", path, v.List, v.Operation, lists)
		}
		if (op.Method == http.MethodDelete) != v.Removes {
			t.Errorf("%s asks before it removes: %t, of %s", path, v.Removes, op.Method)
		}
		if secrets := op.Secrets != nil; secrets && op.ReadOnly != v.Secret || secrets && !op.ReadOnly && !v.Made && !slices.Contains(neverSecret(), v.Operation) {
			t.Errorf("%s: the answer of %s has secrets, and it has neither --reveal nor --out", path, v.Operation)
		}
		for _, asked := range append(v.Counts, commands.Counted{Operation: v.Awaits}) {
			name := asked.Operation
			if name == "" {
				continue
			}
			other, err := call.Operation(name)
			if err != nil {
				t.Errorf("%s: %v", path, err)
				continue
			}
			for _, a := range other.Arguments {
				taken := slices.ContainsFunc(v.Takes, func(g commands.Given) bool { return g.Argument == a.Name })
				if a.Required && !taken && a.Name != call.AccountArgument && a.Name != "operationId" && a.Name != asked.Argument {
					t.Errorf("%s asks %s, and has no %s", path, name, a.Name)
				}
			}
		}
	})
	if seen < 40 {
		t.Errorf("%d commands are declared", seen)
	}
}

// neverSecret are changes whose answers could have secrets by their declaration, and which mask them (session.ask).
func neverSecret() []string {
	return []string{"ApiKeyBucketsService_create", "ApiKeyBucketsService_update", "ApiKeyConsumersService_update"}
}

// TestColumnsOfListsSayWhatTheyHave: no two have one title, and a record of the audit log names what it is about.
func TestColumnsOfListsSayWhatTheyHave(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ words, answer, want string }{
		{
			"domain list", `{"data":[{"hostname":"a.example.com","status":"active","projectName":"shop","certificate":{"status":"issued"}}]}`,
			"HOSTNAME       STATUS  PROJECT NAME  CERTIFICATE STATUS  CREATED ON\na.example.com  active  shop          issued\n",
		},
		{
			"log list", `{"data":[{"action":"consumer.roll-key","resources":[{"type":"consumer","id":"csmr_1","metadata":{"name":"acme"}},{"type":"api-key","id":"key_1","metadata":null}]}]}`,
			"TIMESTAMP  ACTION             RESOURCES                     EMAIL  SUB  SUCCESS  ERROR  REQUEST ID\n           consumer.roll-key  consumer acme, api-key key_1\n",
		},
		{
			"deployment routes shop-main-1a2b3c4",
			`{"data":[{"method":"GET","path":"/a","handler":"urlForwardHandler","policies":[{"name":"key","direction":"inbound"},{"name":"ten-a-minute","direction":"inbound"},{"name":"mask","direction":"outbound"}],"file":"a.json"}]}`,
			"METHOD  PATH  HANDLER            POLICIES                            FILE\nGET     /a    urlForwardHandler  key, ten-a-minute, mask (outbound)  a.json\n",
		},
	} {
		l := newLineOf(t, func(w http.ResponseWriter, _ *http.Request, _ string) { _, _ = io.WriteString(w, c.answer) })
		if got := l.run("", strings.Fields(c.words)...); got.code != exit.OK || got.out != c.want {
			t.Errorf("%s: %+v, want %q", c.words, got, c.want)
		}
	}
}

// TestEveryOperationHasACommandByHand compares the operations of the API with those that the code of commands by hand names. An
// operation that only `gatewright api` reaches has its reason in testdata/apionly.txt.
func TestEveryOperationHasACommandByHand(t *testing.T) {
	t.Parallel()
	named := map[string]bool{}
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
					named[text] = true
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
		case named[op.Name] && listed:
			t.Errorf("testdata/apionly.txt has %s, which a command reaches", op.Name)
		case !named[op.Name] && reason == "":
			t.Errorf("no command by hand reaches %s, and testdata/apionly.txt has no reason", op.Name)
		}
		delete(reasons, op.Name)
	}
	for name := range reasons {
		t.Errorf("testdata/apionly.txt has %s, which is no operation", name)
	}
}

// TestStartMakesNoCommandsOfOtherNouns is about how long each start takes.
func TestStartMakesNoCommandsOfOtherNouns(t *testing.T) {
	t.Parallel()
	for _, words := range []string{"--help", "whoami", "consumer list --bucket b", "__complete buck"} {
		if n := commands.Below("bucket", strings.Fields(words)...); n != 0 {
			t.Errorf("%s: bucket has %d commands", words, n)
		}
	}
	for _, words := range []string{"bucket", "help bucket list", "__complete bucket get x", "man pages"} {
		if n := commands.Below("bucket", strings.Fields(words)...); n != 5 {
			t.Errorf("%s: bucket has %d commands", words, n)
		}
	}
}

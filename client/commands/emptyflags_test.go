package commands_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/gatewright/gatewright/client/exit"
	"github.com/gatewright/gatewright/client/profile"
	"github.com/gatewright/gatewright/shared/testing/golden"
)

// TestFlagsThatMayBeEmptyAreListed sets every flag of every command to an empty text, and compares the flags that are
// accepted with a golden file. All other flags of texts and lists are refused.
func TestFlagsThatMayBeEmptyAreListed(t *testing.T) {
	t.Parallel()
	var accepted strings.Builder
	refused := 0
	root := root()
	for _, c := range withSubcommands(root) {
		var names []string
		c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		var set []string
		for _, name := range names {
			if c.Flags().Set(name, "") == nil { // an error: an empty text is no number, no time and no duration
				set = append(set, name)
			}
		}
		err := root.PersistentPreRunE(c, nil)
		for _, name := range set {
			if err != nil && strings.Contains(err.Error()+" ", "--"+name+" ") {
				refused++
			} else {
				accepted.WriteString(c.CommandPath() + " --" + name + "\n")
			}
		}
	}
	if refused < 500 {
		t.Errorf("%d empty flags are refused, want at least 500", refused)
	}
	golden.Equal(t, "testdata/empty-flags.txt", accepted.String())
}

// TestEmptyFlagIsRefused checks that a command with an empty flag sends nothing and changes no file. An empty --branch
// would otherwise deploy to the default branch, which is production.
func TestEmptyFlagIsRefused(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.MkdirAll(filepath.Join("shop", "config"), 0o700); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join("shop", "config", "routes.oas.json"), "{}")
	fx := newFixture(t)
	for _, c := range []struct {
		args []string
		flag string
	}{
		{[]string{"deploy", "shop", "--branch", ""}, "--branch"},
		{[]string{"deploy", "shop", "--branch", "main", "--project="}, "--project"},
		{[]string{"init", "new", "--upstream", ""}, "--upstream"},
		{[]string{"init", "new", "--from", ""}, "--from"},
		{[]string{"init", "new", "--from", "x", "--server-variable", "a=b", "--server-variable", ""}, "--server-variable"},
		{[]string{"validate", "shop", "--env-file", ""}, "--env-file"},
		{[]string{"whoami", "--profile", ""}, "--profile"},
		{[]string{"whoami", "--url", ""}, "--url"},
		{[]string{"whoami", "--output", ""}, "--output"},
		{[]string{"bucket", "list", "--account", ""}, "--account"},
		{[]string{"bucket", "list", "--jq", ""}, "--jq"},
		{[]string{"variable", "list", "--project", "shop", "--branch", ""}, "--branch"},
		{[]string{"account-key", "create", "--label", "ci", "--scope", ""}, "--scope"},
		{[]string{"api", "VariablesService_list", "--project-name", "shop", "--branch-name", ""}, "--branch-name"},
	} {
		if got := fx.run("", c.args...); got.code != exit.Usage || got.out != "" ||
			!strings.Contains(got.err, "the value of "+c.flag+" is empty, and a variable of the shell may be unset") {
			t.Errorf("gatewright %q = %+v, want code %d and the reason for %s", c.args, got, exit.Usage, c.flag)
		}
	}
	if len(fx.requests) > 0 {
		t.Errorf("commands with an empty flag send the requests %q, want none", fx.requests)
	}
	if all, err := os.ReadDir("."); err != nil || len(all) != 1 {
		t.Errorf("after commands with an empty flag the folder has %v, %v, want only shop", all, err)
	}
}

// TestEmptyValuesThatMeanSomethingAreSent checks an empty description, which clears it, and variables of the
// environment that are set and empty, which count as unset.
func TestEmptyValuesThatMeanSomethingAreSent(t *testing.T) {
	t.Parallel()
	fx := newFixture(t)
	fx.env[profile.VarProfile], fx.env[profile.VarAccount] = "", ""
	for _, args := range [][]string{
		{"bucket", "update", "partners", "--description", ""},
		{"api", "ApiKeyBucketsService_update", "--bucket-name", "partners", "--description", ""},
	} {
		fx.requests = nil
		if got := fx.run("", args...); got.code != exit.OK ||
			!strings.Contains(strings.Join(fx.requests, "\n"), `{"description":""}`) {
			t.Errorf("gatewright %q = %+v, requests %q, want code 0 and a request with the empty description",
				args, got, fx.requests)
		}
	}
}

// TestBranchFlagTakesReference checks that refs/heads/x is the branch x for every command with --branch, and that other
// references are refused with a value for pipelines.
func TestBranchFlagTakesReference(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "shop")
	if err := os.MkdirAll(filepath.Join(dir, "config"), 0o700); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, "config", "routes.oas.json"), "{}")
	for _, args := range [][]string{
		{"deploy", dir},
		{"variable", "list", "--project", "shop"},
		{"variable", "get", "A", "--project", "shop"},
		{"variable", "set", "A", "--project", "shop"},
		{"variable", "delete", "A", "--project", "shop", "--yes"},
		{"environment", "create", "--project", "shop", "--type", "preview"},
	} {
		fx := newFixture(t)
		fx.run("value", append(args, "--branch", "refs/heads/release-1")...)
		sent := strings.Join(fx.requests, "\n")
		if !strings.Contains(sent, "release-1") || strings.Contains(sent, "refs") {
			t.Errorf("gatewright %q --branch refs/heads/release-1 sends %q, want a request about the branch release-1",
				args, sent)
		}
		for _, ref := range []string{"refs/tags/v1", "refs/pull/1/merge", "refs/merge-requests/1/head", "refs/heads/"} {
			fx := newFixture(t)
			got := fx.run("value", append(args, "--branch", ref)...)
			if got.code != exit.Usage || !strings.Contains(got.err, ref) || !strings.Contains(got.err, "write") {
				t.Errorf("gatewright %q --branch %s = %+v, want code %d and what to write", args, ref, got, exit.Usage)
			}
			if len(fx.requests) > 0 {
				t.Errorf("gatewright %q --branch %s sends the requests %q, want none", args, ref, fx.requests)
			}
		}
	}
}

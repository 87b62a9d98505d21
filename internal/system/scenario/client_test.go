package scenario_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/gatewright/gatewright/client/exit"
	"github.com/gatewright/gatewright/shared/testing/gobuild"
	"github.com/gatewright/gatewright/shared/testing/readme"
)

// clientBinary returns the folder that contains the client's binary as users have it. The binary is built once.
var clientBinary = sync.OnceValues(func() (folder string, err error) {
	folder, err = os.MkdirTemp("", "gatewright-client-")
	if err != nil {
		return "", err
	}
	clientFolder = folder
	if err := gobuild.Build(context.Background(), repository, gobuild.Client,
		filepath.Join(folder, "gatewright")); err != nil {
		return "", err
	}
	return folder, nil
})

// isolatedClient returns the client's binary for a test of the client alone, which runs in parallel with others. It skips the test if the
// installation is not the local run.
func isolatedClient(t *testing.T) string {
	t.Helper()
	if os.Getenv(varAPI) != "" {
		t.Skip("this test is only about the client, which is the same for each installation: it runs with the local run")
	}
	t.Parallel()
	folder, err := clientBinary()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(folder, "gatewright")
}

// clientFolder is the folder that clientBinary has created. TestMain removes it.
var clientFolder string

// TestClientStories runs the command line client, and checks its output and its exit codes: each file in testdata/client is a story.
func TestClientStories(t *testing.T) {
	t.Parallel()
	folder, err := clientBinary()
	if err != nil {
		t.Fatal(err)
	}
	inst := installation
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "client"),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			key := filepath.Join(e.WorkDir, "account-key")
			e.Setenv("PATH", folder+string(os.PathListSeparator)+os.Getenv("PATH"))
			// the variables that clients need to connect to the installation
			for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR"} {
				e.Setenv(name, os.Getenv(name))
			}
			e.Setenv("API", inst.api)
			e.Setenv("ACCOUNT", inst.account)
			e.Setenv("NAME", unique(t, "client"))
			e.Setenv("SHORT", e.Getenv("NAME")[len("client-"):]) // a name with 24 characters at most
			e.Setenv("GATEWRIGHT_PROFILES", filepath.Join(e.WorkDir, "profiles.json"))
			e.Setenv("GATEWRIGHT_URL", inst.api)
			e.Setenv("GATEWRIGHT_KEY_FILE", key)
			return os.WriteFile(key, []byte(inst.key+"\n"), 0o600)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"ends": checkExitCode, "same": compareOutput, "unseen": checkNoKey,
			"keep": saveOutput, "completes": awaitCompletion,
		},
	})
}

// TestStoriesRunEveryCommand compares the commands of the client, except those of `gatewright api`, with the commands that the stories
// run.
func TestStoriesRunEveryCommand(t *testing.T) {
	t.Parallel()
	stories, err := filepath.Glob(filepath.Join("testdata", "client", "*.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	var texts strings.Builder
	for _, story := range stories {
		text, err := os.ReadFile(story)
		if err != nil {
			t.Fatal(err)
		}
		texts.Write(text)
	}
	listed, err := os.ReadFile(filepath.Join(repository, "client", "commands", "testdata", "commands.txt"))
	if err != nil {
		t.Fatal(err)
	}
	all := regexp.MustCompile(`(?m)^gatewright(?: [a-z][a-z-]*)*`).FindAllString(string(listed), -1)
	checked := 0
	for i, command := range all {
		if i+1 < len(all) && strings.HasPrefix(all[i+1], command+" ") || strings.HasPrefix(command, "gatewright api") {
			continue // a group, or a command of `gatewright api`: TestEveryOperationWorks calls its operation
		}
		checked++
		if !regexp.MustCompile(`(?m)\b` + command + `( |$)`).MatchString(texts.String()) {
			t.Errorf("no scenario of testdata/client runs %s, want at least one", command)
		}
	}
	if checked < 60 {
		t.Errorf("%d commands are checked, want at least 60", checked)
	}
}

// checkExitCode runs a command and checks its exit code: `ends 3 gatewright …`. If the code is neither 0 nor
// exit.Pending, stdout must be empty.
func checkExitCode(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	code := 0
	if exitErr, ok := errors.AsType[*exec.ExitError](err); ok {
		code = exitErr.ExitCode()
	} else {
		ts.Check(err)
	}
	out := ts.ReadFile("stdout")
	if code != want {
		ts.Fatalf("%v ends with %d, want %d: %s%s", args[1:], code, want, out, ts.ReadFile("stderr"))
	}
	if want != 0 && want != int(exit.Pending) && out != "" {
		ts.Fatalf("%v fails and writes %q to its output, want nothing", args[1:], out)
	}
}

// awaitCompletion requests the suggestions of a shell until they contain a word: `completes ada gatewright __complete
// …`. The client leaves out names that the API does not return within a second, which can happen on a busy
// installation.
func awaitCompletion(ts *testscript.TestScript, _ bool, args []string) {
	const maxAttempts = 30
	for range maxAttempts {
		ts.Check(ts.Exec(args[1], args[2:]...))
		if slices.Contains(strings.Split(ts.ReadFile("stdout"), "\n"), args[0]) {
			return
		}
	}
	ts.Fatalf("the completion of %v lacks %s after %d attempts, want it there: %s", args[1:], args[0], maxAttempts,
		ts.ReadFile("stdout"))
}

// saveOutput sets a variable to the contents of stdout, without the line end: `keep ID`.
func saveOutput(ts *testscript.TestScript, _ bool, args []string) {
	ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile("stdout")))
}

// volatile contains patterns of the parts of an output that differ from run to run, and their placeholders in a story.
var volatile = []struct {
	pattern     *regexp.Regexp
	placeholder string
}{
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "UUID"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`), "TIME"},
	{regexp.MustCompile(`\b(bckt|csmr|key|tnl|cert)_[0-9A-Za-z]{24,32}\b`), "${1}_ID"},
	{regexp.MustCompile(`\bgw[ak]_[0-9A-Za-z]{32}_[0-9a-f]{8}\b`), "KEY"},
	{regexp.MustCompile(`(?m) [0-9A-Za-z_-]{43}$`), " TOKEN"},
	{regexp.MustCompile(`https?://\S*-main-\S*`), "URL"},
	{regexp.MustCompile(`(-main)-[0-9a-f]{7}\b`), "$1-HEX"},
	{regexp.MustCompile(`\b\d+ bytes`), "SIZE bytes"},
	{regexp.MustCompile(` {2,}`), "  "}, // the widths of columns
	// the stories share a key with a rate limit
	{regexp.MustCompile(`(?m)^· \S+: it is asked too often; asking again in \d+s\n`), ""},
}

// compareOutput compares an output with a file of the story: `same stdout file`. In the file, placeholders replace the varying parts, and the
// variables $API, $ACCOUNT and $NAME have their values.
func compareOutput(ts *testscript.TestScript, _ bool, args []string) {
	got, want := ts.ReadFile(args[0]), ts.ReadFile(args[1])
	for _, v := range volatile {
		got = v.pattern.ReplaceAllString(got, v.placeholder)
	}
	for _, name := range []string{"API", "ACCOUNT", "NAME"} {
		want = strings.ReplaceAll(want, "$"+name, ts.Getenv(name))
	}
	if got != want {
		ts.Fatalf("%s is\n%s\nwant\n%s", args[0], got, want)
	}
}

// checkNoKey fails if an output or a file contains the account key: `unseen stdout stderr file`.
func checkNoKey(ts *testscript.TestScript, _ bool, args []string) {
	for _, name := range args {
		if strings.Contains(ts.ReadFile(name), installation.key) {
			ts.Fatalf("%s contains the account key, want none", name)
		}
	}
}

// TestCommandLinePages runs the commands of docs/command-line.md, docs/files.md and docs/descriptions.md in order, with
// the binary that users have.
func TestCommandLinePages(t *testing.T) {
	if os.Getenv(varAPI) != "" {
		t.Skip(varAPI + " selects an installation, but this test needs the local run")
	}
	t.Parallel()
	folder, err := clientBinary()
	if err != nil {
		t.Fatal(err)
	}
	p := startProduct(t, t.TempDir(), "dist/local")
	root, err := filepath.Abs(repository)
	if err != nil {
		t.Fatal(err)
	}
	replacer := strings.NewReplacer("http://127.0.0.1:9000", p.API, ".gatewright/", p.Data()+"/", "make -s cli\n", "",
		"examples/", filepath.Join(root, "examples")+"/", "dist/gatewright", filepath.Join(folder, "gatewright"),
		// A process in the background must be the program itself, and not a shell with the function of command-line.md.
		"gatewright dev shop", filepath.Join(folder, "gatewright")+" dev shop")
	var all []readme.Step
	for _, page := range []struct {
		name     string
		headings []string
	}{
		{"command-line", []string{
			"Get it", "Log in", "In scripts", "Any operation", "By hand",
			"Domains, certificates, tunnels and plans", "Begin a project", "Develop", "Deploy", "Validate", "In a pipeline",
		}},
		{"files", []string{"Begin", "Change", "What stays, and what goes"}},
		{"descriptions", []string{"From your description to a protected API"}},
	} {
		text, err := os.ReadFile(filepath.Join(repository, "docs", page.name+".md"))
		if err != nil {
			t.Fatal(err)
		}
		for _, heading := range page.headings {
			steps, err := readme.Steps(string(text), heading)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, steps...)
		}
	}
	for i := range all {
		all[i].Commands = replacer.Replace(all[i].Commands)
	}
	if _, err := readme.Run(t.Context(), t.TempDir(), os.Environ(), all); err != nil {
		t.Fatalf("run the documented commands: %v, want no error", err)
	}
}

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
	"github.com/gatewright/gatewright/internal/gobuild"
	"github.com/gatewright/gatewright/internal/readme"
)

// clientBinary is the folder of the command as users have it, built once.
var clientBinary = sync.OnceValues(func() (folder string, err error) {
	folder, err = os.MkdirTemp("", "gatewright-client-")
	if err != nil {
		return "", err
	}
	clientFolder = folder
	if err := gobuild.Build(context.Background(), repository, gobuild.Client, filepath.Join(folder, "gatewright")); err != nil {
		return "", err
	}
	return folder, nil
})

// ownClient is the command for a test that is about the client alone, which runs beside others: where the installation is another one, it is left out.
func ownClient(t *testing.T) string {
	t.Helper()
	if os.Getenv(varAPI) != "" {
		t.Skip("it is about the client, which is the same for each installation")
	}
	t.Parallel()
	folder, err := clientBinary()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(folder, "gatewright")
}

// clientFolder is that of clientBinary once it is made: TestMain removes it.
var clientFolder string

// TestClientStories runs what is typed to the command line client, and what it writes and ends with: each file below
// testdata/client is a story.
func TestClientStories(t *testing.T) {
	t.Parallel()
	folder, err := clientBinary()
	if err != nil {
		t.Fatal(err)
	}
	in := installation
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "client"),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			key := filepath.Join(e.WorkDir, "account-key")
			e.Setenv("PATH", folder+string(os.PathListSeparator)+os.Getenv("PATH"))
			for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR"} { // by which an installation under test is reached
				e.Setenv(name, os.Getenv(name))
			}
			e.Setenv("API", in.api)
			e.Setenv("ACCOUNT", in.account)
			e.Setenv("NAME", unique(t, "client"))
			e.Setenv("SHORT", e.Getenv("NAME")[len("client-"):]) // what has 24 characters at most
			e.Setenv("GATEWRIGHT_PROFILES", filepath.Join(e.WorkDir, "profiles.json"))
			e.Setenv("GATEWRIGHT_URL", in.api)
			e.Setenv("GATEWRIGHT_KEY_FILE", key)
			return os.WriteFile(key, []byte(in.key+"\n"), 0o600)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"ends": ends, "same": same, "unseen": unseen, "keep": keep, "completes": completes},
	})
}

// TestStoriesRunEveryCommand compares the commands of the client, those of `gatewright api` aside, with what the stories run.
func TestStoriesRunEveryCommand(t *testing.T) {
	t.Parallel()
	stories, err := filepath.Glob(filepath.Join("testdata", "client", "*.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	var told strings.Builder
	for _, story := range stories {
		text, err := os.ReadFile(story)
		if err != nil {
			t.Fatal(err)
		}
		told.Write(text)
	}
	listed, err := os.ReadFile(filepath.Join(repository, "client", "commands", "testdata", "commands.txt"))
	if err != nil {
		t.Fatal(err)
	}
	all := regexp.MustCompile(`(?m)^gatewright(?: [a-z][a-z-]*)*`).FindAllString(string(listed), -1)
	asked := 0
	for i, command := range all {
		if i+1 < len(all) && strings.HasPrefix(all[i+1], command+" ") || strings.HasPrefix(command, "gatewright api") {
			continue // a group, or what TestEveryOperation and its like ask
		}
		asked++
		if !regexp.MustCompile(`(?m)\b` + command + `( |$)`).MatchString(told.String()) {
			t.Errorf("no story runs %s: testdata/client has them", command)
		}
	}
	if asked < 60 {
		t.Errorf("%d commands are asked about", asked)
	}
}

// ends runs a command that has to end with a code, and, but for 0 and for what a comparison has found, to leave stdout empty: `ends 3 gatewright …`.
func ends(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	code := 0
	if ended, ok := errors.AsType[*exec.ExitError](err); ok {
		code = ended.ExitCode()
	} else {
		ts.Check(err)
	}
	out := ts.ReadFile("stdout")
	if code != want {
		ts.Fatalf("%v ends with %d, want %d: %s%s", args[1:], code, want, out, ts.ReadFile("stderr"))
	}
	if want != 0 && want != int(exit.Pending) && out != "" {
		ts.Fatalf("%v fails, and has written %q", args[1:], out)
	}
}

// completes asks for what a shell suggests until a word is among it: `completes ada gatewright __complete …`. Names that take the API more than a
// second are left out, and an installation with much to do takes it now and then.
func completes(ts *testscript.TestScript, _ bool, args []string) {
	const tries = 30
	for range tries {
		ts.Check(ts.Exec(args[1], args[2:]...))
		if slices.Contains(strings.Split(ts.ReadFile("stdout"), "\n"), args[0]) {
			return
		}
	}
	ts.Fatalf("%v suggests no %s at %d times: %s", args[1:], args[0], tries, ts.ReadFile("stdout"))
}

// keep has a variable be what stdout has, without the end of its line: `keep ID`.
func keep(ts *testscript.TestScript, _ bool, args []string) {
	ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile("stdout")))
}

// varying are the parts of an output that differ from run to run, and what stands for them in a story.
var varying = []struct {
	is *regexp.Regexp
	as string
}{
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "UUID"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`), "TIME"},
	{regexp.MustCompile(`\b(bckt|csmr|key|tnl|cert)_[0-9A-Za-z]{24,32}\b`), "${1}_ID"},
	{regexp.MustCompile(`\bgw[ak]_[0-9A-Za-z]{32}_[0-9a-f]{8}\b`), "KEY"},
	{regexp.MustCompile(`(?m) [0-9A-Za-z_-]{43}$`), " TOKEN"},
	{regexp.MustCompile(`https?://\S*-main-\S*`), "URL"},
	{regexp.MustCompile(`(-main)-[0-9a-f]{7}\b`), "$1-HEX"},
	{regexp.MustCompile(`\b\d+ bytes`), "SIZE bytes"},
	{regexp.MustCompile(` {2,}`), "  "},                                                   // the widths of columns
	{regexp.MustCompile(`(?m)^· \S+: it is asked too often; asking again in \d+s\n`), ""}, // stories share a key, which has a rate
}

// same compares an output with a file of the story: `same stdout file`. What varies stands there as its kind, and $API, $ACCOUNT and
// $NAME as what they are.
func same(ts *testscript.TestScript, _ bool, args []string) {
	got, want := ts.ReadFile(args[0]), ts.ReadFile(args[1])
	for _, v := range varying {
		got = v.is.ReplaceAllString(got, v.as)
	}
	for _, name := range []string{"API", "ACCOUNT", "NAME"} {
		want = strings.ReplaceAll(want, "$"+name, ts.Getenv(name))
	}
	if got != want {
		ts.Fatalf("%s is\n%s\nwant\n%s", args[0], got, want)
	}
}

// unseen fails where the account key is in an output, or in a file: `unseen stdout stderr file`.
func unseen(ts *testscript.TestScript, _ bool, args []string) {
	for _, name := range args {
		if strings.Contains(ts.ReadFile(name), installation.key) {
			ts.Fatalf("%s has the account key", name)
		}
	}
}

// TestCommandLinePages types what docs/command-line.md and docs/files.md say, one command after the other, with the binary that users have.
func TestCommandLinePages(t *testing.T) {
	if os.Getenv(varAPI) != "" {
		t.Skip("it is about the local run")
	}
	t.Parallel()
	folder, err := clientBinary()
	if err != nil {
		t.Fatal(err)
	}
	p := running(t, t.TempDir(), "dist/local")
	root, err := filepath.Abs(repository)
	if err != nil {
		t.Fatal(err)
	}
	here := strings.NewReplacer("http://127.0.0.1:9000", p.API, ".gatewright/", p.Data()+"/", "make -s cli\n", "", "examples/", filepath.Join(root, "examples")+"/", "dist/gatewright", filepath.Join(folder, "gatewright"))
	var all []readme.Step
	for _, page := range []struct {
		name     string
		headings []string
	}{
		{"command-line", []string{"Get it", "Log in", "In scripts", "Any operation", "By hand", "Domains, certificates, tunnels and plans", "Begin a project", "Develop", "Deploy", "Validate", "In a pipeline"}},
		{"files", []string{"Begin", "Change", "What stays, and what goes"}},
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
		all[i].Commands = here.Replace(all[i].Commands)
	}
	if _, err := readme.Run(t.Context(), t.TempDir(), os.Environ(), all); err != nil {
		t.Fatal(err)
	}
}

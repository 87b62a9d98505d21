package consolestories

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/local/instance"
	"github.com/gatewright/gatewright/local/instance/fill"
)

// storiesVar says that a console is bundled, for which the stories are told: it takes Node, npm and minutes.
const storiesVar = "GATEWRIGHT_TEST_CONSOLE"

// someVar names the stories that are told, such as buckets.mjs; all without it.
const someVar = "GATEWRIGHT_TEST_CONSOLE_STORIES"

// The bucket of very many consumers, whose page large.mjs looks at.
const (
	largeBucket = "very-large"
	largeCount  = 100_000
)

// TestStoriesOfTheConsole tells each of them: what each asserts stands in its file, and what all do in lib.mjs.
func TestStoriesOfTheConsole(t *testing.T) {
	if os.Getenv(storiesVar) == "" {
		t.Skip("make test-console bundles the console and runs this")
	}
	browser := program(t, "chromium")
	node := program(t, "node")
	repository := filepath.Join("..", "..")
	build := exec.CommandContext(t.Context(), "make", "dist/local")
	build.Dir, build.Env = repository, withoutMake()
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the product: %v\n%s", err, out)
	}
	dir := t.TempDir()
	product, err := instance.Start(t.Context(), dir, repository, "dist/local")
	if err != nil {
		t.Fatal(err)
	}
	stopped := false
	stop := func() {
		if !stopped {
			stopped = true
			product.Stop()
		}
	}
	defer stop()
	var who struct{ Account string }
	if err := product.Into(t.Context(), &who, "GET", "/v1/who-am-i", ""); err != nil {
		t.Fatal(err)
	}
	// A key of its own: that of the first start is printed, for who has started it.
	var made struct{ Key string }
	if err := product.Into(t.Context(), &made, "POST", "/v1/accounts/"+who.Account+"/account-keys", `{"label":"the console's","scopes":"all"}`); err != nil {
		t.Fatal(err)
	}
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte(made.Key), 0o600); err != nil {
		t.Fatal(err)
	}
	if asked("large.mjs") {
		// Requests would make that bucket in minutes. The product is started again over it.
		stop()
		if err := fill.Make(t.Context(), product.Data(), product.Key, fill.Bucket{
			Buckets: "/v1/accounts/" + who.Account + "/key-buckets", Name: largeBucket, Consumers: largeCount, Unrecorded: true, Consumer: consumer,
		}); err != nil {
			t.Fatal(err)
		}
		if product, err = instance.Start(t.Context(), dir, repository, "dist/local"); err != nil {
			t.Fatal(err)
		}
		stopped = false
	}
	checked := filepath.Join(t.TempDir(), "checked")
	told := tell(t.Context(), node, filepath.Join(repository, "console"), []string{
		"GATEWRIGHT_CONSOLE_API=" + product.API, "GATEWRIGHT_CONSOLE_GATEWAY=" + product.Gateway, "GATEWRIGHT_CONSOLE_ACCOUNT=" + who.Account,
		"GATEWRIGHT_CONSOLE_KEY_FILE=" + key, "GATEWRIGHT_CONSOLE_BROWSER=" + browser, "GATEWRIGHT_CONSOLE_CHECKED=" + checked, "GATEWRIGHT_CONSOLE_DATA=" + product.Data(),
		"GATEWRIGHT_CONSOLE_LARGE_BUCKET=" + largeBucket, "GATEWRIGHT_CONSOLE_CONSUMERS=" + strconv.Itoa(largeCount),
	})
	if told.err != nil {
		t.Errorf("%v\n%s", told.err, told.out)
	}
	// A run of none would be green as well.
	if !strings.Contains(told.out, "\nℹ pass ") || strings.Contains(told.out, "\nℹ pass 0\n") {
		t.Errorf("no story was told:\n%s", told.out)
	}
	for _, figure := range figures.FindAllStringSubmatch(told.out, -1) {
		t.Log(figure[1])
	}
	if os.Getenv(someVar) == "" {
		everyPageIsChecked(t, filepath.Join(repository, "console"), checked)
	}
	stop()
	for name, text := range written(t, product) {
		if bytes.Contains(text, []byte(made.Key)) {
			t.Errorf("%s has the account key by which the console was signed in", name)
		}
	}
}

// consumer is the body that makes one of the very many; large.mjs goes by it.
func consumer(n int) string {
	plan := "free"
	if n%10 == 0 {
		plan = "gold"
	}
	return fmt.Sprintf(`{"name":"c-%06d","description":"Consumer %[1]d","tags":{"plan":%[2]q}}`, n, plan)
}

// asked reports whether a file's stories are told.
func asked(name string) bool {
	some := strings.Fields(os.Getenv(someVar))
	return len(some) == 0 || slices.Contains(some, name)
}

// figures are what stories tell of the page of very many consumers.
var figures = regexp.MustCompile(`(?m)^ *ℹ (\d+ consumers: .*)$`)

var registered = regexp.MustCompile(`path: "(/[^"]*)", title`)

// everyPageIsChecked compares the pages with the addresses that stories had axe look at, by day and night, on wide and narrow screens.
func everyPageIsChecked(t *testing.T, folder, checked string) {
	t.Helper()
	source, err := os.ReadFile(filepath.Join(folder, "src", "pages.ts"))
	if err != nil {
		t.Fatal(err)
	}
	looked, err := os.ReadFile(checked)
	if err != nil {
		t.Fatalf("no story had a page looked at: %v", err)
	}
	pages := registered.FindAllSubmatch(source, -1)
	if len(pages) < 5 {
		t.Errorf("only %d pages were found in pages.ts", len(pages))
	}
	for _, page := range pages {
		path := string(page[1])
		address := regexp.MustCompile(`(?m)^` + regexp.MustCompile(`:\w+`).ReplaceAllString(path, `[^/\n]+`) + `$`)
		if !address.Match(looked) {
			t.Errorf("no story has axe look at the page %s: checked(page)", path)
		}
	}
}

// program is where a program is; the test is skipped where there is none, but in continuous integration.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		if os.Getenv("CI") == "" {
			t.Skipf("there is no %s", name)
		}
		t.Fatal(err)
	}
	return path
}

// withoutMake is the environment without what a make gives the programs that it starts: another make would take it for its own.
func withoutMake() []string {
	var out []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "MAKE") && !strings.HasPrefix(v, "MFLAGS=") {
			out = append(out, v)
		}
	}
	return out
}

type outcome struct {
	out string
	err error
}

// tell runs node's test runner over the stories, two files at a time: a browser takes a core by itself. Its report ends with the stories
// that failed, each with its reason.
func tell(ctx context.Context, node, folder string, env []string) outcome {
	stories, err := filepath.Glob(filepath.Join(folder, "stories", "*.mjs"))
	if err != nil {
		return outcome{err: err}
	}
	args := []string{"--test", "--test-reporter=spec", "--test-concurrency=2"}
	for _, story := range stories {
		name := filepath.Base(story)
		if name == "lib.mjs" || !asked(name) {
			continue
		}
		args = append(args, filepath.Join("stories", name))
	}
	cmd := exec.CommandContext(ctx, node, args...)
	cmd.Dir, cmd.Env = folder, append(withoutMake(), env...)
	out, err := cmd.CombinedOutput()
	return outcome{string(out), err}
}

// written is what the product has printed, and its logs.
func written(t *testing.T, product *instance.Instance) map[string][]byte {
	t.Helper()
	out := map[string][]byte{"what the product printed": []byte(product.Output())}
	root := os.DirFS(filepath.Join(product.Data(), "logs"))
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		raw, err := fs.ReadFile(root, name)
		out["logs/"+name] = raw
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

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

	"github.com/gatewright/gatewright/internal/system/instance"
	"github.com/gatewright/gatewright/internal/system/instance/fill"
)

// storiesVar is the variable with which the test bundles the console and runs its stories. This needs Node and npm, and
// takes minutes.
const storiesVar = "GATEWRIGHT_TEST_CONSOLE"

// selectedStoriesVar is the variable with the names of the stories to run, such as buckets.mjs. Without it, the test
// runs all stories.
const selectedStoriesVar = "GATEWRIGHT_TEST_CONSOLE_STORIES"

// The bucket with very many consumers, whose page large.mjs opens.
const (
	largeBucket = "very-large"
	largeCount  = 100_000
)

// TestConsoleStories runs all stories. Each file contains its own assertions, and lib.mjs contains the assertions that
// all stories share.
func TestConsoleStories(t *testing.T) {
	if os.Getenv(storiesVar) == "" {
		t.Skip("make test-console bundles the console and runs this test")
	}
	browser := findProgram(t, "chromium")
	node := findProgram(t, "node")
	repository := filepath.Join("..", "..", "..")
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
	var caller struct{ Account string }
	if err := product.RequestJSON(t.Context(), &caller, "GET", "/v1/who-am-i", ""); err != nil {
		t.Fatal(err)
	}
	// The stories have a separate key, because the product prints the key of the first start for the person who started it.
	var created struct{ Key string }
	if err := product.RequestJSON(t.Context(), &created, "POST", "/v1/accounts/"+caller.Account+"/account-keys",
		`{"label":"the console's","scopes":"all"}`); err != nil {
		t.Fatal(err)
	}
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte(created.Key), 0o600); err != nil {
		t.Fatal(err)
	}
	if isRequested("large.mjs") {
		// Create the large bucket while the product is stopped, because requests would take minutes. Then start the
		// product again.
		stop()
		if err := fill.CreateBucket(t.Context(), product.Data(), product.Key, fill.Bucket{
			BucketsPath: "/v1/accounts/" + caller.Account + "/key-buckets", Name: largeBucket, Consumers: largeCount,
			Unrecorded: true, Consumer: consumer,
		}); err != nil {
			t.Fatal(err)
		}
		if product, err = instance.Start(t.Context(), dir, repository, "dist/local"); err != nil {
			t.Fatal(err)
		}
		stopped = false
	}
	log := filepath.Join(t.TempDir(), "checked")
	result := runStories(t.Context(), node, filepath.Join(repository, "console"), []string{
		"GATEWRIGHT_CONSOLE_API=" + product.API, "GATEWRIGHT_CONSOLE_GATEWAY=" + product.Gateway,
		"GATEWRIGHT_CONSOLE_ACCOUNT=" + caller.Account,
		"GATEWRIGHT_CONSOLE_KEY_FILE=" + key, "GATEWRIGHT_CONSOLE_BROWSER=" + browser, "GATEWRIGHT_CONSOLE_CHECKED=" + log,
		"GATEWRIGHT_CONSOLE_DATA=" + product.Data(),
		"GATEWRIGHT_CONSOLE_LARGE_BUCKET=" + largeBucket, "GATEWRIGHT_CONSOLE_CONSUMERS=" + strconv.Itoa(largeCount),
	})
	if result.err != nil {
		t.Errorf("run of the stories: error = %v, want none:\n%s", result.err, result.out)
	}
	// A run without stories would succeed too.
	if !strings.Contains(result.out, "\nℹ pass ") || strings.Contains(result.out, "\nℹ pass 0\n") {
		t.Errorf("the run has no story that passed, want at least one:\n%s", result.out)
	}
	for _, figure := range figures.FindAllStringSubmatch(result.out, -1) {
		t.Log(figure[1])
	}
	if os.Getenv(selectedStoriesVar) == "" {
		checkPagesCovered(t, filepath.Join(repository, "console"), log)
	}
	stop()
	for name, text := range writtenFiles(t, product) {
		if bytes.Contains(text, []byte(created.Key)) {
			t.Errorf("%s contains the account key that signed in to the console, want no key", name)
		}
	}
}

// consumer returns the request body that creates consumer n of the large bucket; large.mjs relies on its fields.
func consumer(n int) string {
	plan := "free"
	if n%10 == 0 {
		plan = "gold"
	}
	return fmt.Sprintf(`{"name":"c-%06d","description":"Consumer %[1]d","tags":{"plan":%[2]q}}`, n, plan)
}

// isRequested reports whether a file's stories are run.
func isRequested(name string) bool {
	selected := strings.Fields(os.Getenv(selectedStoriesVar))
	return len(selected) == 0 || slices.Contains(selected, name)
}

// figures matches the measurements that stories print about the page with very many consumers.
var figures = regexp.MustCompile(`(?m)^ *ℹ (\d+ consumers: .*)$`)

// registered matches a page in console/src/pages.ts.
var registered = regexp.MustCompile(`path: "(/[^"]*)", title`)

// checkPagesCovered checks that every page of the console is among the addresses that stories have checked with axe, by
// day and by night, on wide and on narrow screens.
func checkPagesCovered(t *testing.T, folder, checked string) {
	t.Helper()
	source, err := os.ReadFile(filepath.Join(folder, "src", "pages.ts"))
	if err != nil {
		t.Fatal(err)
	}
	visited, err := os.ReadFile(checked)
	if err != nil {
		t.Fatalf("read the list of checked pages: %v", err)
	}
	pages := registered.FindAllSubmatch(source, -1)
	if len(pages) < 5 {
		t.Errorf("pages.ts registers %d pages, want at least 5", len(pages))
	}
	for _, page := range pages {
		path := string(page[1])
		address := regexp.MustCompile(`(?m)^` + regexp.MustCompile(`:\w+`).ReplaceAllString(path, `[^/\n]+`) + `$`)
		if !address.Match(visited) {
			t.Errorf("no story checks the page %s with axe, want one: call checked(page) in a story", path)
		}
	}
}

// findProgram returns the path of a program. It skips the test if the program is missing, but fails it in continuous integration.
func findProgram(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		if os.Getenv("CI") == "" {
			t.Skipf("%s is not installed", name)
		}
		t.Fatal(err)
	}
	return path
}

// withoutMake returns the environment without the variables that make sets for its children, because a child make would
// use them.
func withoutMake() []string {
	var out []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "MAKE") && !strings.HasPrefix(v, "MFLAGS=") {
			out = append(out, v)
		}
	}
	return out
}

// outcome is the result of a run of the stories.
type outcome struct {
	out string
	err error
}

// runStories runs Node's test runner for the stories, two files at a time, because one browser uses a whole core. The runner's report ends with
// the stories that failed, each with its reason.
func runStories(ctx context.Context, node, folder string, env []string) outcome {
	stories, err := filepath.Glob(filepath.Join(folder, "stories", "*.mjs"))
	if err != nil {
		return outcome{err: err}
	}
	args := []string{"--test", "--test-reporter=spec", "--test-concurrency=2"}
	for _, story := range stories {
		name := filepath.Base(story)
		if name == "lib.mjs" || !isRequested(name) {
			continue
		}
		args = append(args, filepath.Join("stories", name))
	}
	cmd := exec.CommandContext(ctx, node, args...)
	cmd.Dir, cmd.Env = folder, append(withoutMake(), env...)
	if len(args) == 3 { // without a file, node would search the folder for tests
		return outcome{err: fmt.Errorf("there are no stories in %s", folder)}
	}
	out, err := cmd.CombinedOutput()
	return outcome{string(out), err}
}

// writtenFiles returns what the product has printed, and its logs.
func writtenFiles(t *testing.T, product *instance.Instance) map[string][]byte {
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

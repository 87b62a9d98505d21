package main

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gatewright/gatewright/internal/readme"
)

// The heading of CONTRIBUTING.md whose commands are run, what they make, and how
// many there may be: fewer than this.
const (
	heading     = "Add a group"
	made        = "badges"
	tooMany     = 10
	contributes = "CONTRIBUTING.md"
)

// derived are the files that a group may change beside its own: of the whole
// product, and written by make goldens. The list is closed. What is added to it
// is edited, or merged, by everybody who adds a group.
var derived = map[string]*regexp.Regexp{
	"functions/platform/openapi.json": nil,
	// What the MCP server of all operations links.
	"functions/mcp/deps.txt": nil,
	// What of its records that server may ask for: it tries operations.
	"infra/testdata/functions/mcp.txt": nil,
	// What the hook of releases links to know the operations of all groups, and which versions it may call.
	"functions/releasecheck/deps.txt":           nil,
	"infra/testdata/functions/releasecheck.txt": nil,
	// The tools that are made of it, as they are served and as they are shown.
	"shared/apitools/made.json": nil,
	// The paths and methods that installations have.
	"infra/testdata/apis.txt": nil,
	// Its function, which no update may make again.
	"infra/testdata/kept.txt": nil,
	// The space and the attributes of its records.
	"internal/house/testdata/stored.txt": nil,
	"shared/apitools/testdata/tools.txt": nil,
	// What the installation costs, in tables that a test writes.
	"docs/cost.md": tables,
	// The bounds of its requests.
	"docs/limits.md": tables,
	// What it says is not there.
	"docs/problems.md": tables,
	"README.md":        tables,
}

var tables = regexp.MustCompile(`(?s)<!-- table: .*?<!-- end of the table -->`)

// TestGroupIsAddedByTheCheckList follows the check-list to the letter, in a copy
// of the tree: few commands make a group that every guard has looked at, and
// touch nothing but its own and one line.
func TestGroupIsAddedByTheCheckList(t *testing.T) {
	steps, err := readme.Page(filepath.Join(repository, contributes), heading, nil)
	if err != nil {
		t.Fatal(err)
	}
	if n := commands(steps); n >= tooMany {
		t.Errorf("%s takes %d commands to add a group, which is too many: fewer than %d", contributes, n, tooMany)
	}
	c := newCopy(t)
	outputs, err := readme.Run(t.Context(), c.dir, c.env(), steps)
	if err != nil {
		t.Fatalf("%s:%s", contributes, passing.ReplaceAllString(err.Error(), ""))
	}
	t.Run("it touches its own rooms and one line", c.touched)
	t.Run("every guard has looked at it", func(t *testing.T) { looked(t, strings.Join(outputs, "\n")) })
	t.Run("a second time writes over nothing", func(t *testing.T) {
		before := c.git("status", "--porcelain", "-uall")
		if _, err := add(t.Context(), c.dir, made, "badge", "projects"); err == nil || !strings.Contains(err.Error(), "functions/badges exists") {
			t.Errorf("got %v", err)
		}
		if after := c.git("status", "--porcelain", "-uall"); after != before {
			t.Errorf("it left\n%s", after)
		}
	})
	t.Run("other names compile as well", func(t *testing.T) {
		if _, err := add(t.Context(), c.dir, "edge-certificates", "edge-certificate", "ca-certificates"); err != nil {
			t.Error(err)
		}
	})
	t.Run("linters find nothing", c.lint)
}

// passing are the lines about tests that have nothing to tell.
var passing = regexp.MustCompile(`(?m)^ *(=== .*|--- (PASS|SKIP): .*)\n`)

// commands counts what a person types.
func commands(steps []readme.Step) (n int) {
	for _, s := range steps {
		for line := range strings.Lines(s.Commands) {
			line, _, _ = strings.Cut(strings.TrimSpace(line), "#")
			for _, command := range regexp.MustCompile(`&&|\|\||[;|]`).Split(line, -1) {
				if strings.TrimSpace(command) != "" {
					n++
				}
			}
		}
	}
	return n
}

func TestCommandsAreCountedAsTheyAreTyped(t *testing.T) {
	if n := commands([]readme.Step{{Commands: "a # one\n\n# none\nb && c\n"}, {Commands: "d; e | f"}}); n != 6 {
		t.Errorf("got %d", n)
	}
}

// copied is a copy of the tree, with what is not committed, as a repository of
// its own.
type copied struct {
	*testing.T
	dir, root string
}

// newCopy makes the copy in dist, always in the same place: Go compiles what
// stands in another folder anew, which takes a minute. One test at a time uses it.
func newCopy(t *testing.T) *copied {
	t.Helper()
	root, err := filepath.Abs(repository)
	if err != nil {
		t.Fatal(err)
	}
	c := &copied{T: t, root: root, dir: filepath.Join(root, "dist", "newgroup")}
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	lock, err := os.Create(c.dir + ".lock")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lock.Close() })
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	kept := map[string]bool{}
	for name := range strings.SplitSeq(strings.TrimSuffix(c.run(root, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"), "\x00"), "\x00") {
		if c.copyFile(name) {
			kept[filepath.Join(c.dir, name)] = true
		}
	}
	c.clear(kept)
	// The commands need nothing of what npm brings: make is told that it is there.
	c.put("local/node_modules/.package-lock.json", nil, time.Now())
	c.git("init", "-q", "-b", "main")
	c.git("-c", "core.looseCompression=0", "add", "-A")
	c.git("-c", "user.name=nobody", "-c", "user.email=nobody@example.com", "commit", "-q", "-m", "The tree as it is")
	return c
}

// copyFile copies a file of the tree, unless the copy has it already: Go goes by
// the times of files. It reports whether there is one.
func (c *copied) copyFile(name string) bool {
	c.Helper()
	info, err := os.Lstat(filepath.Join(c.root, name))
	if errors.Is(err, fs.ErrNotExist) {
		return false // removed, and not committed yet
	}
	if err != nil {
		c.Fatal(err)
	}
	if !info.Mode().IsRegular() {
		c.Fatalf("%s is no file: teach this test to copy it", name)
	}
	text, err := os.ReadFile(filepath.Join(c.root, name))
	if err != nil {
		c.Fatal(err)
	}
	if have, err := os.ReadFile(filepath.Join(c.dir, name)); err != nil || !bytes.Equal(have, text) {
		c.put(name, text, info.ModTime())
	}
	if err := os.Chmod(filepath.Join(c.dir, name), info.Mode()); err != nil {
		c.Fatal(err)
	}
	return true
}

// put writes a file of the copy.
func (c *copied) put(name string, text []byte, modified time.Time) {
	c.Helper()
	path := filepath.Join(c.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		c.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o644); err != nil {
		c.Fatal(err)
	}
	if err := os.Chtimes(path, modified, modified); err != nil {
		c.Fatal(err)
	}
}

// clear removes what an earlier run has left in the copy.
func (c *copied) clear(kept map[string]bool) {
	c.Helper()
	var folders []string
	if err := os.RemoveAll(filepath.Join(c.dir, ".git")); err != nil {
		c.Fatal(err)
	}
	if err := filepath.WalkDir(c.dir, func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			folders = append(folders, p)
		case !kept[p]:
			return os.Remove(p)
		}
		return nil
	}); err != nil {
		c.Fatal(err)
	}
	for _, folder := range slices.Backward(folders) {
		_ = os.Remove(folder) // which those that hold something refuse
	}
}

// env is the environment of a person who has just opened a shell: without what
// the make that runs this test says to its children. Tests are to name
// themselves.
func (c *copied) env() []string {
	ours := regexp.MustCompile(`^(GATEWRIGHT_|GIT_|MAKE|MFLAGS=|GNUMAKEFLAGS=|CI=|(PKG|NAME|NOUN|SCOPE|GROUP|STAGE|CONTEXT|GOFLAGS)=)`)
	env := slices.DeleteFunc(os.Environ(), ours.MatchString)
	return append(env, "GOFLAGS="+strings.TrimSpace(os.Getenv("GOFLAGS")+" -v"), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
}

// run gives what a command prints.
func (c *copied) run(dir, name string, args ...string) string {
	c.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(c.Context()), name, args...)
	cmd.Dir, cmd.Env = dir, c.env()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		c.Fatalf("%s %s: %v: %s%s", name, strings.Join(args, " "), err, out, stderr.Bytes())
	}
	return string(out)
}

func (c *copied) git(args ...string) string {
	c.Helper()
	return c.run(c.dir, "git", args...)
}

// touched holds what was changed against what may be.
func (c *copied) touched(t *testing.T) {
	rooms := []string{"functions/badges/", "events/badges/", "shared/badges/", "infra/testdata/functions/badges.txt"}
	for line := range strings.Lines(c.git("status", "--porcelain", "-uall")) {
		status, path := line[:2], strings.TrimSpace(line[3:])
		_, mayChange := derived[path]
		switch own := slices.ContainsFunc(rooms, func(room string) bool { return strings.HasPrefix(path, room) }); {
		case own && status == "??", mayChange && status == " M", path == list && status == " M":
		default:
			t.Errorf("%q %s: a new group has to leave it alone; derive it, or give it a file for each group", status, path)
		}
	}
	var added []string
	for line := range strings.Lines(c.git("diff", "-U0", list)) {
		if strings.HasPrefix(line, "+") && !strings.HasPrefix(line, "+++") || strings.HasPrefix(line, "-") && !strings.HasPrefix(line, "---") {
			added = append(added, strings.Join(strings.Fields(line), " "))
		}
	}
	if want := []string{`+ "github.com/gatewright/gatewright/functions/badges"`, "+ {badges.Group, badges.Bind},"}; !slices.Equal(added, want) {
		t.Errorf("%s is changed by %q, want %q", list, added, want)
	}
	for path, part := range derived {
		if part == nil {
			continue
		}
		now, err := os.ReadFile(filepath.Join(c.dir, path))
		if err != nil {
			t.Fatal(err)
		}
		if before := c.git("show", "HEAD:"+path); part.ReplaceAllString(before, "") != part.ReplaceAllString(string(now), "") {
			t.Errorf("%s has changed outside of the tables in it", path)
		}
	}
}

// looked asks what the tests printed for those that have to have passed.
func looked(t *testing.T, printed string) {
	var names []string
	for _, operation := range []string{"BadgesService_create", "BadgesService_read"} {
		for _, guard := range []string{
			"TestNoKeyGarbageAndExpiredKeysAreRefused", "TestMissingScopeIsForbiddenAndChangesNothing", "TestItsScopeAloneIsEnough",
			"TestTheUnseenReadsLikeTheAbsent/another_account_by_its_name", "TestTheUnseenReadsLikeTheAbsent/a_key_of_another_project",
			"TestTheUnseenReadsLikeTheAbsent/a_key_of_another_kind_of_environment",
			"TestEveryOperationUsesWhatItDeclares", "TestEveryInputHasABound", "TestLongInputIsNoFailureOfOurs", "TestAnswersFitTheirSchemas",
			"TestNoSecretIsKept", "TestEveryGoodRequestSucceeds",
			"TestEveryOperationHasItsEvent", "TestEventsReachTheirOperations", "TestEventsWithoutAKeyAreRefused",
		} {
			names = append(names, guard+"/"+operation)
		}
	}
	names = append(
		names, "TestEveryChangeLeavesItsOneRecord/BadgesService_create", "TestBadInputIsRefusedAndRecorded/BadgesService_create", "TestLooksAreNotRecorded/BadgesService_read",
		"TestEveryObjectIsMadeByItsWorld", "TestAnswers/a_badge", "TestWhatIsMadeIsRead", // its own, of the operations and of the service
		"TestEachFunctionLinksWhatItsListSays/badges", "TestTheRepositoryKeepsItsRules/KeySpaces",
		"TestFunctionsAreListed", "TestEveryOperationHasARouteToItsFunction", "TestEachFunctionMayDoWhatItDeclares",
	)
	for _, name := range names {
		if !strings.Contains(printed, "--- PASS: "+name+" (") {
			t.Errorf("%s has not passed, or has not run", name)
		}
	}
	if strings.Contains(printed, "--- SKIP: TestAnswersFitTheirSchemas/Badges") {
		t.Error("an answer was not looked at")
	}
}

// lint runs the linters that make lint has installed.
func (c *copied) lint(t *testing.T) {
	found, err := filepath.Glob(filepath.Join(c.root, ".bin", "golangci-lint-v*"))
	if err != nil {
		t.Fatal(err)
	}
	if len(found) == 0 {
		t.Skip("make lint installs them")
	}
	// make lint has analyzed the modules that these packages import. Without its cache that takes over a minute.
	c.Setenv("GOLANGCI_LINT_CACHE", filepath.Join(c.root, ".bin", "golangci-lint-cache"))
	c.run(c.dir, found[0], "run", "./functions", "./functions/badges/...", "./shared/badges/...", "./functions/edgecertificates/...", "./shared/edgecertificates/...")
}

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

	"github.com/gatewright/gatewright/shared/testing/readme"
)

// heading is the heading in CONTRIBUTING.md whose commands the test runs, and createdGroup is the group that they
// create. There must be fewer than tooMany commands.
const (
	heading      = "Add a group"
	createdGroup = "badges"
	tooMany      = 10
	checklist    = "CONTRIBUTING.md" // the path of the document from the root
)

// derived are the files that a new group can change in addition to its own files: they describe the whole product, and
// `make goldens` writes them. Do not add files to the list: everybody who adds a group would have to edit or merge
// them. A value matches the parts that can change. With nil, the whole file can change.
var derived = map[string]*regexp.Regexp{
	"functions/platform/openapi.json": nil,
	// The packages that the MCP server of all operations links.
	"functions/mcp/deps.txt": nil,
	// The access of this server to the group's records: it makes dry runs of operations.
	"infra/testdata/functions/mcp.txt": nil,
	// The packages that releasecheck links, because it knows the operations of all groups, and the versions of
	// functions that it can call.
	"functions/releasecheck/deps.txt":           nil,
	"infra/testdata/functions/releasecheck.txt": nil,
	// The tools that are generated from the group, in the served and in the displayed form.
	"shared/management/apitools/made.json": nil,
	// The paths and methods of installations.
	"infra/testdata/apis.txt": nil,
	// The group's function, which no update is allowed to create again.
	"infra/testdata/kept.txt": nil,
	// The key prefix and the attributes of the group's records.
	"internal/repolint/testdata/stored.txt":         nil,
	"shared/management/apitools/testdata/tools.txt": nil,
	// The cost of an installation, in tables that a test writes.
	"docs/cost.md": tables,
	// The limits of the group's requests.
	"docs/limits.md": tables,
	// The group's messages for missing objects.
	"docs/problems.md": tables,
	"README.md":        tables,
}

// tables matches a generated table of a document.
var tables = regexp.MustCompile(`(?s)<!-- table: .*?<!-- end of the table -->`)

// TestChecklistAddsAGroup runs the commands of the check list in CONTRIBUTING.md in a copy of the tree. They create a
// group that passes every check. They change only the group's own files, the derived files, and two lines of the list
// of groups.
func TestChecklistAddsAGroup(t *testing.T) {
	steps, err := readme.ReadSteps(filepath.Join(repository, checklist), heading, nil)
	if err != nil {
		t.Fatal(err)
	}
	if n := commands(steps); n >= tooMany {
		t.Errorf("%s needs %d commands to add a group, want fewer than %d", checklist, n, tooMany)
	}
	c := newCopy(t)
	outputs, err := readme.Run(t.Context(), c.dir, c.env(), steps)
	if err != nil {
		t.Fatalf("run the commands of %s: %s", checklist, passing.ReplaceAllString(err.Error(), ""))
	}
	t.Run("changes only in the new folders and the list of groups", c.checkChanges)
	t.Run("checks include the new group", func(t *testing.T) { checkOutput(t, strings.Join(outputs, "\n")) })
	t.Run("an existing group stays unchanged", func(t *testing.T) {
		before := c.git("status", "--porcelain", "-uall")
		if _, err := add(t.Context(), c.dir, createdGroup, "badge", "projects"); err == nil ||
			!strings.Contains(err.Error(), "functions/badges exists") {
			t.Errorf("add() of an existing group = %v, want \"functions/badges exists\"", err)
		}
		if after := c.git("status", "--porcelain", "-uall"); after != before {
			t.Errorf("add() of an existing group has changed files, want no change:\n%s", after)
		}
	})
	t.Run("names of several words compile", func(t *testing.T) {
		if _, err := add(t.Context(), c.dir, "edge-certificates", "edge-certificate", "ca-certificates"); err != nil {
			t.Errorf("add(edge-certificates) error = %v, want none", err)
		}
	})
	t.Run("linters find nothing", c.lint)
}

// passing matches the lines about tests that have passed or were skipped.
var passing = regexp.MustCompile(`(?m)^ *(=== .*|--- (PASS|SKIP): .*)\n`)

// commands returns the number of commands that a person types.
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

func TestCommandsCountsTypedCommands(t *testing.T) {
	if n := commands([]readme.Step{{Commands: "a # one\n\n# none\nb && c\n"}, {Commands: "d; e | f"}}); n != 6 {
		t.Errorf("commands() = %d, want 6", n)
	}
}

// repositoryCopy is a copy of the tree, including uncommitted files, as a separate repository.
type repositoryCopy struct {
	*testing.T
	dir, root string
}

// newCopy creates the copy in dist, always in the same folder, because Go would compile the packages of another folder
// again, which takes a minute. Only one test at a time can use the copy.
func newCopy(t *testing.T) *repositoryCopy {
	t.Helper()
	root, err := filepath.Abs(repository)
	if err != nil {
		t.Fatal(err)
	}
	c := &repositoryCopy{T: t, root: root, dir: filepath.Join(root, "dist", "newgroup")}
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
	for name := range strings.SplitSeq(strings.TrimSuffix(c.run(root, "git", "ls-files", "-z", "--cached", "--others",
		"--exclude-standard"), "\x00"), "\x00") {
		if c.copyFile(name) {
			kept[filepath.Join(c.dir, name)] = true
		}
	}
	c.clear(kept)
	// The commands need no npm packages. With this file, make assumes that npm has installed them.
	c.put("local/dev/node_modules/.package-lock.json", nil, time.Now())
	c.git("init", "-q", "-b", "main")
	c.git("-c", "core.looseCompression=0", "add", "-A")
	c.git("-c", "user.name=nobody", "-c", "user.email=nobody@example.com", "commit", "-q", "-m", "The tree as it is")
	return c
}

// copyFile copies a file of the tree with its modification time, because Go compares the times of files. It does not
// write the file again if the copy already has it with the same content. It reports whether the file exists.
func (c *repositoryCopy) copyFile(name string) bool {
	c.Helper()
	info, err := os.Lstat(filepath.Join(c.root, name))
	if errors.Is(err, fs.ErrNotExist) {
		return false // deleted, and not committed yet
	}
	if err != nil {
		c.Fatal(err)
	}
	if !info.Mode().IsRegular() {
		c.Fatalf("%s is not a regular file, want only regular files: extend copyFile to copy it", name)
	}
	text, err := os.ReadFile(filepath.Join(c.root, name))
	if err != nil {
		c.Fatal(err)
	}
	if existing, err := os.ReadFile(filepath.Join(c.dir, name)); err != nil || !bytes.Equal(existing, text) {
		c.put(name, text, info.ModTime())
	}
	if err := os.Chmod(filepath.Join(c.dir, name), info.Mode()); err != nil {
		c.Fatal(err)
	}
	return true
}

// put writes a file of the copy.
func (c *repositoryCopy) put(name string, text []byte, modified time.Time) {
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

// clear removes the repository, the files that are not kept, and the empty folders that an earlier run has left in the
// copy. kept contains the paths of the files that stay.
func (c *repositoryCopy) clear(kept map[string]bool) {
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
		_ = os.Remove(folder) // Remove fails for folders that are not empty
	}
}

// env returns the environment of a person who has just opened a shell: without our own variables, and without the
// variables that make sets for its children, if make runs this test. GOFLAGS has -v, so that the tests of the copy
// print their names.
func (c *repositoryCopy) env() []string {
	ownVars := regexp.MustCompile(
		`^(GATEWRIGHT_|GIT_|MAKE|MFLAGS=|GNUMAKEFLAGS=|CI=|(PKG|NAME|NOUN|SCOPE|GROUP|STAGE|CONTEXT|GOFLAGS)=)`)
	env := slices.DeleteFunc(os.Environ(), ownVars.MatchString)
	return append(env, "GOFLAGS="+strings.TrimSpace(os.Getenv("GOFLAGS")+" -v"), "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_CONFIG_SYSTEM=/dev/null")
}

// run runs a command in a folder and returns its standard output.
func (c *repositoryCopy) run(dir, name string, args ...string) string {
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

func (c *repositoryCopy) git(args ...string) string {
	c.Helper()
	return c.run(c.dir, "git", args...)
}

// checkChanges compares the changed files with those that a new group can change.
func (c *repositoryCopy) checkChanges(t *testing.T) {
	folders := []string{
		"functions/badges/", "events/badges/", "shared/resource/badges/",
		"infra/testdata/functions/badges.txt",
	}
	for line := range strings.Lines(c.git("status", "--porcelain", "-uall")) {
		status, path := line[:2], strings.TrimSpace(line[3:])
		_, mayChange := derived[path]
		switch inFolder := slices.ContainsFunc(folders, func(folder string) bool {
			return strings.HasPrefix(path, folder)
		}); {
		case inFolder && status == "??", mayChange && status == " M", path == groupList && status == " M":
		default:
			t.Errorf("the new group has changed %s (%q), want no change: generate the file, or split it by group", path,
				status)
		}
	}
	var added []string
	for line := range strings.Lines(c.git("diff", "-U0", groupList)) {
		if strings.HasPrefix(line, "+") && !strings.HasPrefix(line, "+++") || strings.HasPrefix(line, "-") &&
			!strings.HasPrefix(line, "---") {
			added = append(added, strings.Join(strings.Fields(line), " "))
		}
	}
	if want := []string{
		`+ "github.com/gatewright/gatewright/functions/badges"`,
		"+ {badges.Group, badges.Bind},",
	}; !slices.Equal(added, want) {
		t.Errorf("%s is changed by %q, want %q", groupList, added, want)
	}
	for path, part := range derived {
		if part == nil {
			continue
		}
		content, err := os.ReadFile(filepath.Join(c.dir, path))
		if err != nil {
			t.Fatal(err)
		}
		if before := c.git("show", "HEAD:"+path); part.ReplaceAllString(before, "") != part.ReplaceAllString(string(content),
			"") {
			t.Errorf("%s has changed outside of its tables, want no change there", path)
		}
	}
}

// checkOutput checks in the tests' output that the required tests have passed.
func checkOutput(t *testing.T, printed string) {
	var names []string
	for _, operation := range []string{"BadgesService_create", "BadgesService_read"} {
		for _, guard := range []string{
			"TestInvalidKeysAreUnauthorized", "TestMissingScopeIsForbiddenAndChangesNothing", "TestDeclaredScopeIsSufficient",
			"TestHiddenResourcesLookMissing/another_account_by_its_name",
			"TestHiddenResourcesLookMissing/a_key_of_another_project",
			"TestHiddenResourcesLookMissing/a_key_of_another_kind_of_environment",
			"TestOperationsUseDeclaredGrants", "TestEveryInputIsBounded", "TestLongParametersCauseNoInternalError",
			"TestResponsesMatchSchemas",
			"TestSecretsAreNotStoredInClear", "TestEveryValidRequestSucceeds",
			"TestEventOfEachOperation", "TestEventsReachOperations", "TestEventsWithoutAKeyAreRefused",
		} {
			names = append(names, guard+"/"+operation)
		}
	}
	names = append(
		names, "TestEveryChangeWritesOneAuditRecord/BadgesService_create",
		"TestBadInputIsRefusedAndRecorded/BadgesService_create", "TestReadsAreNotAudited/BadgesService_read",
		// the group's own tests, of its operations and its service
		"TestSamplesCreateEveryObject", "TestResponses/a_badge", "TestCreatedObjectCanBeRead",
		"TestFunctionsLinkListedPackagesOnly/badges", "TestRepositoryFollowsItsRules/KeyPrefixes",
		"TestFunctionSummariesMatchGolden", "TestEveryOperationHasARouteToItsFunction", "TestRolesMatchDeclaredUses",
	)
	for _, name := range names {
		if !strings.Contains(printed, "--- PASS: "+name+" (") {
			t.Errorf("%s has not passed or has not run, want it to pass", name)
		}
	}
	if strings.Contains(printed, "--- SKIP: TestResponsesMatchSchemas/Badges") {
		t.Error("TestResponsesMatchSchemas skips a response of Badges, want all checked")
	}
}

// lint runs the linters that `make lint` has installed.
func (c *repositoryCopy) lint(t *testing.T) {
	found, err := filepath.Glob(filepath.Join(c.root, ".bin", "golangci-lint-v*"))
	if err != nil {
		t.Fatal(err)
	}
	if len(found) == 0 {
		t.Skip("make lint installs them")
	}
	// Use the cache of `make lint`, which has analyzed the modules that these packages import. Without the cache, the
	// analysis takes over a minute.
	c.Setenv("GOLANGCI_LINT_CACHE", filepath.Join(c.root, ".bin", "golangci-lint-cache"))
	c.run(c.dir, found[0], "run", "./functions", "./functions/badges/...", "./shared/resource/badges/...",
		"./functions/edgecertificates/...", "./shared/resource/edgecertificates/...")
}

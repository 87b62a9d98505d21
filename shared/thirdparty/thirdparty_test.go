package thirdparty_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	_ "github.com/santhosh-tekuri/jsonschema/v6" //nolint:depguard // keeps the module in go.mod, which the copy is made from

	"github.com/gatewright/gatewright/shared/testing/golden"
	"github.com/gatewright/gatewright/shared/thirdparty"
	"github.com/gatewright/gatewright/shared/thirdparty/jsonschema"
)

// TestCopiesMatchTheModulesWithTheEdits compares every copy with the module that go.mod requires, file by file.
func TestCopiesMatchTheModulesWithTheEdits(t *testing.T) {
	for _, c := range thirdparty.Copies() {
		t.Run(c.Folder, func(t *testing.T) {
			want := copied(t, c)
			for _, name := range slices.Sorted(maps.Keys(want)) {
				golden.Equal(t, path.Join(c.Folder, name), want[name])
			}
			for name := range files(t, os.DirFS(c.Folder)) {
				if _, ok := want[name]; !ok {
					t.Errorf("%s contains %s, which %s %s has not: want it removed", c.Folder, name, c.Module, c.Version)
				}
			}
		})
	}
}

// TestFoldersAreCopies finds a folder that no other test would compare with a module.
func TestFoldersAreCopies(t *testing.T) {
	t.Parallel()
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var folders, want []string
	for _, e := range entries {
		if e.IsDir() {
			folders = append(folders, e.Name())
		}
	}
	for _, c := range thirdparty.Copies() {
		want = append(want, c.Folder)
	}
	if slices.Sort(want); !slices.Equal(folders, want) {
		t.Errorf("folders = %q, want those of Copies: %q", folders, want)
	}
}

// TestEditNeedsExactlyOnePlace applies an edit to files that contain its old text once, never and twice.
func TestEditNeedsExactlyOnePlace(t *testing.T) {
	t.Parallel()
	change := edit{"draft.go", "func init() {", "func ready() {"}
	for _, tt := range []struct{ name, text, want, err string }{
		{"once", "a\nfunc init() {}\n", "a\nfunc ready() {}\n", ""},
		{"missing", "a\n", "", "draft.go contains 0 times"},
		{"twice", "func init() {}\nfunc init() {}\n", "", "draft.go contains 2 times"},
	} {
		got := map[string]string{"draft.go": tt.text}
		err := apply(got, []edit{change})
		if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
			t.Errorf("apply(%s) error = %v, want %q", tt.name, err, tt.err)
		}
		if tt.err == "" && got["draft.go"] != tt.want {
			t.Errorf("apply(%s) = %q, want %q", tt.name, got["draft.go"], tt.want)
		}
	}
}

// TestLibraryPassesItsOwnTests runs the library's own tests with the copy: first all of them in one process, then each
// in a separate process, because the first compiler of a process compiles the metaschemas.
func TestLibraryPassesItsOwnTests(t *testing.T) {
	t.Parallel()
	for _, c := range thirdparty.Copies() {
		module := filepath.Join(t.TempDir(), "module")
		if err := os.CopyFS(module, os.DirFS(source(t, c))); err != nil {
			t.Fatal(err)
		}
		binary := filepath.Join(t.TempDir(), "tests")
		output(t, ".", "go", "test", "-vet=off", "-overlay="+overlay(t, c, module), "-c", "-o", binary, c.ImportPath())
		passed := output(t, module, binary, "-test.run=^Test", "-test.v")
		var names []string
		for line := range strings.Lines(passed) {
			if name, ok := strings.CutPrefix(line, "--- PASS: "); ok {
				names = append(names, strings.Fields(name)[0])
			}
		}
		if len(names) < 10 {
			t.Fatalf("%s: %d tests of the library passed, want 10 or more:\n%s", c.Folder, len(names), passed)
		}
		for _, name := range names {
			output(t, module, binary, "-test.run=^"+name+"$")
		}
	}
}

// TestFirstCompilersWaitForTheMetaschemas makes the first compilers of a process in many goroutines at once.
func TestFirstCompilersWaitForTheMetaschemas(t *testing.T) {
	const child = "GATEWRIGHT_TEST_FIRST_COMPILERS"
	if os.Getenv(child) == "" {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), child+"=yes")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("the first compilers of a process: %v, want no error\n%s", err, out)
		}
		return
	}
	var wg sync.WaitGroup
	start := make(chan struct{})
	for range 32 {
		wg.Go(func() {
			<-start
			c := jsonschema.NewCompiler()
			if err := c.AddResource("s.json", map[string]any{"type": json.Number("7")}); err != nil {
				t.Errorf("AddResource error = %v, want none", err)
			}
			if _, err := c.Compile("s.json"); err == nil {
				t.Error("Compile(type: 7) error = nil, want one: the metaschema refuses the type")
			}
		})
	}
	close(start)
	wg.Wait()
}

// overlay returns a file for go test -overlay that adds the module's tests to the copy. An example that needs a module
// which nothing else needs is left out.
func overlay(t *testing.T, c thirdparty.Copy, module string) string {
	t.Helper()
	replace := map[string]string{}
	tests, err := filepath.Glob(filepath.Join(module, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	folder, err := filepath.Abs(c.Folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range tests {
		if filepath.Base(name) == "example_regexp_test.go" {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(strings.ReplaceAll(string(text), `"`+c.Module, `"`+c.ImportPath())),
			0o600); err != nil {
			t.Fatal(err)
		}
		replace[filepath.Join(folder, filepath.Base(name))] = name
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(t.TempDir(), "overlay.json")
	if err := os.WriteFile(list, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return list
}

// source returns the folder of the module that a copy is made from. It fails when go.mod requires another version.
func source(t *testing.T, c thirdparty.Copy) string {
	t.Helper()
	output(t, ".", "go", "mod", "download", c.Module) // needs no network when the module cache has it
	fields := strings.Fields(output(t, ".", "go", "list", "-m", "-f={{.Version}} {{.Dir}}", c.Module))
	if len(fields) != 2 || fields[0] != c.Version {
		t.Fatalf("go.mod requires %s %q, want %s as in Copies: change Copies and run go test ./shared/thirdparty -update",
			c.Module, fields, c.Version)
	}
	return fields[1]
}

// copied returns the files of a copy, with the edits. The copy has the module's files except tests, test data, go.mod,
// go.sum, Markdown files and hidden files.
func copied(t *testing.T, c thirdparty.Copy) map[string]string {
	t.Helper()
	all := files(t, os.DirFS(source(t, c)))
	maps.DeleteFunc(all, func(name, _ string) bool {
		top, _, _ := strings.Cut(name, "/")
		return strings.HasPrefix(name, ".") || strings.HasSuffix(name, "_test.go") || top == "testdata" ||
			strings.HasPrefix(name, "go.") || path.Ext(name) == ".md"
	})
	if err := apply(all, edits(c.Folder)); err != nil {
		t.Fatalf("%s %s: %v\nThis release needs other edits (edits in thirdparty_test.go), or no copy any more", c.Module,
			c.Version, err)
	}
	for name, text := range all {
		if path.Ext(name) == ".go" {
			all[name] = fmt.Sprintf("// Code generated by go test ./shared/thirdparty -update from %s %s. DO NOT EDIT.\n\n",
				c.Module, c.Version) +
				strings.ReplaceAll(text, `"`+c.Module, `"`+c.ImportPath())
		}
	}
	return all
}

// apply makes edits in files.
func apply(files map[string]string, edits []edit) error {
	for _, e := range edits {
		if n := strings.Count(files[e.file], e.old); n != 1 {
			return fmt.Errorf("%s contains %d times, want once: %q", e.file, n, e.old)
		}
		files[e.file] = strings.Replace(files[e.file], e.old, e.text, 1)
	}
	return nil
}

// files returns the text of every file by its path.
func files(t *testing.T, tree fs.FS) map[string]string {
	t.Helper()
	all := map[string]string{}
	if err := fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(tree, name)
		all[name] = string(text)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

// output runs a program in a folder and returns both streams of its output.
func output(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}

package clientbuild

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/gatewright/gatewright/client/commands" // what is built here, so that a result of before is not taken for one of it
)

const repository = "../.."

// TestLibraryDoesWhatItDid runs the library's own tests with the changed one: one after the other, and each alone, since the
// first that makes a compiler has the metaschemas compiled.
func TestLibraryDoesWhatItDid(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	modfile, err := Modules(t.Context(), repository, dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "jsonschema", "atonce_test.go"), []byte(atOnce), 0o600); err != nil {
		t.Fatal(err)
	}
	// An example is of a module that nothing else needs.
	if err := os.Remove(filepath.Join(dir, "jsonschema", "example_regexp_test.go")); err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "tests")
	goes(t, repository, "go", "test", "-modfile="+modfile, "-vet=off", "-c", "-o", binary, patched)
	module := filepath.Join(dir, "jsonschema")
	passed := goes(t, module, binary, "-test.run=^Test", "-test.v")
	var names []string
	for line := range strings.Lines(passed) {
		if name, ok := strings.CutPrefix(line, "--- PASS: "); ok {
			names = append(names, strings.Fields(name)[0])
		}
	}
	if len(names) < 10 {
		t.Fatalf("only %d tests of the library passed:\n%s", len(names), passed)
	}
	for _, name := range names {
		goes(t, module, binary, "-test.run=^"+name+"$")
	}
}

// atOnce has goroutines make the first compiler at once: whoever comes second waits until the metaschemas are compiled.
const atOnce = `package jsonschema

import (
	"strings"
	"sync"
	"testing"
)

func TestFirstCompilersAreMadeAtOnce(t *testing.T) {
	var all sync.WaitGroup
	begin := make(chan struct{})
	for i := 0; i < 32; i++ {
		all.Go(func() {
			<-begin
			c := NewCompiler()
			schema, err := UnmarshalJSON(strings.NewReader("{\"type\": 7}"))
			if err == nil {
				err = c.AddResource("s.json", schema)
			}
			if err != nil {
				t.Error(err)
			}
			if _, err := c.Compile("s.json"); err == nil {
				t.Error("what the metaschema refuses is compiled")
			}
		})
	}
	close(begin)
	all.Wait()
}
`

// TestNothingLargeIsMadeReadyAtTheStart asks the client what its packages make ready as they are imported, whatever was typed. Bytes of the heap
// are the same each time, where times are not: gojq's 200 kB are the most, and the library's metaschemas were 1.7 MB.
func TestNothingLargeIsMadeReadyAtTheStart(t *testing.T) {
	t.Parallel()
	binary := filepath.Join(t.TempDir(), "gatewright")
	if err := Build(t.Context(), repository, binary); err != nil {
		t.Fatal(err)
	}
	const most = 256 << 10
	cmd := exec.CommandContext(t.Context(), binary, "--help")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	var says strings.Builder
	cmd.Stderr = &says
	if err := cmd.Run(); err != nil {
		t.Fatalf("--help: %v: %s", err, says.String())
	}
	var packages []string
	for _, line := range regexp.MustCompile(`(?m)^init (\S+) @.* (\d+) bytes, \d+ allocs$`).FindAllStringSubmatch(says.String(), -1) {
		packages = append(packages, line[1])
		if bytes, err := strconv.Atoi(line[2]); err != nil || bytes > most {
			t.Errorf("%s takes %s bytes as it is imported, and each command of the client waits for it: at most %d are taken", line[1], line[2], most)
		}
	}
	if len(packages) < 50 {
		t.Errorf("%d packages are told of, which cannot be all:\n%s", len(packages), says.String())
	}
}

// TestMakeBuildsItSo reads what make does for the client of this machine and for those that are packed.
func TestMakeBuildsItSo(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "make", "-n", "--no-print-directory", "dist/gatewright", "dist/amd64/gatewright", "dist/arm64/gatewright")
	cmd.Dir = repository
	cmd.Env = append(os.Environ(), "MAKEFLAGS=", "MAKELEVEL=")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("make -n: %v\n%s", err, out)
	}
	built := 0
	for line := range strings.Lines(string(out)) {
		if !strings.HasSuffix(line, " "+Package+"\n") {
			continue
		}
		built++
		if !strings.Contains(line, " GOWORK=off go build -modfile=.bin/modules/go.mod -trimpath ") {
			t.Errorf("make builds a client that starts later, or none in a workspace: %s", line)
		}
	}
	if built != 3 {
		t.Errorf("make builds %d clients, want 3:\n%s", built, out)
	}
}

// TestAnotherReleaseIsRefused has a place that an edit is for gone, or there twice.
func TestAnotherReleaseIsRefused(t *testing.T) {
	t.Parallel()
	change := edit{"draft.go", "func init() {", "func ready() {"}
	for name, c := range map[string]struct{ text, want, err string }{
		"once":  {"a\nfunc init() {}\n", "a\nfunc ready() {}\n", ""},
		"gone":  {"a\n", "a\n", "has 0 times"},
		"twice": {"func init() {}\nfunc init() {}\n", "func init() {}\nfunc init() {}\n", "has 2 times"},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, change.file)
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		err := apply(dir, []edit{change})
		if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err) || !strings.Contains(err.Error(), "another release")) {
			t.Errorf("%s: %v, want %q", name, err, c.err)
		}
		if text, err := os.ReadFile(path); err != nil || string(text) != c.want {
			t.Errorf("%s: the file is %q, %v; want %q", name, text, err, c.want)
		}
	}
}

// TestWhatWasThereIsReplaced has the modules of another commit, newer than the go.mod that they are made of, and what killed processes left.
func TestWhatWasThereIsReplaced(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	modfile, err := Modules(t.Context(), repository, dir)
	if err != nil {
		t.Fatal(err)
	}
	in := func(name string) string { return filepath.Join(dir, name) }
	want := map[string]string{}
	for _, name := range []string{"go.mod", "go.sum", "jsonschema/compiler.go"} {
		text, err := os.ReadFile(in(name))
		if err != nil {
			t.Fatal(err)
		}
		want[name] = string(text)
	}
	other := func(name string) error { return os.WriteFile(in(name), []byte("package other\n"), 0o600) }
	for name, left := range map[string]func() error{
		"another file":      func() error { return other("jsonschema/left.go") },
		"another go.mod":    func() error { return other("go.mod") },
		"another go.sum":    func() error { return other("go.sum") },
		"another module":    func() error { return other("jsonschema/compiler.go") },
		"killed at first":   func() error { return os.Remove(in("go.mod")) },
		"killed in between": func() error { return errors.Join(os.Remove(in("go.mod")), os.RemoveAll(in("jsonschema"))) },
		"killed as it began": func() error {
			return errors.Join(os.MkdirAll(in("new/jsonschema"), 0o700), other("new/jsonschema/left.go"))
		},
	} {
		if err := left(); err != nil {
			t.Fatal(err)
		}
		if again, err := Modules(t.Context(), repository, dir); err != nil || again != modfile {
			t.Fatalf("%s: %s, %v; want %s", name, again, err, modfile)
		}
		for file, text := range want {
			if is, err := os.ReadFile(in(file)); err != nil || string(is) != text {
				t.Errorf("%s: %s is %.40q, %v", name, file, is, err)
			}
		}
		for _, gone := range []string{"jsonschema/left.go", "new"} {
			if _, err := os.Stat(in(gone)); !os.IsNotExist(err) {
				t.Errorf("%s: %s is still there: %v", name, gone, err)
			}
		}
	}
}

// TestModulesAreMadeBesideOthers has processes make the modules at once, of which each builds with them as soon as it has them.
func TestModulesAreMadeBesideOthers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			modfile, err := Modules(t.Context(), repository, dir)
			if err != nil {
				t.Errorf("beside others: %v", err)
				return
			}
			for range 200 {
				for _, name := range []string{modfile, filepath.Join(dir, "jsonschema", "compiler.go")} {
					if _, err := os.Stat(name); err != nil {
						t.Errorf("while it is built with: %v", err)
						return
					}
				}
				time.Sleep(time.Millisecond)
			}
		})
	}
	all.Wait()
}

// TestModulesAreThoseOfNoWorkspace: a developer's workspace around the repository has no say, and knows no -modfile.
func TestModulesAreThoseOfNoWorkspace(t *testing.T) {
	t.Setenv("GOWORK", filepath.Join(t.TempDir(), "go.work"))
	if _, err := Modules(t.Context(), repository, t.TempDir()); err != nil {
		t.Error(err)
	}
}

// TestProgramsTellOfNoFolderOfThisMachine has the changed module within the repository and elsewhere: its path is carried by what is built.
func TestProgramsTellOfNoFolderOfThisMachine(t *testing.T) {
	t.Parallel()
	root, elsewhere := t.TempDir(), t.TempDir()
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(repository, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(root, name), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for dir, want := range map[string]string{filepath.Join(root, ".bin", "modules"): "./.bin/modules/jsonschema", elsewhere: filepath.Join(elsewhere, "jsonschema")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := replaced(t.Context(), root, dir, filepath.Join(dir, "jsonschema")); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err != nil || !strings.Contains(string(text), "\nreplace "+patched+" => "+want+"\n") {
			t.Errorf("%s: want %q in\n%s%v", dir, want, text, err)
		}
	}
	if text, err := os.ReadFile(filepath.Join(root, "go.mod")); err != nil || strings.Contains(string(text), "\nreplace "+patched) {
		t.Errorf("the repository's own go.mod became\n%s%v", text, err)
	}
}

// goes runs a program in a folder and returns what it prints, of both streams.
func goes(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}

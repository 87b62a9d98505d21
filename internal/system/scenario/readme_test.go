package scenario_test

import (
	"cmp"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/testing/freeport"
	"github.com/gatewright/gatewright/shared/testing/readme"
)

// varOffline is the variable with the folder of the data that an earlier start with a network has created, for a run
// without a network (TestReadmeWithoutANetwork).
const varOffline = "GATEWRIGHT_SCENARIO_OFFLINE"

// TestReadmeFiveMinutes runs the README's commands, read from its text, with `make run` in another terminal.
func TestReadmeFiveMinutes(t *testing.T) {
	if os.Getenv(varAPI) != "" {
		t.Skip(varAPI + " selects an installation, but this test needs the local run")
	}
	t.Parallel()
	proxy := failingProxy(t)
	p := startProduct(t, cmp.Or(os.Getenv(varOffline), t.TempDir()),
		append(append([]string{"env"}, proxy...), "make", "run")...)
	// Replace the ports with free ports, and the folders with folders of the test.
	replacer := strings.NewReplacer(
		"http://127.0.0.1:9000", p.API,
		".gatewright/", p.Data()+"/",
		"examples/hello", sampleWithUpstream(t, "hello", freeport.Address(t).String()),
	)
	steps := afterStart(t, "Five minutes", replacer)
	env := append(append(os.Environ(), "GATEWRIGHT_DATA_DIR="+p.Data()), proxy...)
	if _, err := readme.Run(t.Context(), "../../..", env, steps); err != nil {
		t.Fatalf("run the documented commands: %v, want no error", err)
	}
}

// TestReadmeTunnel runs the commands of the README's section about a service behind a tunnel. TestReadmeFiveMinutes runs the commands
// that build the programs.
func TestReadmeTunnel(t *testing.T) {
	if os.Getenv(varAPI) != "" {
		t.Skip(varAPI + " selects an installation, but this test needs the local run")
	}
	client := isolatedClient(t)
	p := startProduct(t, t.TempDir(), "dist/local")
	service := freeport.Address(t).String()
	replacer := strings.NewReplacer(
		"http://127.0.0.1:9000", p.API, "http://127.0.0.1:9003", p.Relay, "127.0.0.1:9002", service,
		".gatewright/", p.Data()+"/", "make cli\n", "", "dist/gatewright", client,
		"examples/hello", sampleWithUpstream(t, "hello", service),
	)
	steps := afterStart(t, "A service that only your machine sees", replacer)
	if _, err := readme.Run(t.Context(), "../../..", withoutMake(os.Environ()), steps); err != nil {
		t.Fatalf("run the documented commands: %v, want no error", err)
	}
}

// afterStart returns the README's steps under a heading, except the first step, which starts the product.
func afterStart(t *testing.T, heading string, replacer *strings.Replacer) []readme.Step {
	t.Helper()
	steps, err := readme.ReadSteps("../../../README.md", heading, replacer)
	if err != nil {
		t.Fatal(err)
	}
	if steps[0].Commands != "make run" {
		t.Fatalf("the first step below %q is %q, want \"make run\"", heading, steps[0].Commands)
	}
	return steps[1:]
}

// sampleWithUpstream copies a project of examples/ and changes the address of its upstream. The copy can still use the
// folders next to examples/ that it needs.
func sampleWithUpstream(t *testing.T, name, address string) (folder string) {
	t.Helper()
	root := t.TempDir()
	local, err := filepath.Abs("../../../local")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(local, filepath.Join(root, "local")); err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	folder = filepath.Join(root, "examples", name)
	upstream, project := false, false
	for path, text := range sample(t, name) {
		upstream = upstream || strings.HasPrefix(path, "upstream.") && strings.Contains(text, "9002")
		project = project || strings.HasPrefix(path, "config/") && strings.Contains(text, "9002")
		path = filepath.Join(folder, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(strings.ReplaceAll(text, "9002", port)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if !upstream || !project {
		t.Fatalf("the sample names port 9002 in its upstream = %v, in its project = %v, want both", upstream, project)
	}
	return folder
}

// sample returns the files of a project of examples/.
func sample(t *testing.T, name string) files {
	t.Helper()
	folder, f := os.DirFS("../../../examples/"+name), files{}
	err := fs.WalkDir(folder, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(folder, path)
		f[path] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

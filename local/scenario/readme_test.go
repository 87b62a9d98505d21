package scenario_test

import (
	"cmp"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/internal/free"
	"github.com/gatewright/gatewright/internal/readme"
)

// varOffline is the folder of the data that a start with a network has made, in a run without one (TestReadmeWithoutANetwork).
const varOffline = "GATEWRIGHT_SCENARIO_OFFLINE"

// TestReadmeFiveMinutes types what the README says, from its own text, with
// `make run` in another terminal.
func TestReadmeFiveMinutes(t *testing.T) {
	if os.Getenv(varAPI) != "" {
		t.Skip("it is about the local run")
	}
	t.Parallel()
	proxy := failingProxy(t)
	p := running(t, cmp.Or(os.Getenv(varOffline), t.TempDir()), append(append([]string{"env"}, proxy...), "make", "run")...)
	// What differs here: free ports, and folders of the test's own.
	here := strings.NewReplacer(
		"http://127.0.0.1:9000", p.API,
		".gatewright/", p.Data()+"/",
		"examples/hello", sampleWithUpstream(t, "hello", free.Address(t).String()),
	)
	steps := afterStart(t, "Five minutes", here)
	env := append(append(os.Environ(), "GATEWRIGHT_DATA_DIR="+p.Data()), proxy...)
	if _, err := readme.Run(t.Context(), "../..", env, steps); err != nil {
		t.Fatal(err)
	}
}

// TestReadmeTunnel types the README's section about a service behind a tunnel. TestReadmeFiveMinutes types the commands that build the programs.
func TestReadmeTunnel(t *testing.T) {
	if os.Getenv(varAPI) != "" {
		t.Skip("it is about the local run")
	}
	client := ownClient(t)
	p := running(t, t.TempDir(), "dist/local")
	service := free.Address(t).String()
	here := strings.NewReplacer(
		"http://127.0.0.1:9000", p.API, "http://127.0.0.1:9003", p.Relay, "127.0.0.1:9002", service,
		".gatewright/", p.Data()+"/", "make cli\n", "", "dist/gatewright", client,
		"examples/hello", sampleWithUpstream(t, "hello", service),
	)
	steps := afterStart(t, "A service that only your machine sees", here)
	if _, err := readme.Run(t.Context(), "../..", withoutMake(os.Environ()), steps); err != nil {
		t.Fatal(err)
	}
}

// afterStart are the README's steps under a heading, but for the first of them, which starts the product.
func afterStart(t *testing.T, heading string, here *strings.Replacer) []readme.Step {
	t.Helper()
	steps, err := readme.Page("../../README.md", heading, here)
	if err != nil {
		t.Fatal(err)
	}
	if steps[0].Commands != "make run" {
		t.Fatalf("the first step is no longer make run, but %s", steps[0].Commands)
	}
	return steps[1:]
}

// sampleWithUpstream copies one of examples/ for an upstream at another address. What it finds
// beside examples/ it still finds.
func sampleWithUpstream(t *testing.T, name, address string) (folder string) {
	t.Helper()
	root := t.TempDir()
	local, err := filepath.Abs("..")
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
		t.Fatal("the sample no longer names its upstream's port, 9002")
	}
	return folder
}

// sample reads one of examples/.
func sample(t *testing.T, name string) files {
	t.Helper()
	folder, f := os.DirFS("../../examples/"+name), files{}
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

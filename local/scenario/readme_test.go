package scenario_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/internal/readme"
)

// TestReadmeFiveMinutes types what the README says, from its own text, with
// `make run` in another terminal.
func TestReadmeFiveMinutes(t *testing.T) {
	if os.Getenv(varAPI) != "" {
		t.Skip("it is about the local run")
	}
	t.Parallel()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	steps, err := readme.Steps(string(text), "Five minutes")
	if err != nil {
		t.Fatal(err)
	}
	if steps[0].Commands != "make run" {
		t.Fatalf("the first step is no longer make run, but %s", steps[0].Commands)
	}
	p := running(t, t.TempDir(), "make", "run")
	// What differs here: free ports, and folders of the test's own.
	here := strings.NewReplacer(
		"http://127.0.0.1:9000", p.API,
		".gatewright/", p.Data()+"/",
		"examples/hello", sampleWithUpstream(t, freeAddress(t)),
	)
	steps = steps[1:]
	for i := range steps {
		steps[i].Commands = here.Replace(steps[i].Commands)
	}
	env := append(os.Environ(), "GATEWRIGHT_DATA_DIR="+p.Data())
	if _, err := readme.Run(t.Context(), "../..", env, steps); err != nil {
		t.Fatal(err)
	}
}

// TestReadmeTunnel types the README's section about a service behind a tunnel.
func TestReadmeTunnel(t *testing.T) {
	if os.Getenv(varAPI) != "" {
		t.Skip("it is about the local run")
	}
	t.Parallel()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	steps, err := readme.Steps(string(text), "A service that only your machine sees")
	if err != nil {
		t.Fatal(err)
	}
	if steps[0].Commands != "make run" {
		t.Fatalf("the first step is no longer make run, but %s", steps[0].Commands)
	}
	p := running(t, t.TempDir(), "make", "run")
	service := freeAddress(t)
	here := strings.NewReplacer(
		"http://127.0.0.1:9000", p.API, "http://127.0.0.1:9003", p.Relay, "127.0.0.1:9002", service,
		".gatewright/", p.Data()+"/",
		"examples/hello", sampleWithUpstream(t, service),
	)
	steps = steps[1:]
	for i := range steps {
		steps[i].Commands = here.Replace(steps[i].Commands)
	}
	if _, err := readme.Run(t.Context(), "../..", withoutMake(os.Environ()), steps); err != nil {
		t.Fatal(err)
	}
}

// sampleWithUpstream copies examples/hello for an upstream at another address.
func sampleWithUpstream(t *testing.T, address string) (folder string) {
	t.Helper()
	folder = t.TempDir()
	if err := os.CopyFS(folder, os.DirFS("../../examples/hello")); err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	replaced := 0
	for _, name := range []string{"upstream.go", "config/routes.oas.json"} {
		path := filepath.Join(folder, name)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		replaced += strings.Count(string(text), "9002")
		if err := os.WriteFile(path, []byte(strings.ReplaceAll(string(text), "9002", port)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if replaced < 2 {
		t.Fatal("the sample no longer names its upstream's port, 9002")
	}
	return folder
}

// freeAddress is one nobody listened on a moment ago.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

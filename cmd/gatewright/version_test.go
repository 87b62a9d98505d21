package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/client/commands"
	"github.com/gatewright/gatewright/internal/golden"
)

// TestVersionIsTold by the command and by the flag, as the file of the source tree has it.
func TestVersionIsTold(t *testing.T) {
	text, err := os.ReadFile("../../shared/release/VERSION")
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("gatewright %s\n%s %s/%s\n", strings.TrimSpace(string(text)), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	for _, word := range []string{"version", "--version"} {
		p := start(t, []string{"GATEWRIGHT_NO_SUCH=x"}, word)
		p.ends(exitStopped)
		if got := p.printed(); got != want {
			t.Errorf("%s prints %q, want %q", word, got, want)
		}
	}
	start(t, nil, "version", "all").ends(exitUsage, "it takes no words")
}

// TestReferenceIsTheHelp has the page of the documentation be the help of every command.
func TestReferenceIsTheHelp(t *testing.T) {
	golden.Equal(t, "../../docs/reference/commands.md", commands.Reference(command()))
}

// TestManualIsOfEveryCommand writes the pages as `make package` does, the same ones each time.
func TestManualIsOfEveryCommand(t *testing.T) {
	folders := []string{t.TempDir(), t.TempDir()}
	for _, folder := range folders {
		if out, err := exec.CommandContext(t.Context(), "go", "run", "-tags=man", ".", "man", folder).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	for _, page := range []string{"gatewright.1", "gatewright-deploy.1", "gatewright-tunnel-connect.1", "gatewright-api-ApiKeyBucketsService_read.1"} {
		first, err := os.ReadFile(filepath.Join(folders[0], page))
		second, again := os.ReadFile(filepath.Join(folders[1], page))
		if err != nil || again != nil || !strings.HasPrefix(string(first), ".") || string(first) != string(second) {
			t.Errorf("%s: %v, %v", page, err, again)
		}
	}
}

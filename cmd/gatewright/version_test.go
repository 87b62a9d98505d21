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
	"github.com/gatewright/gatewright/shared/testing/golden"
)

// TestVersionIsPrinted checks the command and the flag against the version file of the source tree.
func TestVersionIsPrinted(t *testing.T) {
	text, err := os.ReadFile("../../shared/base/release/VERSION")
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("gatewright %s\n%s %s/%s\n", strings.TrimSpace(string(text)), runtime.Version(), runtime.GOOS,
		runtime.GOARCH)
	for _, arg := range []string{"version", "--version"} {
		p := start(t, []string{"GATEWRIGHT_NO_SUCH=x"}, arg)
		p.expectExit(exitDone)
		if got := p.outputText(); got != want {
			t.Errorf("%s prints %q, want %q", arg, got, want)
		}
	}
	start(t, nil, "version", "all").expectExit(exitUsage, "it takes no words")
}

// TestReferenceMatchesHelp compares the reference page of the documentation with the help of every command.
func TestReferenceMatchesHelp(t *testing.T) {
	golden.Equal(t, "../../docs/reference/commands.md", commands.Reference(rootCommand()))
}

// TestManualIsReproducible writes the manual pages twice as `make package` does, and compares some of the pages.
func TestManualIsReproducible(t *testing.T) {
	folders := []string{t.TempDir(), t.TempDir()}
	for _, folder := range folders {
		if out, err := exec.CommandContext(t.Context(), "go", "run", "-tags=man", ".", "man", folder).
			CombinedOutput(); err != nil {
			t.Fatalf("go run -tags=man . man %s: error = %v, want none: %s", folder, err, out)
		}
	}
	for _, page := range []string{
		"gatewright.1", "gatewright-deploy.1", "gatewright-tunnel-connect.1",
		"gatewright-api-ApiKeyBucketsService_read.1",
	} {
		first, err := os.ReadFile(filepath.Join(folders[0], page))
		second, secondErr := os.ReadFile(filepath.Join(folders[1], page))
		if err != nil || secondErr != nil || !strings.HasPrefix(string(first), ".") || string(first) != string(second) {
			t.Errorf("%s of two runs = %.100q and %.100q (errors %v, %v), want the same page in the format of man",
				page, first, second, err, secondErr)
		}
	}
}

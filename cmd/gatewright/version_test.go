package main

import (
	"fmt"
	"os"
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

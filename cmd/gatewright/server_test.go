package main

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestHandedOverAreTheServersCommands, as its own test lists them: each is handed over, with what the server says of it, or
// is the client's own.
func TestHandedOverAreTheServersCommands(t *testing.T) {
	list, err := os.ReadFile("../gatewright-server/testdata/commands.txt")
	if err != nil {
		t.Fatal(err)
	}
	own := map[string]bool{}
	for _, c := range command().Commands() {
		if c.GroupID == ownGroup {
			own[c.Name()] = true
		}
	}
	var got, want []string
	for _, w := range serverWords() {
		if own[w.name] {
			t.Errorf("%s is handed over, and the client's own", w.name)
		}
		got = append(got, w.name+": "+w.short)
	}
	for line := range strings.Lines(string(list)) {
		if name, _, _ := strings.Cut(line, ":"); !own[name] {
			want = append(want, strings.TrimSuffix(line, "\n"))
		}
	}
	if diff := cmp.Diff(want, got); diff != "" || len(want) < 10 {
		t.Errorf("what the server has (-) and what is handed over (+):\n%s", diff)
	}
}

// TestServersCommandsAreAGroupOfTheirOwn in the help, behind the client's.
func TestServersCommandsAreAGroupOfTheirOwn(t *testing.T) {
	p := start(t, nil, "--help")
	p.ends(exitStopped, "\nThis program:\n  help ", "\nCommands of a server (gatewright-server):\n  account ")
	if own, servers := strings.Index(p.printed(), "  tunnel "), strings.Index(p.printed(), "  serve "); own < 0 || servers < own {
		t.Errorf("the help has its commands in another order:\n%s", p.printed())
	}
}

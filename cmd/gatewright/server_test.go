package main

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestServerCommandsMatchServer compares serverCommands with the golden file of the server's commands. Each command of
// the server must be in serverCommands with the server's description, unless the client has a command with this name.
func TestServerCommandsMatchServer(t *testing.T) {
	list, err := os.ReadFile("../gatewright-server/testdata/commands.txt")
	if err != nil {
		t.Fatal(err)
	}
	clientOnly := map[string]bool{}
	for _, c := range rootCommand().Commands() {
		if c.GroupID == clientGroup {
			clientOnly[c.Name()] = true
		}
	}
	var got, want []string
	for _, command := range serverCommands() {
		if clientOnly[command.name] {
			t.Errorf("%s is a command of the server and the client's own, want one of them", command.name)
		}
		got = append(got, command.name+": "+command.short)
	}
	for line := range strings.Lines(string(list)) {
		if name, _, _ := strings.Cut(line, ":"); !clientOnly[name] {
			want = append(want, strings.TrimSuffix(line, "\n"))
		}
	}
	if diff := cmp.Diff(want, got); diff != "" || len(want) < 10 {
		t.Errorf("serverCommands() (+) differs from the server (-), want the same %d, at least 10:\n%s", len(want), diff)
	}
}

// TestServerCommandsHaveOwnGroup checks that the help lists the server's commands in a group after the client's
// commands.
func TestServerCommandsHaveOwnGroup(t *testing.T) {
	p := start(t, nil, "--help")
	p.expectExit(exitDone, "\nThis program:\n  help ", "\nCommands of a server (gatewright-server):\n  account ")
	if clientIndex, serverIndex := strings.Index(p.outputText(), "  tunnel "),
		strings.Index(p.outputText(), "  serve "); clientIndex < 0 ||
		serverIndex < clientIndex {
		t.Errorf("help =\n%s\nwant the command tunnel before serve", p.outputText())
	}
}

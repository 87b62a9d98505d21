package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/internal/golden"
	"github.com/gatewright/gatewright/local/commandline"
)

// varRole makes the tests' binary the command itself, so that a planted defect is in it.
const varRole = "GATEWRIGHT_TEST_COMMAND_ROLE"

func TestMain(m *testing.M) {
	if os.Getenv(varRole) != "" {
		os.Exit(run(os.Args[1:]))
	}
	os.Exit(m.Run())
}

// ends runs the command with an environment of these variables alone, and expects the code and that it has printed each text.
func ends(t *testing.T, env []string, words string, code int, texts ...string) (printed string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], strings.Fields(words)...)
	cmd.Env = append(env, varRole+"=command")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	_ = cmd.Run()
	if got := cmd.ProcessState.ExitCode(); got != code {
		t.Errorf("%s ends with %d, want %d:\n%s", words, got, code, &out)
	}
	for _, text := range texts {
		if !strings.Contains(out.String(), text) {
			t.Errorf("%s does not print %q:\n%s", words, text, &out)
		}
	}
	return out.String()
}

// TestCommandsAreListed for the client, which hands them over.
func TestCommandsAreListed(t *testing.T) {
	var list strings.Builder
	for _, c := range command().Commands() {
		if c.IsAvailableCommand() {
			fmt.Fprintf(&list, "%s: %s\n", c.Name(), c.Short)
		}
	}
	golden.Equal(t, "testdata/commands.txt", list.String())
}

// TestVersionIsTold by the command and by the flag, as the file of the source tree has it.
func TestVersionIsTold(t *testing.T) {
	text, err := os.ReadFile("../../shared/release/VERSION")
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("gatewright-server %s\ndata format 1\n%s %s/%s\n", strings.TrimSpace(string(text)), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	for _, word := range []string{"version", "--version"} {
		if got := ends(t, []string{"GATEWRIGHT_NO_SUCH=x"}, word, commandline.ExitDone); got != want {
			t.Errorf("%s prints %q, want %q", word, got, want)
		}
	}
	ends(t, nil, "version all", commandline.ExitUsage, "it takes no words")
}

// TestWordsThatAreNotTakenAreUsage: a script tells a line that it typed wrongly from what went wrong.
func TestWordsThatAreNotTakenAreUsage(t *testing.T) {
	const secret = "eyJhIjoiYSIsInQiOiJ0IiwicyI6InNlY3JldCJ9"
	for typed, want := range map[string]string{
		"":               "name one of its commands: `gatewright-server --help` lists them",
		secret:           "it has no such command: `gatewright-server --help` lists them",
		"key " + secret:  "it has no such command: `gatewright-server key --help` lists them",
		"operation":      "name one of its commands: `gatewright-server operation --help` lists them",
		"serv":           "it has no such command: did you mean serve?",
		"serve now":      "it takes no words, its settings are variables: `gatewright-server serve --help` lists them",
		"account make":   "it has no such command: `gatewright-server account --help` lists them",
		"key lst demo":   "it has no such command: did you mean list?",
		"account create": "name one account: gatewright-server account create NAME",
		"backup":         "name one file: gatewright-server backup FILE",
		"gateway now":    "it takes no words, its settings are variables: `gatewright-server gateway --help`",
		"restore --to x": "unknown flag: --to: `gatewright-server restore --help` lists what it takes",
	} {
		if got := ends(t, nil, typed, commandline.ExitUsage, "error: "+want); strings.Contains(got, secret) {
			t.Errorf("it repeats what was typed: %s", got)
		}
	}
}

// TestGatewayNeedsAnInstallation: it says which settings are missing, and ends.
func TestGatewayNeedsAnInstallation(t *testing.T) {
	t.Parallel()
	ends(t, nil, "gateway --help", commandline.ExitDone, "GATEWRIGHT_TABLE ", "GATEWRIGHT_DEPLOYMENT_URL ", "(host:port; :8443)", "(host:port; 127.0.0.1:8081)", "GATEWRIGHT_ANNOUNCE ")
	ends(t, []string{"AWS_REGION=eu-west-1"}, "gateway", commandline.ExitOther, "GATEWRIGHT_TABLE is not set", "GATEWRIGHT_BUCKET is not set")
}

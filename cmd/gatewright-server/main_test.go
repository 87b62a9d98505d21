package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/runtime/commandline"
	"github.com/gatewright/gatewright/shared/testing/golden"
)

// varRole makes the test binary run the command itself. So the command also contains the planted defects of a test
// build.
const varRole = "GATEWRIGHT_TEST_COMMAND_ROLE"

func TestMain(m *testing.M) {
	if os.Getenv(varRole) != "" {
		os.Exit(run(os.Args[1:]))
	}
	os.Exit(m.Run())
}

// runAndExpect runs the command with only these environment variables. It checks the exit code, checks that the output
// contains each text, and returns the output.
func runAndExpect(t *testing.T, env []string, args string, code int, texts ...string) (printed string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], strings.Fields(args)...)
	cmd.Env = append(env, varRole+"=command")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	_ = cmd.Run()
	if got := cmd.ProcessState.ExitCode(); got != code {
		t.Errorf("gatewright-server %s: exit code = %d, want %d:\n%s", args, got, code, &out)
	}
	for _, text := range texts {
		if !strings.Contains(out.String(), text) {
			t.Errorf("output of %s =\n%s\nwant %q", args, &out, text)
		}
	}
	return out.String()
}

// TestCommandsAreListed compares the server's commands with a golden file. The client's test reads this file, because
// the client runs the server for these commands.
func TestCommandsAreListed(t *testing.T) {
	var list strings.Builder
	for _, c := range rootCommand().Commands() {
		if c.IsAvailableCommand() {
			fmt.Fprintf(&list, "%s: %s\n", c.Name(), c.Short)
		}
	}
	golden.Equal(t, "testdata/commands.txt", list.String())
}

// TestVersionIsPrinted checks the command and the flag against the version file of the source tree.
func TestVersionIsPrinted(t *testing.T) {
	text, err := os.ReadFile("../../shared/base/release/VERSION")
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("gatewright-server %s\ndata format 1\n%s %s/%s\n", strings.TrimSpace(string(text)),
		runtime.Version(), runtime.GOOS, runtime.GOARCH)
	for _, arg := range []string{"version", "--version"} {
		if got := runAndExpect(t, []string{"GATEWRIGHT_NO_SUCH=x"}, arg, commandline.ExitDone); got != want {
			t.Errorf("%s prints %q, want %q", arg, got, want)
		}
	}
	runAndExpect(t, nil, "version all", commandline.ExitUsage, "it takes no words")
}

// TestUnknownArgumentIsUsageError checks that a wrong argument has another exit code than a failure, so that scripts
// can distinguish them.
func TestUnknownArgumentIsUsageError(t *testing.T) {
	const secret = "eyJhIjoiYSIsInQiOiJ0IiwicyI6InNlY3JldCJ9"
	for line, want := range map[string]string{
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
		if got := runAndExpect(t, nil, line, commandline.ExitUsage, "error: "+want); strings.Contains(got, secret) {
			t.Errorf("output of %s = %s, want no argument repeated", line, got)
		}
	}
}

// TestGatewayNeedsAnInstallation checks that the help lists the settings of the gateway, and that the error names
// missing settings.
func TestGatewayNeedsAnInstallation(t *testing.T) {
	t.Parallel()
	runAndExpect(t, nil, "gateway --help", commandline.ExitDone, "GATEWRIGHT_TABLE ", "GATEWRIGHT_DEPLOYMENT_URL ",
		"(host:port; :8443)", "(host:port; 127.0.0.1:8081)", "GATEWRIGHT_ANNOUNCE ")
	runAndExpect(t, []string{"AWS_REGION=eu-west-1"}, "gateway", commandline.ExitOther, "GATEWRIGHT_TABLE is not set",
		"GATEWRIGHT_BUCKET is not set")
}

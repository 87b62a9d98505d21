//go:build linux

package prompt_test

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/term"

	"github.com/gatewright/gatewright/client/prompt"
	"github.com/gatewright/gatewright/shared/base/terminal/terminaltest"
)

// TestSecretStaysHiddenAfterStop stops and continues a process that prompts for a secret. A shell enables echo while
// the process is stopped, and leaves it enabled. AskSecret must disable it again.
func TestSecretStaysHiddenAfterStop(t *testing.T) {
	const askVar = "GATEWRIGHT_TEST_ASKS"
	if os.Getenv(askVar) != "" {
		input, err := prompt.Prompter{In: os.Stdin, Out: os.Stdout, Getenv: func(string) string {
			return ""
		}}.AskSecret(t.Context(), "The key", "--key-stdin")
		if err != nil || input != "gwa_planted" {
			t.Errorf("AskSecret() = %q, %v, want gwa_planted", input, err)
		}
		return
	}
	t.Parallel()
	keyboard, tty := terminaltest.Open(t)
	terminal := int(keyboard.Fd())
	initial, err := term.GetState(terminal)
	if err != nil {
		t.Fatal(err)
	}
	checkEcho := func(moment string, hidden bool) {
		t.Helper()
		current, err := term.GetState(terminal)
		if err != nil {
			t.Fatal(err)
		}
		if (*current != *initial) != hidden {
			t.Errorf("%s: input is hidden %t, want %t", moment, !hidden, hidden)
		}
	}
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	child.Env = append(os.Environ(), askVar+"=yes")
	child.Stdin, child.Stdout, child.Stderr = tty, tty, tty
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	// After this, only the child has the terminal open. So reading the screen ends when the child ends.
	if err := tty.Close(); err != nil {
		t.Error(err)
	}
	defer time.AfterFunc(20*time.Second, func() { _ = child.Process.Kill() }).Stop()
	screen := bufio.NewReader(keyboard)
	expectPrompt := func() {
		t.Helper()
		if text, err := screen.ReadString(':'); err != nil || !strings.HasSuffix(text, "The key (it is not shown):") {
			t.Fatalf("prompt = %q, %v, want \"The key (it is not shown):\"", text, err)
		}
	}
	expectPrompt()
	checkEcho("after the first prompt", true)
	for range 2 {
		if err := child.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		var status syscall.WaitStatus
		if _, err := syscall.Wait4(child.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
			t.Fatalf("Wait4() of a stopped process = %v, %v, want stopped", status, err)
		}
		if err := term.Restore(terminal, initial); err != nil {
			t.Fatal(err)
		}
		if err := child.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		expectPrompt()
		checkEcho("after the process has continued", true)
	}
	if _, err := keyboard.WriteString("gwa_planted\n"); err != nil {
		t.Fatal(err)
	}
	remaining, _ := io.ReadAll(screen) // until the terminal is closed
	if bytes.Contains(remaining, []byte("gwa_planted")) {
		t.Errorf("the screen shows %q, want no secret", remaining)
	}
	if err := child.Wait(); err != nil {
		t.Errorf("the process ends with %v and shows %q, want exit code 0", err, remaining)
	}
	checkEcho("after the input", false)
}

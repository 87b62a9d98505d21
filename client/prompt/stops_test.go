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
	"github.com/gatewright/gatewright/local/terminal/terminaltest"
)

// TestSecretIsHiddenAroundStops: Ctrl-Z leaves a terminal that shows what is typed, to a shell that sets nothing by itself; and what is
// typed once the process goes on is hidden again, whatever the shell has set.
func TestSecretIsHiddenAroundStops(t *testing.T) {
	const asked = "GATEWRIGHT_TEST_ASKED"
	if os.Getenv(asked) != "" {
		answer, err := prompt.Person{In: os.Stdin, Out: os.Stdout, Getenv: func(string) string { return "" }}.Secret(t.Context(), "The key", "--key-stdin")
		if err != nil || answer != "gwa_planted" {
			t.Errorf("it is answered with %q, %v", answer, err)
		}
		return
	}
	t.Parallel()
	keyboard, tty := terminaltest.Open(t)
	shown, err := term.GetState(int(keyboard.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	is := func(where string, hidden bool) {
		t.Helper()
		now, err := term.GetState(int(keyboard.Fd()))
		if err != nil {
			t.Fatal(err)
		}
		if (*now != *shown) != hidden {
			t.Errorf("%s: is what is typed hidden? %t, want %t", where, !hidden, hidden)
		}
	}
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	child.Env = append(os.Environ(), asked+"=yes")
	child.Stdin, child.Stdout, child.Stderr = tty, tty, tty
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if err := tty.Close(); err != nil { // the child alone has it: its end ends what is read here
		t.Error(err)
	}
	defer time.AfterFunc(20*time.Second, func() { _ = child.Process.Kill() }).Stop()
	screen := bufio.NewReader(keyboard)
	questioned := func() {
		t.Helper()
		if text, err := screen.ReadString(':'); err != nil || !strings.HasSuffix(text, "The key (it is not shown):") {
			t.Fatalf("it asks %q, %v", text, err)
		}
	}
	questioned()
	is("when it is asked for", true)
	for range 2 {
		if _, err := keyboard.WriteString("\x1a"); err != nil {
			t.Fatal(err)
		}
		var status syscall.WaitStatus
		if _, err := syscall.Wait4(child.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
			t.Fatalf("after Ctrl-Z it has the status %v, %v", status, err)
		}
		is("while it is stopped", false)
		if err := child.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		questioned()
		is("when it goes on", true)
	}
	if _, err := keyboard.WriteString("gwa_planted\n"); err != nil {
		t.Fatal(err)
	}
	rest, _ := io.ReadAll(screen) // up to an error: nobody has the terminal any more
	if bytes.Contains(rest, []byte("gwa_planted")) {
		t.Errorf("the screen shows %q", rest)
	}
	if err := child.Wait(); err != nil {
		t.Error(err)
	}
	is("when it is answered", false)
}

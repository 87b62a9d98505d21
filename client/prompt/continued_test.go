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

// TestSecretIsHiddenAfterAStop: a shell shows what is typed while a process is stopped, and leaves it so when that goes on.
func TestSecretIsHiddenAfterAStop(t *testing.T) {
	const asks = "GATEWRIGHT_TEST_ASKS"
	if os.Getenv(asks) != "" {
		answer, err := prompt.Person{In: os.Stdin, Out: os.Stdout, Getenv: func(string) string { return "" }}.Secret(t.Context(), "The key", "--key-stdin")
		if err != nil || answer != "gwa_planted" {
			t.Errorf("it is answered with %q, %v", answer, err)
		}
		return
	}
	t.Parallel()
	keyboard, tty := terminaltest.Open(t)
	terminal := int(keyboard.Fd())
	shown, err := term.GetState(terminal)
	if err != nil {
		t.Fatal(err)
	}
	is := func(where string, hidden bool) {
		t.Helper()
		now, err := term.GetState(terminal)
		if err != nil {
			t.Fatal(err)
		}
		if (*now != *shown) != hidden {
			t.Errorf("%s: is what is typed hidden? %t, want %t", where, !hidden, hidden)
		}
	}
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	child.Env = append(os.Environ(), asks+"=yes")
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
	asked := func() {
		t.Helper()
		if text, err := screen.ReadString(':'); err != nil || !strings.HasSuffix(text, "The key (it is not shown):") {
			t.Fatalf("it asks %q, %v", text, err)
		}
	}
	asked()
	is("when it is asked for", true)
	for range 2 {
		if err := child.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		var status syscall.WaitStatus
		if _, err := syscall.Wait4(child.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
			t.Fatalf("a process that is stopped has the status %v, %v", status, err)
		}
		if err := term.Restore(terminal, shown); err != nil {
			t.Fatal(err)
		}
		if err := child.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		asked()
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
		t.Errorf("it ends with %v, and shows %q", err, rest)
	}
	is("when it is answered", false)
}

// Package processestest kills processes in the middle of what they do, for tests of what is left behind.
//
// The processes are the test's own binary in another role, so that what is tested, a planted defect too, is in them.
// There is only this file.
package processestest

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/local/processes"
)

// Begin is called by the process when what is to be killed begins.
func Begin() { _, _ = os.Stdout.WriteString("begins\n") }

// Killed runs this test binary with a variable of its environment, as NAME=value, and arguments, and kills it without
// a word so long after it called Begin. It returns when nothing of it runs any more. What it prints on its standard
// error fails the test, as does that it does not begin.
func Killed(t *testing.T, variable string, after time.Duration, args ...string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, args...) //nolint:gosec // it is this program
	cmd.Env, cmd.SysProcAttr = append(os.Environ(), variable), processes.Group()
	var says strings.Builder
	cmd.Stderr = &says
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	if _, err := lines.ReadString('\n'); err != nil {
		t.Errorf("the process does not begin: %v", err)
	}
	time.Sleep(after)
	_ = processes.Kill(cmd.Process.Pid) // it may have ended
	_, _ = io.Copy(io.Discard, lines)
	_ = cmd.Wait()
	if says.Len() > 0 {
		t.Errorf("the process says: %s", says.String())
	}
}

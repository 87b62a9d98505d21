// Package processestest kills a process during its work, for tests that check the state after that.
//
// The processes are the test's own binary in another role, so that they
// contain the tested code, including a planted defect. This is the only file.
package processestest

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/base/processes"
)

// SignalStart reports to RunAndKill that the work begins. The process that RunAndKill starts calls it once.
func SignalStart() { _, _ = os.Stdout.WriteString("begins\n") }

// RunAndKill runs this test binary with arguments and a variable in its environment, as NAME=value. It kills the
// process, without a warning, when the duration after has passed since the process called SignalStart. It returns
// when the process has ended. The test fails if the process prints to its standard error or does not call
// SignalStart.
func RunAndKill(t *testing.T, variable string, after time.Duration, args ...string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, args...) //nolint:gosec // it is this program
	cmd.Env, cmd.SysProcAttr = append(os.Environ(), variable), processes.Group()
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	if _, err := lines.ReadString('\n'); err != nil {
		t.Errorf("read the line of SignalStart: %v, want the process to call SignalStart before it ends", err)
	}
	time.Sleep(after)
	_ = processes.Kill(cmd.Process.Pid) // the process could have ended already
	_, _ = io.Copy(io.Discard, lines)
	_ = cmd.Wait()
	if stderr.Len() > 0 {
		t.Errorf("stderr of the process = %q, want none", stderr.String())
	}
}

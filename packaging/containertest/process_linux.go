package containertest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/gatewright/gatewright/internal/printed"
)

// Process is a container that runs. Its methods are safe for concurrent use.
type Process struct {
	// Gone is closed when it has ended, and State says how.
	Gone  chan struct{}
	State error

	cmd *exec.Cmd
	out printed.Text
}

// Output is what it has printed so far.
func (p *Process) Output() string {
	return p.out.String()
}

// Start starts what Command made, until the test ends. Where the kernel lets nobody make user namespaces the test is
// skipped, but as root in continuous integration it fails.
func Start(t testing.TB, cmd *exec.Cmd) *Process {
	t.Helper()
	p := &Process{Gone: make(chan struct{}), cmd: cmd}
	cmd.Stdout, cmd.Stderr = &p.out, &p.out
	started := make(chan error)
	go func() {
		defer close(p.Gone)
		runtime.LockOSThread() // it ends with the thread that starts it
		err := cmd.Start()
		started <- err
		if err == nil {
			p.State = cmd.Wait()
		}
	}()
	switch err := <-started; {
	case errors.Is(err, syscall.EPERM), errors.Is(err, syscall.EACCES), errors.Is(err, syscall.ENOSPC):
		if os.Getenv("CI") != "" && os.Getuid() == 0 {
			t.Fatalf("user namespaces have to be possible in continuous integration: %v", err)
		}
		t.Skipf("it needs user namespaces, as root or not: %v", err)
	case err != nil:
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-p.Gone
	})
	return p
}

// Confined checks that the process is what it is said to be: somebody without rights, over a root
// that cannot be written to.
func (p *Process) Confined(t testing.TB) {
	t.Helper()
	status := p.File(t, "/proc/self/status")
	for _, want := range []string{"CapEff:\t0000000000000000", fmt.Sprintf("Uid:\t%d\t", User()), "NoNewPrivs:\t1"} {
		if !strings.Contains(status, want) {
			t.Errorf("%q is missing in its status:\n%s", want, status)
		}
	}
	written := filepath.Join(fmt.Sprintf("/proc/%d/root", p.cmd.Process.Pid), "written")
	if err := os.WriteFile(written, nil, 0o600); !errors.Is(err, syscall.EROFS) {
		t.Errorf("its root can be written to: %v", err)
	}
}

// File reads a file as the process sees it; of /proc/self its own.
func (p *Process) File(t testing.TB, path string) string {
	t.Helper()
	of := fmt.Sprintf("/proc/%d/", p.cmd.Process.Pid)
	if own, ok := strings.CutPrefix(path, "/proc/self/"); ok {
		path = of + own
	} else {
		path = of + "root" + path
	}
	raw, err := os.ReadFile(path) //nolint:gosec // G304: the test's choice
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(raw))
}

// End asks the process to end, which it does by itself.
func (p *Process) End(t testing.TB) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-p.Gone
	if exit, ok := errors.AsType[*exec.ExitError](p.State); ok && exit.ExitCode() != 130 { // what a shell reports for a signal
		t.Errorf("it ends with %v: %s", p.State, p.Output())
	}
}

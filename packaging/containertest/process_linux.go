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

	"github.com/gatewright/gatewright/shared/testing/syncbuffer"
)

// Process is a running container. Its methods are safe for concurrent use.
type Process struct {
	// Done is closed when the process has ended. Err is then the error of its end.
	Done chan struct{}
	Err  error

	cmd *exec.Cmd
	out syncbuffer.Text
}

// Output returns everything that the process has printed so far.
func (p *Process) Output() string {
	return p.out.String()
}

// Start starts a command from Command. The process ends with the test at the latest. If the kernel does not let this
// user create user namespaces, Start skips the test. As root in continuous integration, it fails the test instead.
func Start(t testing.TB, cmd *exec.Cmd) *Process {
	t.Helper()
	p := &Process{Done: make(chan struct{}), cmd: cmd}
	cmd.Stdout, cmd.Stderr = &p.out, &p.out
	started := make(chan error)
	go func() {
		defer close(p.Done)
		runtime.LockOSThread() // the process ends with the thread that starts it
		err := cmd.Start()
		started <- err
		if err == nil {
			p.Err = cmd.Wait()
		}
	}()
	switch err := <-started; {
	case errors.Is(err, syscall.EPERM), errors.Is(err, syscall.EACCES), errors.Is(err, syscall.ENOSPC):
		if os.Getenv("CI") != "" && os.Getuid() == 0 {
			t.Fatalf("start in a user namespace: error = %v, want none in continuous integration", err)
		}
		t.Skipf("it needs user namespaces, as root or not: %v", err)
	case err != nil:
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-p.Done
	})
	return p
}

// CheckConfined checks that the process has the right user, no privileges, and a read-only root.
func (p *Process) CheckConfined(t testing.TB) {
	t.Helper()
	status := p.ReadFile(t, "/proc/self/status")
	for _, want := range []string{"CapEff:\t0000000000000000", fmt.Sprintf("Uid:\t%d\t", HostUserID()), "NoNewPrivs:\t1"} {
		if !strings.Contains(status, want) {
			t.Errorf("/proc/self/status = %s, want %q in it", status, want)
		}
	}
	written := filepath.Join(fmt.Sprintf("/proc/%d/root", p.cmd.Process.Pid), "written")
	if err := os.WriteFile(written, nil, 0o600); !errors.Is(err, syscall.EROFS) {
		t.Errorf("WriteFile(%s) error = %v, want EROFS", written, err)
	}
}

// ReadFile reads a file from the root file system of the process. In a path, /proc/self is the folder of the process.
func (p *Process) ReadFile(t testing.TB, path string) string {
	t.Helper()
	procDir := fmt.Sprintf("/proc/%d/", p.cmd.Process.Pid)
	if name, ok := strings.CutPrefix(path, "/proc/self/"); ok {
		path = procDir + name
	} else {
		path = procDir + "root" + path
	}
	raw, err := os.ReadFile(path) //nolint:gosec // G304: the test chooses the path
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(raw))
}

// Stop sends SIGTERM and waits until the process has ended. It fails the test if the exit status is neither 0 nor 130.
func (p *Process) Stop(t testing.TB) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-p.Done
	// 130 is the exit status of the product's programs after a signal (commandline.ExitInterrupted).
	if exit, ok := errors.AsType[*exec.ExitError](p.Err); ok && exit.ExitCode() != 130 {
		t.Errorf("process ends with %v, want success or exit status 130: %s", p.Err, p.Output())
	}
}

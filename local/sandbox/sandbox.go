// Package sandbox compiles uploaded projects in separate processes. A child runs the same binary with the argument
// Command, with limits on memory and time, and without the installation's environment variables. A hostile archive can
// make its child and its build fail, but not the gateway.
//
// The package does not isolate the child otherwise: it runs as the calling user and could read the user's files. This
// is acceptable because only the data is foreign, and the code is ours. On Linux, the memory limit applies to the
// private mappings of the process (RLIMIT_DATA). A control group would need privileges that users of a laptop do not
// have. Sampling the memory from outside, as package lambdahost does, would detect a sudden allocation too late.
//
// Read sandbox.go first, for the parent process, and then child.go for
// the child. project.BuildMemory and project.BuildTime are the limits.
package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/gatewright/gatewright/shared/base/processes"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/dataplane/builds"
	"github.com/gatewright/gatewright/shared/format/project"
)

// Command is the first argument of a child. If main gets this argument,
// it calls RunChild. The next argument is the name for OpenParentPipe.
const Command = "build-project"

// maxChildren is the maximum number of simultaneous children. Further builds wait.
const maxChildren = 2

// Sandbox starts children. It is safe for concurrent use.
type Sandbox struct {
	executable string
	slots      chan struct{}
	log        *slog.Logger
	// timeout is project.BuildTime, except in tests.
	timeout time.Duration
}

var _ installation.Sandbox = (*Sandbox)(nil)

// New returns a Sandbox whose children run the binary executable.
func New(executable string, log *slog.Logger) *Sandbox {
	return &Sandbox{executable: executable, slots: make(chan struct{}, maxChildren), log: log, timeout: project.BuildTime}
}

var errTimeLimit = errors.New("sandbox: the child's time is over")

// Run implements installation.Sandbox.
func (s *Sandbox) Run(ctx context.Context, in io.Reader, out io.Writer) error {
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-ctx.Done():
		return fmt.Errorf("wait for a build's process: %w", context.Cause(ctx))
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.timeout, errTimeLimit)
	defer cancel()
	source := &errReader{r: in}
	var stderr outputHead
	err := s.run(ctx, source, out, &stderr)
	switch exit, exited := errors.AsType[*exec.ExitError](err); {
	case err == nil:
		return nil
	case errors.Is(context.Cause(ctx), errTimeLimit):
		return builds.TooSlow()
	case ctx.Err() != nil:
		return fmt.Errorf("run a build's process: %w", context.Cause(ctx))
	case source.err != nil:
		return source.err
	case exited && (exit.ExitCode() == exitMemory || stderr.outOfMemory() || killed(exit)):
		s.log.WarnContext(ctx, "a build needed more memory than it may have", "cause", err)
		return builds.TooLarge()
	}
	return fmt.Errorf("run a build's process: %w: %s", err, stderr.firstLine())
}

// run runs a child until it ends. The child gets an environment without secrets,
// the standard files, and a pipe that is closed when this process ends.
func (s *Sandbox) run(ctx context.Context, in io.Reader, out io.Writer, stderr *outputHead) error {
	childEnd, parentEnd, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("make a pipe: %w", err)
	}
	defer func() { _, _ = childEnd.Close(), parentEnd.Close() }()
	cmd := exec.CommandContext(ctx, s.executable, Command) //nolint:gosec // G204: our own binary
	// Start a process group, so that Ctrl-C in the terminal reaches only this
	// process, and processes that the child has started can be killed with it.
	cmd.SysProcAttr = processes.Group()
	cmd.Args = append(cmd.Args, inherit(cmd, childEnd))
	cmd.Env = []string{"LANG=C.UTF-8"}
	cmd.Dir = os.TempDir()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, stderr
	cmd.Cancel = func() error { return processes.Kill(cmd.Process.Pid) }
	cmd.WaitDelay = time.Second
	return cmd.Run()
}

// killed reports whether the child was ended by SIGKILL, which the system sends when memory is short.
func killed(exit *exec.ExitError) bool {
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// errReader stores the error of a reader. If the child fails
// because its input fails, os/exec returns only the child's error.
type errReader struct {
	r   io.Reader
	err error
}

func (e *errReader) Read(p []byte) (int, error) {
	n, err := e.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		e.err = err
	}
	return n, err
}

// outputHead is a writer that keeps the first maxOutputHead bytes of the child's standard error.
// That is sufficient, because Go's runtime prints the cause of a crash before the goroutines.
type outputHead struct{ text []byte }

const maxOutputHead = 4 << 10

// Write implements io.Writer.
func (o *outputHead) Write(p []byte) (int, error) {
	o.text = append(o.text, p[:min(len(p), maxOutputHead-len(o.text))]...)
	return len(p), nil
}

func (o *outputHead) outOfMemory() bool {
	return bytes.Contains(o.text, []byte("out of memory")) || bytes.Contains(o.text, []byte("cannot allocate memory"))
}

func (o *outputHead) firstLine() string {
	line, _, _ := bytes.Cut(o.text, []byte("\n"))
	return string(line)
}

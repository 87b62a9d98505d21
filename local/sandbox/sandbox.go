// Package sandbox compiles uploaded projects in processes of their own: this
// binary once more, in another role, with a bound on memory and on time, and
// with nothing of the installation. A hostile archive ends its process and a
// build, and not the gateway that runs beside it.
//
// What it is not: a jail. The process runs as the calling user and could read
// the user's files: what it works on is data, and the code is ours. Why the
// bound is on what the process maps: a control group needs rights that nobody has
// on a laptop, and a look at it from outside, as package lambdahost has, comes
// after a sudden allocation.
//
// Read sandbox.go for the parent, child.go for the child. The rule is that of
// project.BuildMemory and project.BuildTime.
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

	"github.com/gatewright/gatewright/local/processes"
	"github.com/gatewright/gatewright/shared/builds"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/project"
)

// Command is the argument with which our own binary becomes the child: main then
// calls Child. What follows it is the name of what Alive opens.
const Command = "build-project"

// parallel is how many children there are at once; others wait.
const parallel = 2

// Sandbox starts children. It is safe for concurrent use.
type Sandbox struct {
	self string
	room chan struct{}
	log  *slog.Logger
	// time is project.BuildTime, but for tests.
	time time.Duration
}

var _ installation.Sandbox = (*Sandbox)(nil)

// New makes a Sandbox whose children are the binary at self.
func New(self string, log *slog.Logger) *Sandbox {
	return &Sandbox{self: self, room: make(chan struct{}, parallel), log: log, time: project.BuildTime}
}

var errSlow = errors.New("sandbox: the child's time is over")

// Run implements installation.Sandbox.
func (s *Sandbox) Run(ctx context.Context, in io.Reader, out io.Writer) error {
	select {
	case s.room <- struct{}{}:
		defer func() { <-s.room }()
	case <-ctx.Done():
		return fmt.Errorf("wait for a build's process: %w", context.Cause(ctx))
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.time, errSlow)
	defer cancel()
	source := &remembering{r: in}
	var said tail
	err := s.run(ctx, source, out, &said)
	switch exit, ended := errors.AsType[*exec.ExitError](err); {
	case err == nil:
		return nil
	case errors.Is(context.Cause(ctx), errSlow):
		return builds.TooSlow()
	case ctx.Err() != nil:
		return fmt.Errorf("run a build's process: %w", context.Cause(ctx))
	case source.err != nil:
		return source.err
	case ended && (exit.ExitCode() == exitMemory || said.outOfMemory() || killed(exit)):
		s.log.WarnContext(ctx, "a build needed more memory than it may have", "cause", err)
		return builds.TooLarge()
	}
	return fmt.Errorf("run a build's process: %w: %s", err, said.last())
}

// run runs a child to its end. It has an environment without secrets, and one
// file beside the standard ones: a pipe that ends with this process.
func (s *Sandbox) run(ctx context.Context, in io.Reader, out io.Writer, said *tail) error {
	alive, life, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("make a pipe: %w", err)
	}
	defer func() { _, _ = alive.Close(), life.Close() }()
	cmd := exec.CommandContext(ctx, s.self, Command) //nolint:gosec // G204: our own binary
	// A group of its own: a Ctrl-C in the terminal reaches this process alone, and
	// whatever a child has started ends with it.
	cmd.SysProcAttr = processes.Group()
	cmd.Args = append(cmd.Args, inherit(cmd, alive))
	cmd.Env = []string{"LANG=C.UTF-8"}
	cmd.Dir = os.TempDir()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, said
	cmd.Cancel = func() error { return processes.Kill(cmd.Process.Pid) }
	cmd.WaitDelay = time.Second
	return cmd.Run()
}

// killed reports whether somebody else has ended the child: where memory is
// short, the system does.
func killed(exit *exec.ExitError) bool {
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// remembering keeps the error of a reader, which os/exec loses when the child
// fails for it.
type remembering struct {
	r   io.Reader
	err error
}

func (r *remembering) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		r.err = err
	}
	return n, err
}

// tail keeps the beginning of what the child says of its end: the runtime names
// the cause first and then tells every goroutine.
type tail struct{ text []byte }

const maxTail = 4 << 10

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.text = append(t.text, p[:min(len(p), maxTail-len(t.text))]...)
	return len(p), nil
}

func (t *tail) outOfMemory() bool {
	return bytes.Contains(t.text, []byte("out of memory")) || bytes.Contains(t.text, []byte("cannot allocate memory"))
}

func (t *tail) last() string {
	line, _, _ := bytes.Cut(t.text, []byte("\n"))
	return string(line)
}

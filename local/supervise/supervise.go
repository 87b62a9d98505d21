// Package supervise keeps a child process running. It starts the child, waits until the child responds, and restarts it
// when it dies. On Linux, the child ends when this process ends, even if this process is killed. On other systems, the
// child has to notice the end of its standard input.
//
// The package does not know the programs that it runs (packages emulator and product do). It does not supervise
// processes that a child starts.
//
// Read supervise.go first, then log.go. Section 9 of the design has the rules for child processes.
package supervise

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/gatewright/gatewright/shared/base/processes"
)

// Spec describes a child process.
type Spec struct {
	// Name is the child's name in messages and in the log.
	Name string
	// Path is the executable, and Args are its arguments without the name. They
	// must not contain secrets, because every process of the machine can read them.
	Path string
	Args []string
	// Env is the complete environment of the child.
	Env []string
	// Input is written to the child's standard input, which then stays open until this
	// process ends. So a child that reads its input to the end detects the end of its parent.
	Input []byte
	// Log receives the child's standard output and standard error.
	Log io.Writer
	// Tail returns the last line of the child's log, for the error if the child does not become ready. It may be nil.
	Tail func() string
	// Ready returns nil if the child responds.
	Ready func(context.Context) error
	// ReadPipe, if it is not nil, is called for every start with the reading end of a pipe, whose
	// writing end is the child's file descriptor 3. ReadPipe must return at the end of the file.
	ReadPipe func(io.Reader)
	// StartTimeout is the maximum time until Ready succeeds after the first start; 0 means
	// 30 s. It is long for busy machines. A broken child usually exits earlier.
	StartTimeout time.Duration
	// StopTimeout is the time after SIGTERM after which the child is killed; 0 means 3 s.
	StopTimeout time.Duration
}

// Child is a supervised process. Its methods are safe for concurrent use.
type Child struct {
	spec   Spec
	log    *slog.Logger
	stop   context.CancelFunc
	done   chan struct{} // closed when supervise has returned
	exited chan struct{} // closed if the first process ends before it is ready

	mu       sync.Mutex
	pid      int
	restarts int
	failure  error // why the first process ended before it was ready
}

const (
	minBackoff = 100 * time.Millisecond
	maxBackoff = 5 * time.Second
	// stableAfter is the lifetime after which the pause before a restart is minBackoff again.
	stableAfter   = 10 * time.Second
	probeInterval = 10 * time.Millisecond
	probeTimeout  = time.Second
)

// Start starts a child and waits until it is ready. If the process ends before it is ready, is not ready within
// StartTimeout, or ctx ends, Start ends the process and returns an error. When the process ends later, it is restarted,
// with growing pauses, until Stop is called. After Start has returned, the end of ctx does not end the child, because
// other parts need the child while they shut down.
func Start(ctx context.Context, spec Spec, log *slog.Logger) (*Child, error) {
	if spec.StartTimeout == 0 {
		spec.StartTimeout = 30 * time.Second
	}
	if spec.StopTimeout == 0 {
		spec.StopTimeout = 3 * time.Second
	}
	childCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	c := &Child{spec: spec, log: log, stop: stop, done: make(chan struct{}), exited: make(chan struct{})}
	ready := make(chan struct{})
	go c.supervise(childCtx, ready)
	if err := c.waitReady(ctx, ready); err != nil {
		c.Stop()
		return nil, err
	}
	return c, nil
}

// Stop ends the child and waits until it has ended.
func (c *Child) Stop() {
	c.stop()
	<-c.done
}

// PID returns the process ID of the child, or 0 while no process runs, such as before a restart.
func (c *Child) PID() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pid
}

// Restarts returns how often the child was restarted.
func (c *Child) Restarts() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.restarts
}

// waitReady probes until the child responds, and then closes ready. It returns an error if the first process ends, or
// if StartTimeout or ctx ends.
func (c *Child) waitReady(ctx context.Context, ready chan<- struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, c.spec.StartTimeout)
	defer cancel()
	for {
		probeCtx, cancelProbe := context.WithTimeout(ctx, probeTimeout)
		err := c.spec.Ready(probeCtx)
		cancelProbe()
		if err == nil && c.PID() != 0 {
			close(ready)
			return nil
		}
		select {
		case <-c.exited:
			return c.startError()
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return fmt.Errorf("%s did not answer within %v%s", c.spec.Name, c.spec.StartTimeout, c.tail())
			}
			return context.Cause(ctx)
		case <-time.After(probeInterval):
		}
	}
}

func (c *Child) startError() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Errorf("%s ended at once (%w)%s", c.spec.Name, c.failure, c.tail())
}

func (c *Child) tail() string {
	if c.spec.Tail == nil {
		return ""
	}
	if line := c.spec.Tail(); line != "" {
		return ": " + line
	}
	return ""
}

// supervise runs the child repeatedly until ctx ends, or until the first process ends before it is ready. On Linux, the
// kernel kills the child when the thread that has started it ends (prctl(2), PR_SET_PDEATHSIG). So supervise locks its
// thread, because Go can end other threads at any time.
func (c *Child) supervise(ctx context.Context, ready <-chan struct{}) {
	defer close(c.done)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	backoff := minBackoff
	for first := true; ; first = false {
		started := time.Now()
		err := c.runOnce(ctx)
		if ctx.Err() != nil {
			return
		}
		if first {
			select {
			case <-ready:
			default:
				c.mu.Lock()
				c.failure = err
				c.mu.Unlock()
				close(c.exited)
				return
			}
		}
		if time.Since(started) > stableAfter {
			backoff = minBackoff
		}
		c.log.Warn("child process ended, starting it again", "child", c.spec.Name, "cause", err, "in", backoff)
		select {
		case <-ctx.Done():
			return
		case <-time.After(backoff):
		}
		backoff = min(2*backoff, maxBackoff)
		c.mu.Lock()
		c.restarts++
		c.mu.Unlock()
	}
}

// runOnce runs the child once and returns why it ended. The error is never nil.
func (c *Child) runOnce(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, c.spec.Path, c.spec.Args...) //nolint:gosec // G204: the path is the operator's choice
	cmd.Env = c.spec.Env
	cmd.Stdout, cmd.Stderr = c.spec.Log, c.spec.Log
	cmd.SysProcAttr = processes.KillWithParent() // supervise has locked its thread
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = c.spec.StopTimeout

	stdin, stdinWriter, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("open a pipe: %w", err)
	}
	defer func() { _ = stdinWriter.Close() }()
	cmd.Stdin = stdin
	var pipeWriter *os.File
	if c.spec.ReadPipe != nil {
		reader, writer, err := os.Pipe()
		if err != nil {
			_ = stdin.Close()
			return fmt.Errorf("open a pipe: %w", err)
		}
		pipeWriter = writer
		cmd.ExtraFiles = []*os.File{writer}
		readDone := make(chan struct{})
		go func() {
			defer close(readDone)
			c.spec.ReadPipe(reader)
		}()
		defer func() {
			<-readDone
			_ = reader.Close()
		}()
	}
	err = cmd.Start()
	_ = stdin.Close()
	if pipeWriter != nil {
		_ = pipeWriter.Close()
	}
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	go func() { _, _ = stdinWriter.Write(c.spec.Input) }()
	c.setPID(cmd.Process.Pid)
	defer c.setPID(0)
	if err := cmd.Wait(); err != nil {
		return err
	}
	return errors.New("exit status 0")
}

func (c *Child) setPID(pid int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pid = pid
}

// Package supervise keeps a child process alive: it starts it, waits until it
// answers, starts it again when it dies, and ends it with its parent, however
// the parent ends.
//
// What it is not: it knows nothing of the programs it runs (package emulator
// does), and it is no init system: a child is a leaf, its own children are its
// own affair.
//
// Read supervise.go first, then log.go. The rules are those of design, section
// 9: restarted if they die, ended with us, never orphaned.
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

	"github.com/gatewright/gatewright/local/processes"
)

// Spec describes a child process.
type Spec struct {
	// Name is what people and the log call it.
	Name string
	// Path is the executable, Args its arguments without the name. Neither may
	// hold a secret: every process of the machine can read them.
	Path string
	Args []string
	// Env is its whole environment.
	Env []string
	// Input is written to its standard input, which then stays open for as long
	// as this process lives: a child that reads it to the end knows that its
	// parent is gone.
	Input []byte
	// Log takes its standard output and error.
	Log io.Writer
	// Tail gives the last line of its log, for the error of a child that never
	// got ready. It may be nil.
	Tail func() string
	// Ready asks once whether the child answers.
	Ready func(context.Context) error
	// Notes, when not nil, is called for every start with the reading end of a
	// pipe whose writing end the child has as file descriptor 3. It returns at
	// the end of the file.
	Notes func(io.Reader)
	// StartTimeout is how long the first start may take until Ready; 0 is 30 s: a
	// busy machine is slow, and a broken child ends by itself.
	StartTimeout time.Duration
	// StopTimeout is how long the child may take to end after SIGTERM before it
	// is killed; 0 is 3 s.
	StopTimeout time.Duration
}

// Child is a supervised process. Its methods are safe for concurrent use.
type Child struct {
	spec   Spec
	log    *slog.Logger
	stop   context.CancelFunc
	done   chan struct{}
	exited chan struct{} // closed when the first process ended before it was ready

	mu       sync.Mutex
	pid      int
	restarts int
	failure  error
}

const (
	firstBackoff   = 100 * time.Millisecond
	longestBackoff = 5 * time.Second
	// steadyAfter is how long a child has to live for its next death to be
	// treated as its first.
	steadyAfter   = 10 * time.Second
	probeInterval = 10 * time.Millisecond
	probeTimeout  = time.Second
)

// Start starts a child and returns when it is ready. It fails when the process
// ends or does not answer within the StartTimeout; then nothing is left of it.
// From then on the child is restarted, with growing pauses, until Stop is
// called: the end of ctx is the beginning of an orderly end, in which others
// still need the child.
func Start(ctx context.Context, spec Spec, log *slog.Logger) (*Child, error) {
	if spec.StartTimeout == 0 {
		spec.StartTimeout = 30 * time.Second
	}
	if spec.StopTimeout == 0 {
		spec.StopTimeout = 3 * time.Second
	}
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	c := &Child{spec: spec, log: log, stop: stop, done: make(chan struct{}), exited: make(chan struct{})}
	ready := make(chan struct{})
	go c.supervise(life, ready)
	if err := c.await(ctx, ready); err != nil {
		c.Stop()
		return nil, err
	}
	return c, nil
}

// Stop ends the child and waits until it is gone.
func (c *Child) Stop() {
	c.stop()
	<-c.done
}

// PID returns the process id of the running child, 0 between two lives.
func (c *Child) PID() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pid
}

// Restarts says how often the child was started again.
func (c *Child) Restarts() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.restarts
}

// await probes until the child answers, and closes ready.
func (c *Child) await(ctx context.Context, ready chan<- struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, c.spec.StartTimeout)
	defer cancel()
	for {
		probe, done := context.WithTimeout(ctx, probeTimeout)
		err := c.spec.Ready(probe)
		done()
		if err == nil && c.PID() != 0 {
			close(ready)
			return nil
		}
		select {
		case <-c.exited:
			return c.neverReady()
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return fmt.Errorf("%s did not answer within %v%s", c.spec.Name, c.spec.StartTimeout, c.tail())
			}
			return context.Cause(ctx)
		case <-time.After(probeInterval):
		}
	}
}

func (c *Child) neverReady() error {
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

// supervise runs the child again and again. It holds its thread for all that time:
// the kernel kills the child when the thread that started it ends
// (prctl(2), PR_SET_PDEATHSIG), and Go ends idle threads as it likes.
func (c *Child) supervise(ctx context.Context, ready <-chan struct{}) {
	defer close(c.done)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	backoff := firstBackoff
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
		if time.Since(started) > steadyAfter {
			backoff = firstBackoff
		}
		c.log.Warn("child process ended, starting it again", "child", c.spec.Name, "cause", err, "in", backoff)
		select {
		case <-ctx.Done():
			return
		case <-time.After(backoff):
		}
		backoff = min(2*backoff, longestBackoff)
		c.mu.Lock()
		c.restarts++
		c.mu.Unlock()
	}
}

// runOnce runs the child once and says how it ended, never with nil.
func (c *Child) runOnce(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, c.spec.Path, c.spec.Args...) //nolint:gosec // G204: the path is the operator's choice
	cmd.Env = c.spec.Env
	cmd.Stdout, cmd.Stderr = c.spec.Log, c.spec.Log
	cmd.SysProcAttr = processes.Bound() // its thread is supervise's
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = c.spec.StopTimeout

	stdin, keepOpen, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("open a pipe: %w", err)
	}
	defer func() { _ = keepOpen.Close() }()
	cmd.Stdin = stdin
	var notes *os.File
	if c.spec.Notes != nil {
		reader, writer, err := os.Pipe()
		if err != nil {
			_ = stdin.Close()
			return fmt.Errorf("open a pipe: %w", err)
		}
		notes = writer
		cmd.ExtraFiles = []*os.File{writer}
		read := make(chan struct{})
		go func() {
			defer close(read)
			c.spec.Notes(reader)
		}()
		defer func() {
			<-read
			_ = reader.Close()
		}()
	}
	err = cmd.Start()
	_ = stdin.Close()
	if notes != nil {
		_ = notes.Close()
	}
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	go func() { _, _ = keepOpen.Write(c.spec.Input) }()
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

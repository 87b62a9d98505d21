package load

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Child is a process of this program in another role. It prints its address, and then an
// answer to each line that it is sent. It ends when its input does.
type Child struct {
	// Address is where it listens, host:port.
	Address string

	role string
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
}

// Start starts this program with arguments. role names it in errors.
func Start(ctx context.Context, role string, arguments ...string) (*Child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	cmd := exec.CommandContext(ctx, self, arguments...) //nolint:gosec // it is this program
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", role, err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", role, err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", role, err)
	}
	c := &Child{role: role, cmd: cmd, in: in, out: bufio.NewReader(out)}
	if c.Address, err = c.line(); err != nil {
		c.Stop()
		return nil, fmt.Errorf("start %s: %w", role, err)
	}
	return c, nil
}

func (c *Child) line() (string, error) {
	text, err := c.out.ReadString('\n')
	return strings.TrimSpace(text), err
}

// Role is what Start was told.
func (c *Child) Role() string { return c.role }

// PID is its process.
func (c *Child) PID() int { return c.cmd.Process.Pid }

// Ask sends a line and gives the number that the child answers.
func (c *Child) Ask(question string) (int64, error) {
	if _, err := io.WriteString(c.in, question+"\n"); err != nil {
		return 0, fmt.Errorf("ask %s: %w", c.role, err)
	}
	text, err := c.line()
	if err != nil {
		return 0, fmt.Errorf("ask %s: %w", c.role, err)
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("ask %s: %w", c.role, err)
	}
	return n, nil
}

// Usage is the processor time that the child has used so far.
func (c *Child) Usage() (time.Duration, error) {
	ns, err := c.Ask(usage)
	return time.Duration(ns), err
}

const usage = "usage"

// Stop ends the child.
func (c *Child) Stop() {
	_ = c.in.Close()
	_ = c.cmd.Wait()
}

// Server is what a child serves with.
type Server interface {
	Serve(l net.Listener) error
	Close() error
}

// Serve is a child's life: it prints the address that it serves at, and answers what it is
// asked until its input ends; answers has those beside Usage's.
func Serve(ctx context.Context, server Server, answers map[string]func() int64) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	go func() {
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			if answer, ok := answers[lines.Text()]; ok {
				fmt.Println(answer())
				continue
			}
			var used syscall.Rusage
			if lines.Text() == usage && syscall.Getrusage(syscall.RUSAGE_SELF, &used) == nil {
				fmt.Println(used.Utime.Nano() + used.Stime.Nano())
			}
		}
		_ = server.Close()
	}()
	fmt.Println(listener.Addr())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

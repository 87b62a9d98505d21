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
	"strings"
	"syscall"
)

// Child is a process that runs this program in another role. It prints its address, and ends when its standard input ends.
type Child struct {
	PID
	// Address is the address where the child listens, host:port.
	Address string

	cmd *exec.Cmd
	in  io.Closer
}

// StartChild starts this program with arguments, and returns when the child listens.
func StartChild(ctx context.Context, arguments ...string) (*Child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	cmd := exec.CommandContext(ctx, self, arguments...) //nolint:gosec // G204: this program
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	if err := errors.Join(inErr, outErr); err != nil {
		return nil, fmt.Errorf("start %v: %w", arguments, err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %v: %w", arguments, err)
	}
	c := &Child{PID: PID(cmd.Process.Pid), cmd: cmd, in: in}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		c.Stop()
		return nil, fmt.Errorf("start %v: %w", arguments, err)
	}
	c.Address = strings.TrimSpace(line)
	return c, nil
}

// Stop ends the child and waits for it.
func (c *Child) Stop() {
	_ = c.in.Close()
	_ = c.cmd.Wait()
}

// Server is a server that a child can run.
type Server interface {
	Serve(l net.Listener) error
	Close() error
}

// Serve runs a child: it prints the address where server listens, and serves until the standard input ends.
func Serve(ctx context.Context, server Server) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = server.Close()
	}()
	fmt.Println(listener.Addr())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

package socket_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/socket"
)

// pair are the two ends of a connection.
func pair(t *testing.T) (near, far *net.TCPConn) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	dialed, err := new(net.Dialer).DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = dialed.Close(), accepted.Close() })
	return dialed.(*net.TCPConn), accepted.(*net.TCPConn)
}

// on calls f with a connection's descriptor.
func on(t *testing.T, c syscall.Conn, f func(fd uintptr)) {
	t.Helper()
	raw, err := c.SyscallConn()
	if err == nil {
		err = raw.Read(func(fd uintptr) bool { f(fd); return true })
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestSocketIsSilentUntilSomethingCanBeRead(t *testing.T) {
	for name, act := range map[string]func(*net.TCPConn) error{
		"bytes":   func(c *net.TCPConn) error { _, err := c.Write([]byte("x")); return err },
		"an end":  (*net.TCPConn).CloseWrite,
		"a reset": func(c *net.TCPConn) error { return errors.Join(c.SetLinger(0), c.Close()) },
	} {
		t.Run(name, func(t *testing.T) {
			near, far := pair(t)
			silent := func() (is bool) {
				on(t, near, func(fd uintptr) { is = socket.Silent(fd, make([]byte, 1)) })
				return is
			}
			on(t, near, func(fd uintptr) {
				if n, err := socket.Read(fd, make([]byte, 8)); !errors.Is(err, socket.ErrNothing) {
					t.Errorf("read %d bytes of nothing, %v", n, err)
				}
			})
			if !silent() {
				t.Fatal("a new connection is not silent")
			}
			if err := act(far); err != nil {
				t.Fatal(err)
			}
			for begun := time.Now(); silent(); time.Sleep(time.Millisecond) {
				if time.Since(begun) > 10*time.Second {
					t.Fatal("the connection is silent for ever")
				}
			}
			on(t, near, func(fd uintptr) {
				n, err := socket.Read(fd, make([]byte, 8))
				if name == "bytes" != (n > 0) || errors.Is(err, socket.ErrNothing) {
					t.Errorf("read %d bytes, %v", n, err)
				}
			})
		})
	}
}

func TestErrorsAreKnownByTheirMeaning(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, inUse := new(net.ListenConfig).Listen(t.Context(), "tcp", l.Addr().String())
	_ = l.Close()
	_, refused := new(net.Dialer).DialContext(t.Context(), "tcp", l.Addr().String())
	near, far := pair(t)
	_ = far.SetLinger(0)
	_ = far.Close()
	_, reset := near.Read(make([]byte, 1))
	_, broken := near.Write([]byte("x"))
	for _, c := range []struct {
		name                   string
		err                    error
		inUse, refused, closed bool
	}{
		{"in use", inUse, true, false, false},
		{"refused", refused, false, true, false},
		{"reset", reset, false, false, true},
		{"broken", broken, false, false, true},
		{"the end", fmt.Errorf("read: %w", io.EOF), false, false, true},
		{"half of it", io.ErrUnexpectedEOF, false, false, true},
		{"nothing", nil, false, false, false},
		{"a timeout", syscall.ETIMEDOUT, false, false, false},
	} {
		if i, r, cl := socket.InUse(c.err), socket.Refused(c.err), socket.Closed(c.err); i != c.inUse || r != c.refused || cl != c.closed {
			t.Errorf("%s: %v is in use %v, refused %v, closed %v", c.name, c.err, i, r, cl)
		}
	}
}

func TestThereAreDescriptors(t *testing.T) {
	if n := socket.Descriptors(); n < 64 {
		t.Errorf("there are %d", n)
	}
}

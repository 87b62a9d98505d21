package socket_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/base/socket"
)

// pair returns the two ends of a connection.
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

// withFD calls f with a connection's descriptor.
func withFD(t *testing.T, c syscall.Conn, f func(fd uintptr)) {
	t.Helper()
	raw, err := c.SyscallConn()
	if err == nil {
		err = raw.Read(func(fd uintptr) bool { f(fd); return true })
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestSocketIsIdleUntilReadable(t *testing.T) {
	for name, act := range map[string]func(*net.TCPConn) error{
		"bytes":   func(c *net.TCPConn) error { _, err := c.Write([]byte("x")); return err },
		"an end":  (*net.TCPConn).CloseWrite,
		"a reset": func(c *net.TCPConn) error { return errors.Join(c.SetLinger(0), c.Close()) },
	} {
		t.Run(name, func(t *testing.T) {
			near, far := pair(t)
			idle := func() (isIdle bool) {
				withFD(t, near, func(fd uintptr) { isIdle = socket.Idle(fd, make([]byte, 1)) })
				return isIdle
			}
			withFD(t, near, func(fd uintptr) {
				if n, err := socket.Read(fd, make([]byte, 8)); !errors.Is(err, socket.ErrWouldBlock) {
					t.Errorf("Read() of an idle socket = %d, %v, want %v", n, err, socket.ErrWouldBlock)
				}
			})
			if !idle() {
				t.Fatal("new connection is idle = false, want true")
			}
			if err := act(far); err != nil {
				t.Fatal(err)
			}
			for start := time.Now(); idle(); time.Sleep(time.Millisecond) {
				if time.Since(start) > 10*time.Second {
					t.Fatal("connection with input is idle for 10s, want it readable")
				}
			}
			withFD(t, near, func(fd uintptr) {
				n, err := socket.Read(fd, make([]byte, 8))
				if name == "bytes" != (n > 0) || errors.Is(err, socket.ErrWouldBlock) {
					t.Errorf("Read() after %s = %d, %v, want bytes only after bytes, and no %v", name, n, err, socket.ErrWouldBlock)
				}
			})
		})
	}
}

func TestErrorClassification(t *testing.T) {
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
		{"an end of file", fmt.Errorf("read: %w", io.EOF), false, false, true},
		{"an unexpected end of file", io.ErrUnexpectedEOF, false, false, true},
		{"no error", nil, false, false, false},
		{"a timeout", syscall.ETIMEDOUT, false, false, false},
	} {
		if i, r, cl := socket.InUse(c.err), socket.Refused(c.err), socket.Closed(c.err); i != c.inUse || r != c.refused ||
			cl != c.closed {
			t.Errorf("%s: InUse, Refused, Closed(%v) = %v, %v, %v, want %v, %v, %v",
				c.name, c.err, i, r, cl, c.inUse, c.refused, c.closed)
		}
	}
}

func TestMaxDescriptors(t *testing.T) {
	if n := socket.MaxDescriptors(); n < 64 {
		t.Errorf("MaxDescriptors() = %d, want at least 64", n)
	}
}

package socket_test

import (
	"errors"
	"net"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/base/socket"
	"github.com/gatewright/gatewright/shared/testing/deadline"
)

func newPoller(t *testing.T) *socket.Poller {
	t.Helper()
	p, err := socket.NewPoller()
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip("this system has no Poller")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// TestPollerReportsSocketOnce checks that Wait returns an ID once for data, for an end and for a reset, and again after
// another Add.
func TestPollerReportsSocketOnce(t *testing.T) {
	const large = 1<<63 + 1<<31 + 7 // all 64 bits of an id are returned
	for name, act := range map[string]func(*net.TCPConn) error{
		"bytes":   func(c *net.TCPConn) error { _, err := c.Write([]byte("x")); return err },
		"an end":  (*net.TCPConn).CloseWrite,
		"a reset": func(c *net.TCPConn) error { return errors.Join(c.SetLinger(0), c.Close()) },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPoller(t)
			near, far := pair(t)
			quiet, _ := pair(t)
			if err := errors.Join(p.Add(near, large), p.Add(quiet, 1)); err != nil {
				t.Fatal(err)
			}
			reported := make(chan []uint64, 10)
			go func() {
				for {
					ids, err := p.Wait(nil)
					if err != nil {
						return
					}
					reported <- ids
				}
			}()
			select {
			case ids := <-reported:
				t.Fatalf("reported sockets = %d before data arrives, want none", ids)
			case <-time.After(20 * time.Millisecond):
			}
			if err := act(far); err != nil {
				t.Fatal(err)
			}
			next := func() []uint64 {
				select {
				case ids := <-reported:
					return ids
				case <-time.After(deadline.Timeout()):
					t.Fatal("no socket is reported in time, want a report")
					return nil
				}
			}
			if ids := next(); !slices.Equal(ids, []uint64{large}) {
				t.Fatalf("reported sockets = %d, want [%d]", ids, uint64(large))
			}
			select {
			case ids := <-reported:
				t.Fatalf("reported sockets = %d a second time, want none", ids)
			case <-time.After(20 * time.Millisecond):
			}
			if err := p.Add(near, 9); err != nil { // the data was not read
				t.Fatal(err)
			}
			if ids := next(); !slices.Equal(ids, []uint64{9}) {
				t.Errorf("reported sockets after the second Add = %d, want [9]", ids)
			}
		})
	}
}

// TestPollerReportsManySockets checks more sockets than one Wait can return.
func TestPollerReportsManySockets(t *testing.T) {
	p := newPoller(t)
	const n = 150
	pending := make(map[uint64]bool)
	for i := range uint64(n) {
		near, far := pair(t)
		if err := p.Add(near, i); err != nil {
			t.Fatal(err)
		}
		if _, err := far.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		pending[i] = true
	}
	for len(pending) > 0 {
		ids, err := p.Wait(nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range ids {
			if !pending[id] {
				t.Fatalf("reported socket = %d, want one that is pending", id)
			}
			delete(pending, id)
		}
	}
}

func TestAddClosedSocketFails(t *testing.T) {
	p := newPoller(t)
	near, _ := pair(t)
	if err := near.Close(); err != nil {
		t.Fatal(err)
	}
	if err := p.Add(near, 1); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Add(closed socket) = %v, want %v", err, net.ErrClosed)
	}
}

func TestCloseEndsWait(t *testing.T) {
	p := newPoller(t)
	done := make(chan error)
	go func() {
		_, err := p.Wait(nil)
		done <- err
	}()
	time.Sleep(10 * time.Millisecond)
	_ = p.Close()
	if err := <-done; !errors.Is(err, os.ErrClosed) {
		t.Errorf("error of the waiting goroutine after Close = %v, want %v", err, os.ErrClosed)
	}
	near, _ := pair(t)
	if err := p.Add(near, 1); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Add() after Close = %v, want %v", err, os.ErrClosed)
	}
}

package socket_test

import (
	"errors"
	"net"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/gatewright/gatewright/internal/deadline"
	"github.com/gatewright/gatewright/shared/socket"
)

func readiness(t *testing.T) *socket.Readiness {
	t.Helper()
	r, err := socket.NewReadiness()
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip("this system tells of one socket at a time")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// TestReadinessIsToldOnce, of bytes, of an end and of a reset alike, and again when it is asked for again.
func TestReadinessIsToldOnce(t *testing.T) {
	const large = 1<<63 + 1<<31 + 7 // an id keeps all its bits
	for name, act := range map[string]func(*net.TCPConn) error{
		"bytes":   func(c *net.TCPConn) error { _, err := c.Write([]byte("x")); return err },
		"an end":  (*net.TCPConn).CloseWrite,
		"a reset": func(c *net.TCPConn) error { return errors.Join(c.SetLinger(0), c.Close()) },
	} {
		t.Run(name, func(t *testing.T) {
			r := readiness(t)
			near, far := pair(t)
			quiet, _ := pair(t)
			if err := errors.Join(r.Add(near, large), r.Add(quiet, 1)); err != nil {
				t.Fatal(err)
			}
			told := make(chan []uint64, 10)
			go func() {
				for {
					ids, err := r.Wait(nil)
					if err != nil {
						return
					}
					told <- ids
				}
			}()
			select {
			case ids := <-told:
				t.Fatalf("told of %d before anything has come", ids)
			case <-time.After(20 * time.Millisecond):
			}
			if err := act(far); err != nil {
				t.Fatal(err)
			}
			next := func() []uint64 {
				select {
				case ids := <-told:
					return ids
				case <-time.After(deadline.Long()):
					t.Fatal("nothing is told")
					return nil
				}
			}
			if ids := next(); !slices.Equal(ids, []uint64{large}) {
				t.Fatalf("told of %d", ids)
			}
			select {
			case ids := <-told:
				t.Fatalf("told of %d twice", ids)
			case <-time.After(20 * time.Millisecond):
			}
			if err := r.Add(near, 9); err != nil { // what it has to be read is there still
				t.Fatal(err)
			}
			if ids := next(); !slices.Equal(ids, []uint64{9}) {
				t.Errorf("told of %d", ids)
			}
		})
	}
}

// TestReadinessOfManyIsTold: of more than one answer has.
func TestReadinessOfManyIsTold(t *testing.T) {
	r := readiness(t)
	const n = 150
	left := make(map[uint64]bool)
	for i := range uint64(n) {
		near, far := pair(t)
		if err := r.Add(near, i); err != nil {
			t.Fatal(err)
		}
		if _, err := far.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		left[i] = true
	}
	for len(left) > 0 {
		ids, err := r.Wait(nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range ids {
			if !left[id] {
				t.Fatalf("told of %d, which is not waited for", id)
			}
			delete(left, id)
		}
	}
}

func TestClosedSocketIsNotWaitedFor(t *testing.T) {
	r := readiness(t)
	near, _ := pair(t)
	if err := near.Close(); err != nil {
		t.Fatal(err)
	}
	if err := r.Add(near, 1); !errors.Is(err, net.ErrClosed) {
		t.Errorf("error %v", err)
	}
}

func TestCloseEndsTheWait(t *testing.T) {
	r := readiness(t)
	ended := make(chan error)
	go func() {
		_, err := r.Wait(nil)
		ended <- err
	}()
	time.Sleep(10 * time.Millisecond)
	_ = r.Close()
	if err := <-ended; !errors.Is(err, os.ErrClosed) {
		t.Errorf("error %v", err)
	}
	near, _ := pair(t)
	if err := r.Add(near, 1); !errors.Is(err, os.ErrClosed) {
		t.Errorf("error %v", err)
	}
}

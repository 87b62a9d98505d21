package listen_test

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// exhaustDescriptors lowers the limit of descriptors, so that the process can't open files until restore is called.
func exhaustDescriptors(t *testing.T) (restore func()) {
	t.Helper()
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	next, err := unix.Dup(0) // finds the lowest free descriptor
	if err != nil {
		t.Fatal(err)
	}
	_ = unix.Close(next)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(next), Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	restore = func() { _ = unix.Setrlimit(unix.RLIMIT_NOFILE, &before) }
	t.Cleanup(restore)
	return restore
}

// TestConnectionsParkWithoutDescriptors checks that a parked connection is served while there are no free file
// descriptors: a goroutine then waits for its next byte. When there are descriptors again, connections that are parked
// after that must have no goroutine.
func TestConnectionsParkWithoutDescriptors(t *testing.T) {
	runPlainAndTLS(t, nil, func(t *testing.T, s dialableServer) {
		const n = 100
		first := s.dial()
		first.mustServe()
		restore := exhaustDescriptors(t)
		for range 2 {
			time.Sleep(400 * time.Millisecond) // until the connection is parked
			first.mustServe()
		}
		restore()
		clients := make([]*client, n)
		for i := range clients {
			clients[i] = s.dial()
			clients[i].mustServe()
		}
		waitGoroutines(t, n/2)
		for _, c := range append(clients, first) {
			c.mustServe()
		}
	})
}

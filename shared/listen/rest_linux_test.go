package listen_test

import (
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// withoutDescriptors has the process open no further file until the function that it gives is called.
func withoutDescriptors(t *testing.T) (restore func()) {
	t.Helper()
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	next, err := unix.Dup(0) // the lowest that is free
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

// TestConnectionsRestWhileNoDescriptorIsLeft, with a goroutine each, and without one as soon as there are
// descriptors again.
func TestConnectionsRestWhileNoDescriptorIsLeft(t *testing.T) {
	overBoth(t, nil, func(t *testing.T, r resting) {
		const n = 100
		all := make([]*client, n)
		for i := range all {
			all[i] = r.dial()
			all[i].served()
		}
		restore := withoutDescriptors(t)
		time.Sleep(400 * time.Millisecond) // they rest
		if got := runtime.NumGoroutine(); got < n {
			t.Errorf("%d goroutines for %d connections: the test has left descriptors", got, n)
		}
		for _, c := range all {
			c.served()
		}
		restore()
		for _, c := range all {
			c.served()
		}
		asleep(t, n/2)
		for _, c := range all {
			c.served()
		}
	})
}

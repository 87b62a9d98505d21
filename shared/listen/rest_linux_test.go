package listen_test

import (
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

// TestConnectionsRestWhileNoDescriptorIsLeft, and have no goroutine as soon as there are descriptors again.
func TestConnectionsRestWhileNoDescriptorIsLeft(t *testing.T) {
	overBoth(t, nil, func(t *testing.T, r resting) {
		const n = 100
		first := r.dial()
		first.served()
		restore := withoutDescriptors(t)
		for range 2 {
			time.Sleep(400 * time.Millisecond) // it rests
			first.served()
		}
		restore()
		all := make([]*client, n)
		for i := range all {
			all[i] = r.dial()
			all[i].served()
		}
		asleep(t, n/2)
		for _, c := range append(all, first) {
			c.served()
		}
	})
}

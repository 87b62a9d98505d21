// Package free finds addresses of this machine at which nobody listens, for programs that have to be told theirs
// before they start.
//
// It is for tests and for programs that measure. What can listen at port 0 itself, and say where it does, needs none:
// another process may take the address in between. There is only this file.
package free

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
)

// The ports that Find chooses from are below those that systems give to connections and to listeners at port 0 (32768 and up
// on Linux, 49152 and up elsewhere). Any connection of any process could take one of those in between.
const (
	firstPort = 20_000
	lastPort  = 32_000
	tries     = 100
)

// Find returns an address of TCP at which nobody listened a moment ago.
func Find(ctx context.Context) (netip.AddrPort, error) {
	var err error
	for range tries {
		at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), firstPort+rand.N[uint16](lastPort-firstPort))
		var l net.Listener
		if l, err = new(net.ListenConfig).Listen(ctx, "tcp", at.String()); err == nil {
			return at, l.Close()
		}
	}
	return netip.AddrPort{}, fmt.Errorf("find a free port: %w", err)
}

// T is the part of *testing.T that Address needs.
type T interface {
	Helper()
	Context() context.Context
	Fatal(args ...any)
}

// Address is Find for a test.
func Address(t T) netip.AddrPort {
	t.Helper()
	at, err := Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return at
}

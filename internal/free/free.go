// Package free finds free addresses on this machine, for programs that need to know their address before they start.
//
// It is for tests and for measurements. Do not use it for a program that can listen at port 0 and report its address, because
// another process may take a free address before the program listens. There is only this file.
package free

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync/atomic"
)

// Find chooses from ports below the ephemeral range, which operating systems use for connections and for listeners at port 0
// (32768 and up on Linux, 49152 and up elsewhere). A connection of any process could take a port of that range at any time.
const (
	firstPort = 20_000
	lastPort  = 32_000
	tries     = 100
)

// next returns the ports in turn, from a random one on: a process that asks for several addresses before it uses them gets the same
// one only after all others.
var next = ports(rand.N[uint32](lastPort - firstPort))

func ports(first uint32) func() uint16 {
	var asked atomic.Uint32
	return func() uint16 {
		const all = lastPort - firstPort
		return uint16(firstPort + (first%all+asked.Add(1))%all)
	}
}

// Find returns a TCP address of 127.0.0.1 that was free a moment ago. Two addresses that a process gets differ.
func Find(ctx context.Context) (netip.AddrPort, error) {
	var err error
	for range tries {
		at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), next())
		var l net.Listener
		if l, err = new(net.ListenConfig).Listen(ctx, "tcp", at.String()); err == nil {
			return at, l.Close()
		}
	}
	return netip.AddrPort{}, fmt.Errorf("find a free port: tried %d ports from %d to %d, the last one: %w", tries, firstPort, lastPort-1, err)
}

// T is the part of *testing.T that Address needs.
type T interface {
	Helper()
	Context() context.Context
	Fatal(args ...any)
}

// Address returns a free address. It ends the test if Find fails.
func Address(t T) netip.AddrPort {
	t.Helper()
	at, err := Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return at
}

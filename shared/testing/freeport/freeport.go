// Package freeport finds free addresses on this machine, for programs that need to know their address before they start.
//
// It is for tests and for measurements. Do not use it for a program that can listen at port 0 and report its
// address, because another process could take a free address before the program listens. This is the only file.
package freeport

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync/atomic"
)

// Find chooses ports from firstPort up to, but not including, endPort. They are below the ephemeral range: 32768 and up
// on Linux, 49152 and up elsewhere. Operating systems use the ephemeral range for connections and for listeners at port
// 0, so a connection of any process could take such a port at any time.
const (
	firstPort = 20_000
	endPort   = 32_000
	maxTries  = 100
)

// nextPort returns all ports in turn, beginning with a random port. A process that gets several addresses before it
// uses them therefore gets the same address again only after all others.
var nextPort = ports(rand.N[uint32](endPort - firstPort))

func ports(first uint32) func() uint16 {
	var calls atomic.Uint32
	return func() uint16 {
		const count = endPort - firstPort
		return uint16(firstPort + (first%count+calls.Add(1))%count)
	}
}

// Find returns a TCP address of 127.0.0.1 that was free a moment ago. A process gets the same address again only after
// Find has tried all other ports. Find fails if the first 100 ports that it tries are not free.
func Find(ctx context.Context) (netip.AddrPort, error) {
	var err error
	for range maxTries {
		addr := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), nextPort())
		var l net.Listener
		if l, err = new(net.ListenConfig).Listen(ctx, "tcp", addr.String()); err == nil {
			return addr, l.Close()
		}
	}
	return netip.AddrPort{}, fmt.Errorf("find a free port: tried %d ports from %d to %d, the last one: %w", maxTries,
		firstPort, endPort-1, err)
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
	addr, err := Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return addr
}

package freeport_test

import (
	"net"
	"net/netip"
	"testing"

	"github.com/gatewright/gatewright/shared/testing/freeport"
)

func TestAddressCanBeListenedOn(t *testing.T) {
	addr := freeport.Address(t)
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", addr.String())
	if err != nil || !addr.Addr().IsLoopback() || addr.Port() == 0 {
		t.Fatalf("Listen(%v) = %v, want no error at a loopback address with a port", addr, err)
	}
	_ = l.Close()
}

// TestAddressesDiffer checks that addresses differ although no process listens at the earlier addresses yet.
func TestAddressesDiffer(t *testing.T) {
	const count = 1000 // there are 12,000 ports: random choices would repeat some
	seen := map[netip.AddrPort]bool{}
	for range count {
		addr := freeport.Address(t)
		if seen[addr] {
			t.Fatalf("Address() = %v twice, want different addresses", addr)
		}
		seen[addr] = true
	}
}

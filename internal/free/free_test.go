package free_test

import (
	"net"
	"net/netip"
	"testing"

	"github.com/gatewright/gatewright/internal/free"
)

func TestAddressCanBeListenedOn(t *testing.T) {
	at := free.Address(t)
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", at.String())
	if err != nil || !at.Addr().IsLoopback() || at.Port() == 0 {
		t.Fatalf("%v cannot be listened on: %v", at, err)
	}
	_ = l.Close()
}

// TestAddressesDiffer although nobody listens at the first one when the second one is asked for.
func TestAddressesDiffer(t *testing.T) {
	const count = 1000 // of 12,000 ports: at random, some would come twice
	seen := map[netip.AddrPort]bool{}
	for range count {
		at := free.Address(t)
		if seen[at] {
			t.Fatalf("Address() = %v twice", at)
		}
		seen[at] = true
	}
}

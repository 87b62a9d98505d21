// Package free finds addresses of this machine at which nobody listens, for programs that have to be told theirs
// before they start.
//
// It is for tests and for programs that measure. What can listen at port 0 itself, and say where it does, needs none:
// another process may take the address in between. There is only this file.
package free

import (
	"context"
	"fmt"
	"net"
	"net/netip"
)

// Find finds an address of TCP at which nobody listened a moment ago.
func Find(ctx context.Context) (netip.AddrPort, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("find a free port: %w", err)
	}
	defer func() { _ = l.Close() }()
	return netip.ParseAddrPort(l.Addr().String())
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

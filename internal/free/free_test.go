package free_test

import (
	"net"
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

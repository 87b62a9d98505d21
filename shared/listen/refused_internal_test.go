package listen

import (
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/gatewright/gatewright/shared/config"
)

// TestAddressThatCannotBeListenedOnSaysWhatToDo, by what the system says of it.
func TestAddressThatCannotBeListenedOnSaysWhatToDo(t *testing.T) {
	t.Parallel()
	of := func(cause error) error { return &net.OpError{Op: "listen", Err: os.NewSyscallError("bind", cause)} }
	for want, err := range map[string]error{
		"another program":      of(syscall.EADDRINUSE),
		"CAP_NET_BIND_SERVICE": of(syscall.EACCES),
		"cannot be listened on (bind: cannot assign requested address)": of(syscall.EADDRNOTAVAIL),
	} {
		told := refused(err, ":80", "the gateway", "GATEWRIGHT_GATEWAY_ADDR").Error()
		if !strings.Contains(told, want) || !strings.Contains(told, ":80 for the gateway") || !strings.Contains(told, "GATEWRIGHT_GATEWAY_ADDR") {
			t.Errorf("%v is told as %q", err, told)
		}
	}
}

// TestConnectionsAreCountedBeforeAnybodyServes: who watches a process may ask at any time.
func TestConnectionsAreCountedBeforeAnybodyServes(t *testing.T) {
	t.Parallel()
	s := New(Options{Handler: http.NotFoundHandler(), Settings: config.DefaultListener(), Log: slog.New(slog.DiscardHandler)})
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	for range 1000 { // beside its start, which the race detector watches
		if n := s.Connections(); n != 0 {
			t.Fatalf("there are %d", n)
		}
	}
	_ = s.Close()
	<-served
}

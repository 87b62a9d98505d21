package listen

import (
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/gatewright/gatewright/shared/core/config"
)

// TestListenErrorSaysWhatToDo checks the text for the usual errors of the system, which names the variable to change.
func TestListenErrorSaysWhatToDo(t *testing.T) {
	t.Parallel()
	listenErr := func(cause error) error { return &net.OpError{Op: "listen", Err: os.NewSyscallError("bind", cause)} }
	for want, err := range map[string]error{
		"another program":      listenErr(syscall.EADDRINUSE),
		"CAP_NET_BIND_SERVICE": listenErr(syscall.EACCES),
		"cannot be listened on (bind: cannot assign requested address)": listenErr(syscall.EADDRNOTAVAIL),
	} {
		text := listenError(err, ":80", "the gateway", "GATEWRIGHT_GATEWAY_ADDR").Error()
		if !strings.Contains(text, want) || !strings.Contains(text, ":80 for the gateway") ||
			!strings.Contains(text, "GATEWRIGHT_GATEWAY_ADDR") {
			t.Errorf("listenError(%v) = %q, want %q, the address with its use, and the variable", err, text, want)
		}
	}
}

// TestConnectionsBeforeServe calls Connections while Serve starts, because metrics
// can be read at any time. The race detector reports unsynchronized access.
func TestConnectionsBeforeServe(t *testing.T) {
	t.Parallel()
	s := New(Options{
		Handler: http.NotFoundHandler(), Settings: config.DefaultListener(),
		Log: slog.New(slog.DiscardHandler),
	})
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	for range 1000 { // concurrently with the start of Serve
		if n := s.Connections(); n != 0 {
			t.Fatalf("Connections() = %d, want 0", n)
		}
	}
	_ = s.Close()
	<-served
}

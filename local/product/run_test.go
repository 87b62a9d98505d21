package product

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/local/datadir"
	"github.com/gatewright/gatewright/shared/base/terminal"
	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/dataplane/listen"
)

// TestCloseRunsInReverseOrder also checks that close continues after an error.
func TestCloseRunsInReverseOrder(t *testing.T) {
	var closed []string
	failed := errors.New("the second one fails")
	r := &run{}
	r.onClose(func() { closed = append(closed, "first") })
	r.closers = append(r.closers, func() error { return failed })
	r.onClose(func() { closed = append(closed, "third") })
	if err := r.close(); !errors.Is(err, failed) {
		t.Errorf("close() = %v, want %v", err, failed)
	}
	if want := []string{"third", "first"}; !slices.Equal(closed, want) {
		t.Errorf("close() closes %q, want %q", closed, want)
	}
}

// TestFailedStartReleasesTheDataDirectory checks that a failed start
// releases the lock, so that the next start can use the directory.
func TestFailedStartReleasesTheDataDirectory(t *testing.T) {
	occupied, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = occupied.Close() }()
	t.Setenv(config.VarDataDir, t.TempDir())
	t.Setenv(config.VarAPIAddr, "127.0.0.1:0")
	t.Setenv(config.VarGatewayAddr, occupied.Addr().String())
	s, err := Laptop.settings(os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	if err := runProduct(t.Context(), s); err == nil || !strings.Contains(err.Error(), config.VarGatewayAddr) {
		t.Errorf("runProduct() = %v, want an error that names %s", err, config.VarGatewayAddr)
	}
	dir, err := datadir.Open(s.dataDir)
	if err != nil {
		t.Fatal(err)
	}
	l, err := dir.Lock()
	if err != nil {
		t.Fatalf("Lock() after the failed start = %v, want the lock", err)
	}
	defer l.Release()
	if state, err := dir.LoadState(); err != nil || state.PID != 0 {
		t.Errorf("LoadState() after the failed start = %+v, %v, want no state", state, err)
	}
}

// TestFailedListenerEndsTheRun checks that an error of a listener
// ends the run with this error, after the gateway has been drained.
func TestFailedListenerEndsTheRun(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, fail := context.WithCancelCause(t.Context())
	defer fail(nil)
	drained := false
	r := &run{
		settings: settings{listener: config.DefaultListener(), program: Laptop}, fail: fail,
		terminal: terminal.New(io.Discard, false),
		log:      slog.New(slog.DiscardHandler), data: &resources{}, product: &product{drain: func(context.Context) error {
			drained = true
			return nil
		}},
	}
	r.start(func() error { return r.serve(ctx, "the gateway", l, listen.Options{Handler: http.NotFoundHandler()}) })
	_ = r.tasks.Wait() // wait below would never return if the failed listener did not end ctx
	if err := context.Cause(ctx); !errors.Is(err, net.ErrClosed) || !strings.Contains(err.Error(), "serve the gateway") {
		t.Fatalf("cause of the end = %v, want %v of serve the gateway", err, net.ErrClosed)
	}
	r.wait(ctx)
	if !drained {
		t.Error("wait() returns before the gateway is drained, want it drained")
	}
}

package host_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/dataplane/listen"
	"github.com/gatewright/gatewright/shared/runtime/service"
	"github.com/gatewright/gatewright/shared/runtime/service/host"
)

// stuckProcess is a process whose requests for /stuck, and whose Drain, end only when they are canceled.
type stuckProcess struct {
	requested, draining, runEnded chan struct{}
}

var _ service.Process = stuckProcess{}

func newStuck() stuckProcess {
	return stuckProcess{make(chan struct{}), make(chan struct{}), make(chan struct{})}
}

func (s stuckProcess) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/stuck" {
		_, _ = io.WriteString(w, "ok")
		return
	}
	close(s.requested)
	<-r.Context().Done()
}

func (s stuckProcess) Run(ctx context.Context) {
	<-ctx.Done()
	close(s.runEnded)
}

func (s stuckProcess) Drain(ctx context.Context) {
	close(s.draining)
	<-ctx.Done()
}

func listenLocal(t *testing.T) net.Listener {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func options() listen.Options {
	return listen.Options{
		Settings: config.DefaultListener(), IDs: ids.NewSource(strings.NewReader(strings.Repeat("x", 1<<10)), time.Now),
		Log: slog.New(slog.DiscardHandler),
	}
}

func get(ctx context.Context, address string, header http.Header) (int, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return 0, err
	}
	r.Header = header
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err
	}
	_ = resp.Body.Close()
	return resp.StatusCode, nil
}

// TestStuckRequestIsCutAtTheDrainTimeout checks that a request that never ends is canceled
// at the drain timeout. Otherwise the supervisor would kill the process before Run ends.
func TestStuckRequestIsCutAtTheDrainTimeout(t *testing.T) {
	s, l := newStuck(), listenLocal(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	served := make(chan error, 1)
	go func() { served <- host.Serve(ctx, l, s, options(), 100*time.Millisecond) }()
	responded := make(chan error, 1)
	go func() {
		_, err := get(t.Context(), "http://"+l.Addr().String()+"/stuck", nil)
		responded <- err
	}()
	<-s.requested
	stop()
	<-s.draining
	if err := <-served; err != nil {
		t.Errorf("Serve() error = %v, want none", err)
	}
	if err := <-responded; err == nil {
		t.Error("GET /stuck error = nil, want one")
	}
	<-s.runEnded
}

// TestListenerErrorEndsTheProcess checks that Serve returns the error of a closed listener, and that the Run of the
// process ends too.
func TestListenerErrorEndsTheProcess(t *testing.T) {
	s, l := newStuck(), listenLocal(t)
	_ = l.Close()
	if err := host.Serve(t.Context(), l, s, options(), time.Minute); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Serve(closed listener) = %v, want %v", err, net.ErrClosed)
	}
	<-s.runEnded
}

// TestHeaderLimitHasSpaceForGatewayFields checks that a request that is just
// within the client's limit is accepted after a gateway has added header fields.
func TestHeaderLimitHasSpaceForGatewayFields(t *testing.T) {
	s, l := newStuck(), listenLocal(t)
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- host.Serve(ctx, l, s, options(), time.Millisecond) }()
	limit := config.DefaultListener().HeaderBytes
	for size, want := range map[int]int{
		limit: http.StatusOK, limit + 4<<10: http.StatusOK,
		2 * limit: http.StatusRequestHeaderFieldsTooLarge,
	} {
		got, err := get(t.Context(), "http://"+l.Addr().String()+"/", http.Header{"X": {strings.Repeat("x", size)}})
		if err != nil || got != want {
			t.Errorf("status for a header of %d bytes = %d, %v, want %d", size, got, err, want)
		}
	}
	stop()
	if err := <-served; err != nil {
		t.Errorf("Serve() error = %v, want none", err)
	}
}

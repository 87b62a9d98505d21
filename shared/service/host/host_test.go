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

	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/listen"
	"github.com/gatewright/gatewright/shared/service"
	"github.com/gatewright/gatewright/shared/service/host"
)

// stuck is a process with a request that never ends.
type stuck struct {
	asked, draining, ended chan struct{}
}

var _ service.Process = stuck{}

func newStuck() stuck { return stuck{make(chan struct{}), make(chan struct{}), make(chan struct{})} }

func (s stuck) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/stuck" {
		_, _ = io.WriteString(w, "ok")
		return
	}
	close(s.asked)
	<-r.Context().Done()
}

func (s stuck) Run(ctx context.Context) {
	<-ctx.Done()
	close(s.ended)
}

func (s stuck) Drain(ctx context.Context) {
	close(s.draining)
	<-ctx.Done()
}

func listener(t *testing.T) net.Listener {
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
	out, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err
	}
	_ = out.Body.Close()
	return out.StatusCode, nil
}

// TestWhatNeverEndsIsCutWhenTheTimeIsUp: whoever stops a service would kill it a moment
// later, and with it what it does last.
func TestWhatNeverEndsIsCutWhenTheTimeIsUp(t *testing.T) {
	s, l := newStuck(), listener(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	served := make(chan error, 1)
	go func() { served <- host.Serve(ctx, l, s, options(), 100*time.Millisecond) }()
	answered := make(chan error, 1)
	go func() {
		_, err := get(t.Context(), "http://"+l.Addr().String()+"/stuck", nil)
		answered <- err
	}()
	<-s.asked
	stop()
	<-s.draining
	if err := <-served; err != nil {
		t.Error(err)
	}
	if err := <-answered; err == nil {
		t.Error("a request that never ends was answered")
	}
	<-s.ended
}

// TestListenerThatBreaksEndsTheProcess, and what runs beside it.
func TestListenerThatBreaksEndsTheProcess(t *testing.T) {
	s, l := newStuck(), listener(t)
	_ = l.Close()
	if err := host.Serve(t.Context(), l, s, options(), time.Minute); !errors.Is(err, net.ErrClosed) {
		t.Errorf("error %v", err)
	}
	<-s.ended
}

// TestHeadOfAGatewayFits: what its client may just send has the gateway's own words on top.
func TestHeadOfAGatewayFits(t *testing.T) {
	s, l := newStuck(), listener(t)
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- host.Serve(ctx, l, s, options(), time.Millisecond) }()
	whole := config.DefaultListener().HeaderBytes
	for size, want := range map[int]int{whole: http.StatusOK, whole + 4<<10: http.StatusOK, 2 * whole: http.StatusRequestHeaderFieldsTooLarge} {
		got, err := get(t.Context(), "http://"+l.Addr().String()+"/", http.Header{"X": {strings.Repeat("x", size)}})
		if err != nil || got != want {
			t.Errorf("%d bytes are answered %d (%v), want %d", size, got, err, want)
		}
	}
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

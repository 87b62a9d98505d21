package host_test

import (
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/runtime/service"
	"github.com/gatewright/gatewright/shared/runtime/service/host"
)

// notifiedProcess is a ShutdownListener that drains at once.
type notifiedProcess struct{ notified, drained chan struct{} }

var (
	_ service.Process          = notifiedProcess{}
	_ service.ShutdownListener = notifiedProcess{}
)

func (notifiedProcess) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	_, _ = io.WriteString(w, "ok")
}
func (notifiedProcess) Run(ctx context.Context) { <-ctx.Done() }
func (n notifiedProcess) AnnounceShutdown()     { close(n.notified) }
func (n notifiedProcess) Drain(context.Context) { close(n.drained) }

// TestResponsesCloseConnectionsDuringAnnouncement checks that during the announcement, the
// responses of all listeners close their connections, so that clients connect to another copy.
func TestResponsesCloseConnectionsDuringAnnouncement(t *testing.T) {
	p := notifiedProcess{make(chan struct{}), make(chan struct{})}
	first, second := listenLocal(t), listenLocal(t)
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() {
		served <- host.ServeAll(ctx, p, host.ShutdownTimes{Announce: 2 * time.Second, Drain: time.Minute},
			host.Endpoint{Listener: first, Options: options()}, host.Endpoint{Listener: second, Options: options()})
	}()
	closesConnection := func(address string) bool {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		return resp.Close
	}
	if closesConnection(first.Addr().String()) || closesConnection(second.Addr().String()) {
		t.Error("a response closes its connection before the announcement, want the connection open")
	}
	stop()
	<-p.notified
	// The servers are notified shortly after the process.
	for !closesConnection(first.Addr().String()) || !closesConnection(second.Addr().String()) {
		select {
		case <-p.drained:
			t.Fatal("the process drains before responses close connections, want an announcement first")
		default:
		}
	}
	select {
	case <-p.drained:
		t.Error("the process drains during the announcement, want it to wait for its end")
	default:
	}
	if err := <-served; err != nil {
		t.Errorf("ServeAll() error = %v, want none", err)
	}
	<-p.drained
}

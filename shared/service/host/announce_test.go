package host_test

import (
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/service"
	"github.com/gatewright/gatewright/shared/service/host"
)

// leaver is a process that is told before it drains, and answers at once.
type leaver struct{ left, drained chan struct{} }

var (
	_ service.Process = leaver{}
	_ service.Leaver  = leaver{}
)

func (leaver) ServeHTTP(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }
func (leaver) Run(ctx context.Context)                          { <-ctx.Done() }
func (l leaver) Leave()                                         { close(l.left) }
func (l leaver) Drain(context.Context)                          { close(l.drained) }

// TestAnswersSayThatTheyAreTheLast while the end is announced, at each listener: a client that
// comes again by a balancer is sent elsewhere.
func TestAnswersSayThatTheyAreTheLast(t *testing.T) {
	p := leaver{make(chan struct{}), make(chan struct{})}
	one, other := listener(t), listener(t)
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() {
		served <- host.ServeAt(ctx, p, host.Times{Announce: 2 * time.Second, Drain: time.Minute}, host.At{Listener: one, Options: options()}, host.At{Listener: other, Options: options()})
	}()
	last := func(at string) bool {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+at, nil)
		if err != nil {
			t.Fatal(err)
		}
		out, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, out.Body)
		_ = out.Body.Close()
		return out.Close
	}
	if last(one.Addr().String()) || last(other.Addr().String()) {
		t.Error("a connection ends before the signal")
	}
	stop()
	<-p.left
	for !last(one.Addr().String()) || !last(other.Addr().String()) { // it is told of it a moment later
		select {
		case <-p.drained:
			t.Fatal("nobody is told before it drains")
		default:
		}
	}
	select {
	case <-p.drained:
		t.Error("it drains before its end was announced for as long as it is to be")
	default:
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
	<-p.drained
}

package admin

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/gatewright/gatewright/shared/listen"
	"github.com/gatewright/gatewright/shared/metrics"
)

// Watch is what operators ask a process about: what it measures, and how many clients its
// listeners have. Make one with NewWatch. It is safe for concurrent use.
type Watch struct {
	// Metrics are answered at /metrics; whoever measures tells them.
	Metrics *metrics.Metrics

	mu      sync.Mutex // guards servers, of which there is one for each listener of clients
	servers []*listen.Server
}

// NewWatch makes a Watch of a process that has no listener yet.
func NewWatch() *Watch {
	w := &Watch{}
	w.Metrics = metrics.New(w.connections)
	return w
}

// Count has the connections of a listener's server counted (host.At.Made).
func (w *Watch) Count(s *listen.Server) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.servers = append(w.servers, s)
}

func (w *Watch) connections() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, s := range w.servers {
		n += s.Connections()
	}
	return n
}

// What an operator's request may take, and its head.
const (
	timeout   = 10 * time.Second
	headBytes = 16 << 10
)

// Serve answers operators at l until the end that it gives is called: after all else has ended, so
// that what waits for the process sees it drain. It is ready until ctx ends.
func (w *Watch) Serve(ctx context.Context, l net.Listener, log *slog.Logger) (end func()) {
	server := &http.Server{
		Handler:           New(func() bool { return ctx.Err() == nil }, w.Metrics.Handler()),
		ReadHeaderTimeout: timeout, ReadTimeout: timeout, WriteTimeout: 2 * timeout, IdleTimeout: time.Minute,
		MaxHeaderBytes: headBytes, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(l)
	}()
	return func() {
		_ = server.Close()
		<-ended
	}
}

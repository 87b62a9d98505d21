package admin

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/gatewright/gatewright/shared/dataplane/listen"
	"github.com/gatewright/gatewright/shared/runtime/metrics"
)

// Monitor has the data that operators can request: the process's metrics, and the number of client connections at its
// listeners. Create one with NewMonitor. It is safe for concurrent use.
type Monitor struct {
	// Metrics are served at /metrics. Other packages record their measurements in them.
	Metrics *metrics.Metrics

	mu      sync.Mutex // guards servers: one for each listener for clients
	servers []*listen.Server
}

// NewMonitor returns a Monitor of a process that has no listener yet.
func NewMonitor() *Monitor {
	m := &Monitor{}
	m.Metrics = metrics.New(m.connections)
	return m
}

// AddServer adds the connections of a listener's server to the
// metric of client connections. Use it as host.Endpoint.OnCreated.
func (m *Monitor) AddServer(s *listen.Server) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.servers = append(m.servers, s)
}

func (m *Monitor) connections() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for _, s := range m.servers {
		n += s.Connections()
	}
	return n
}

// The limits of an operator's request: its time, and the size of its head.
const (
	timeout   = 10 * time.Second
	headBytes = 16 << 10
)

// Serve serves operators at l until stop is called. Call stop after everything else has ended, so that
// supervisors can observe how the process drains. /readyz returns 200 until ctx ends, and 503 after that.
func (m *Monitor) Serve(ctx context.Context, l net.Listener, log *slog.Logger) (stop func()) {
	server := &http.Server{
		Handler:           New(func() bool { return ctx.Err() == nil }, m.Metrics.Handler()),
		ReadHeaderTimeout: timeout, ReadTimeout: timeout, WriteTimeout: 2 * timeout, IdleTimeout: time.Minute,
		MaxHeaderBytes: headBytes, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l)
	}()
	return func() {
		_ = server.Close()
		<-done
	}
}

// Package host serves a service's process at listeners, and
// drains it at shutdown. Containers and the local process use it.
//
// The package does not know any particular service. Its caller opens the listeners, configures TLS and handles signals.
//
// The package has this file only.
package host

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/gatewright/gatewright/shared/dataplane/listen"
	"github.com/gatewright/gatewright/shared/runtime/service"
)

// Serve serves the process at l until ctx ends. It sets the process as the handler of the options. When ctx ends, Serve
// drains the process, which receives requests and health checks until it has drained. Serve returns when all requests
// have ended, or when the time in the parameter drain is over.
//
// Gateways add header fields to the requests that they forward,
// so Serve increases the options' limits on a request's head.
//
// Serve returns an error if the listener fails, and nil if ctx ends.
func Serve(ctx context.Context, l net.Listener, p service.Process, o listen.Options, drain time.Duration) error {
	return ServeAll(ctx, p, ShutdownTimes{Drain: drain}, Endpoint{Listener: l, Options: o})
}

// Endpoint is a listener and the options of its server.
type Endpoint struct {
	Listener net.Listener
	Options  listen.Options
	// OnCreated is called with the server before it serves; it may be nil.
	OnCreated func(*listen.Server)
}

// ShutdownTimes are the durations of a shutdown, as in service.Service.
type ShutdownTimes struct{ Announce, Drain time.Duration }

// ServeAll is Serve at several listeners. If t.Announce is not 0, the process continues to accept requests
// for that time. After it, the listeners are closed, and the process drains while running requests end.
func ServeAll(ctx context.Context, p service.Process, t ShutdownTimes, endpoints ...Endpoint) error {
	runCtx, stopRun := context.WithCancel(context.WithoutCancel(ctx))
	var runGroup sync.WaitGroup
	defer runGroup.Wait()
	defer stopRun()
	runGroup.Go(func() { p.Run(runCtx) })
	serveErrs := make(chan error, len(endpoints))
	servers := make([]*listen.Server, len(endpoints))
	for i, e := range endpoints {
		e.Options.Handler = p
		e.Options.Settings.HeaderBytes += gatewayHeaderBytes
		e.Options.Settings.HeaderFields += gatewayHeaderFields
		server := listen.New(e.Options)
		servers[i] = server
		if e.OnCreated != nil {
			e.OnCreated(server)
		}
		go func() { serveErrs <- server.Serve(e.Listener) }()
	}
	select {
	case err := <-serveErrs:
		for _, s := range servers {
			_ = s.Close()
		}
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	announceShutdown(runCtx, p, servers, t.Announce)
	drainCtx, cancel := context.WithTimeout(runCtx, t.Drain)
	defer cancel()
	var drainGroup sync.WaitGroup
	drainGroup.Go(func() { p.Drain(drainCtx) })
	if t.Announce == 0 {
		drainGroup.Wait() // until then, the process still receives requests
	}
	for _, s := range servers {
		drainGroup.Go(func() {
			if err := s.Shutdown(drainCtx); err != nil {
				_ = s.Close()
			}
		})
	}
	drainGroup.Wait()
	for range servers {
		<-serveErrs
	}
	return nil
}

// announceShutdown notifies the process and its clients that the process is about
// to end, and waits for delay, so that clients can reconnect elsewhere.
func announceShutdown(ctx context.Context, p service.Process, servers []*listen.Server, delay time.Duration) {
	if l, ok := p.(service.ShutdownListener); ok {
		l.AnnounceShutdown()
	}
	if delay == 0 {
		return
	}
	for _, s := range servers {
		s.AnnounceShutdown()
	}
	select {
	case <-time.After(delay):
	case <-ctx.Done():
	}
}

// The maximum size and number of the header fields that gateways add to a request.
const (
	gatewayHeaderBytes  = 8 << 10
	gatewayHeaderFields = 32
)

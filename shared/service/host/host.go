// Package host runs a service's process at a listener, and lets it drain when it is
// to end: in a container as in the local process.
//
// What it is not: it knows no service and opens nothing. Listeners and TLS are its
// caller's, as is what is heard of a signal.
//
// There is only this file.
package host

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/gatewright/gatewright/shared/listen"
	"github.com/gatewright/gatewright/shared/service"
)

// Serve answers at l, with the process as the options' handler, until ctx ends. The
// process drains then, and is asked on meanwhile: by its health check, and for what is
// under way. All is over when Serve returns, which is after drain at the latest.
//
// Gateways pass on what they let through with words of their own on top, so that heads may
// be a little larger than the options have it.
//
// The error is of a listener that broke; the end of ctx is none.
func Serve(ctx context.Context, l net.Listener, p service.Process, o listen.Options, drain time.Duration) error {
	return ServeAt(ctx, p, Times{Drain: drain}, At{Listener: l, Options: o})
}

// At is a listener with what is served there.
type At struct {
	Listener net.Listener
	Options  listen.Options
	// Made is called with the server before it serves, nil for nobody.
	Made func(*listen.Server)
}

// Times are how long an end takes, as a service.Service has them.
type Times struct{ Announce, Drain time.Duration }

// ServeAt is Serve at several listeners. With an announcement the process is asked on for
// that long, and then no more: it drains while what is under way ends.
func ServeAt(ctx context.Context, p service.Process, t Times, at ...At) error {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	defer running.Wait()
	defer end()
	running.Go(func() { p.Run(life) })
	failed := make(chan error, len(at))
	servers := make([]*listen.Server, len(at))
	for i, a := range at {
		a.Options.Handler = p
		a.Options.Settings.HeaderBytes += ownHeaderBytes
		a.Options.Settings.HeaderFields += ownHeaderFields
		server := listen.New(a.Options)
		servers[i] = server
		if a.Made != nil {
			a.Made(server)
		}
		go func() { failed <- server.Serve(a.Listener) }()
	}
	select {
	case err := <-failed:
		for _, s := range servers {
			_ = s.Close()
		}
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	announce(life, p, servers, t.Announce)
	last, cancel := context.WithTimeout(life, t.Drain)
	defer cancel()
	var drained sync.WaitGroup
	drained.Go(func() { p.Drain(last) })
	if t.Announce == 0 {
		drained.Wait() // it is asked on meanwhile
	}
	for _, s := range servers {
		drained.Go(func() {
			if err := s.Shutdown(last); err != nil {
				_ = s.Close()
			}
		})
	}
	drained.Wait()
	for range servers {
		<-failed
	}
	return nil
}

// announce has everybody know that the process is about to end, and gives them time to.
func announce(life context.Context, p service.Process, servers []*listen.Server, most time.Duration) {
	if l, ok := p.(service.Leaver); ok {
		l.Leave()
	}
	if most == 0 {
		return
	}
	for _, s := range servers {
		s.Leave()
	}
	select {
	case <-time.After(most):
	case <-life.Done():
	}
}

// What gateways add to a request's head.
const (
	ownHeaderBytes  = 8 << 10
	ownHeaderFields = 32
)

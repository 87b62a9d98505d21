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
	o.Handler = p
	o.Settings.HeaderBytes += ownHeaderBytes
	o.Settings.HeaderFields += ownHeaderFields
	server := listen.New(o)
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	defer running.Wait()
	defer end()
	running.Go(func() { p.Run(life) })
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(life, drain)
	defer cancel()
	p.Drain(last)
	if err := server.Shutdown(last); err != nil {
		_ = server.Close()
	}
	<-failed
	return nil
}

// What gateways add to a request's head.
const (
	ownHeaderBytes  = 8 << 10
	ownHeaderFields = 32
)

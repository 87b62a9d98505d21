package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/gatewright/gatewright/internal/bench/fixture"
	"github.com/gatewright/gatewright/internal/bench/load"
)

// How clients send requests while gateways shut down.
const (
	drainClients = 8
	// One in slowEvery requests takes slowMillis milliseconds, so that some requests are in flight when a gateway stops
	// accepting new requests.
	slowEvery  = 50
	slowMillis = 1500 // ms
	maxMillis  = 20   // ms; each other request takes a random time below it
)

// drain shuts down gateways under load, and adds a row with the number of lost requests. Two gateways run, and three
// during a replacement. If replace is false, the gateways are behind a balancer that forwards connections. They restart
// in turn, each at its own addresses, count times in all. If replace is true, the gateways are behind a reverse proxy,
// and other gateways replace both of them count times. The load continues until clients have sent at least minRequests
// requests. protocol is the HTTP version of the requests, 1 or 2.
func drain(
	ctx context.Context, m *measurement, inst *fixture.Installation, protocol int, replace bool, count, minRequests int,
) (err error) {
	checkCtx, stopChecks := context.WithCancel(ctx)
	defer stopChecks()
	b := newBalancer()
	gateways := make([]*fixture.Gateway, 2)
	defer func() {
		for _, g := range gateways {
			if g != nil {
				err = errors.Join(err, g.Stop())
			}
		}
	}()
	for n := range gateways {
		if gateways[n], err = startReady(ctx, checkCtx, inst, b, nil); err != nil {
			return err
		}
	}
	if err := b.waitReady(ctx, 2); err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	defer func() { _ = listener.Close() }()
	l := drainLoad(&inst.Site, protocol)
	description := "SIGTERMs with restarts, behind a balancer that forwards connections"
	if replace {
		description = fmt.Sprintf("SIGTERMs, two processes replaced %d times, behind a reverse proxy", count)
		count *= 2
		proxy := &http.Server{Handler: b.proxy(inst, protocol), ReadHeaderTimeout: time.Minute}
		go func() { _ = proxy.Serve(listener) }()
		defer func() { _ = proxy.Close() }()
		l.Address, l.Protocol = listener.Addr().String(), 1
		l.Transport = func(int) http.RoundTripper { return &http.Transport{} }
	} else {
		go b.forward(listener)
		l.TLS, l.Transport = inst.TLS(inst.Host), frontTransport(listener, inst, protocol)
	}
	var sent atomic.Int64
	var done atomic.Bool
	l.Continue = func() bool {
		if done.Load() {
			return false
		}
		sent.Add(1)
		return true
	}
	results := make(chan load.Result, 1)
	go func() {
		result, _ := l.Send(ctx) // the load counts failures, so Send returns no error
		results <- result
	}()
	startedAt, before := time.Now(), inst.Ended()
	for n := 0; n < count && err == nil; n++ {
		gateways[n%2], err = replaceGateway(ctx, checkCtx, inst, b, gateways[n%2], replace)
	}
	ended := inst.Ended() - before
	for err == nil && sent.Load() < int64(minRequests) {
		err = fixture.Wait(ctx, checkInterval)
	}
	elapsed := time.Since(startedAt)
	done.Store(true)
	result := <-results
	if err != nil {
		return err
	}
	limit, announced := "0", "15 s, the default"
	if minRequests > 0 {
		limit = fmt.Sprintf("0 of %d", minRequests)
	}
	if inst.Announcement != 0 {
		announced = inst.Announcement.String()
	}
	m.Row(fmt.Sprintf("requests lost over %d %s, by %s, announced for %s", ended, description,
		[]string{"", "HTTP/1.1", "HTTP/2"}[protocol], announced), limit, lost(result, b, elapsed),
		result.Failed == 0 && result.Requests >= max(minRequests, 1) && ended == count)
	return nil
}

// frontTransport returns a function that returns transports for clients. The transports connect to the gateways with
// TLS, through the listener of the balancer.
func frontTransport(listener net.Listener, inst *fixture.Installation, protocol int) func(int) http.RoundTripper {
	return func(int) http.RoundTripper {
		return &http.Transport{
			TLSClientConfig: inst.TLS(inst.Host), ForceAttemptHTTP2: protocol == 2,
			DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, network, listener.Addr().String())
			},
		}
	}
}

// lost returns how many requests were lost, and why.
func lost(result load.Result, b *balancer, elapsed time.Duration) string {
	figure := fmt.Sprintf("%d of %d, within %s", result.Failed, result.Requests, elapsed.Round(time.Second))
	if result.FirstError != nil {
		figure += fmt.Sprintf("; the first error: %v", result.FirstError)
	}
	if failed := b.unreachable(); len(failed) > 0 {
		figure += fmt.Sprintf("; %d connections reached no gateway, the first: %s", len(failed), failed[0])
	}
	return figure
}

// drainLoad returns the requests that clients send while gateways shut down. One in slowEvery of them is slow. A request counts as
// failed if it gets no response, or another response than the upstream's.
func drainLoad(site *fixture.Site, protocol int) load.Load {
	l := site.Load(http.MethodPost, "/wait/"+load.Placeholder, "something")
	l.Address, l.Connections, l.CountFailures, l.Protocol, l.Interval = site.Host, drainClients, true, protocol,
		2*time.Millisecond
	l.Check = func(body []byte) error {
		if string(body) != fixture.SmallBody {
			return fmt.Errorf("the response is not the upstream's: %.300s", body)
		}
		return nil
	}
	var sent atomic.Int64
	l.Change = load.Replace(l.Request, load.Placeholder, func() string {
		wait := rand.IntN(maxMillis) //nolint:gosec // G404: no secret
		if sent.Add(1)%slowEvery == 0 {
			wait = slowMillis
		}
		return fmt.Sprintf("%0*d", len(load.Placeholder), wait)
	})
	return l
}

// startReady starts a gateway and adds it to the balancer. It uses the addresses of the gateway replaced, or free
// addresses if replaced is nil.
func startReady(
	ctx, checkCtx context.Context, inst *fixture.Installation, b *balancer, replaced *fixture.Gateway,
) (*fixture.Gateway, error) {
	var addresses fixture.Addresses
	if replaced != nil {
		addresses = replaced.Addresses
	} else {
		var err error
		if addresses, err = fixture.FreeAddresses(ctx); err != nil {
			return nil, err
		}
	}
	g, err := inst.Start(addresses)
	if err == nil {
		b.add(checkCtx, g)
	}
	return g, err
}

// replaceGateway shuts down a gateway. If replace is true, it starts another gateway first. Otherwise it starts the
// same gateway again afterwards. It returns the gateway that then runs, or nil if none does.
func replaceGateway(
	ctx, checkCtx context.Context, inst *fixture.Installation, b *balancer, g *fixture.Gateway, replace bool,
) (started *fixture.Gateway, err error) {
	if replace {
		if started, err = startReady(ctx, checkCtx, inst, b, nil); err != nil {
			return g, err
		}
		if err := b.waitReady(ctx, 3); err != nil {
			return g, errors.Join(err, started.Stop())
		}
		err = g.Stop()
		b.remove(g)
		return started, err
	}
	if err := g.Stop(); err != nil {
		return nil, err
	}
	b.remove(g)
	if started, err = startReady(ctx, checkCtx, inst, b, g); err != nil {
		return nil, err
	}
	return started, b.waitReady(ctx, 2)
}

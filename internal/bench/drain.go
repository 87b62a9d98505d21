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

	"github.com/gatewright/gatewright/internal/bench/load"
	"github.com/gatewright/gatewright/internal/bench/world"
)

// How clients send requests while gateways shut down.
const (
	clients = 8
	// One in slowEvery requests takes slow milliseconds, so that some are in flight when a gateway stops taking new ones.
	slowEvery = 50
	slow      = 1500 // ms
	quick     = 20   // ms, the bound for all other requests
)

// drain shuts down gateways under load, and adds how many requests were lost. Two gateways run at a time. If replace is false, each
// restarts at its addresses, behind a balancer that forwards connections. If replace is true, another gateway replaces it, behind a
// reverse proxy. The gateways are asked with HTTP/1.1 or HTTP/2, as protocol says.
func drain(ctx context.Context, m *measurement, in *world.Installation, protocol int, replace bool, count, least int) (err error) {
	checking, endChecks := context.WithCancel(ctx)
	defer endChecks()
	b := newBalancer()
	two := make([]*world.Gateway, 2)
	defer func() {
		for _, g := range two {
			if g != nil {
				err = errors.Join(err, g.Stop())
			}
		}
	}()
	for n := range two {
		if two[n], err = started(ctx, checking, in, b, nil); err != nil {
			return err
		}
	}
	if err := b.until(ctx, 2); err != nil {
		return err
	}
	front, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	defer func() { _ = front.Close() }()
	l := requestsWhile(&in.Site, protocol)
	what := "SIGTERMs with restarts, behind what passes connections on"
	if replace {
		what = fmt.Sprintf("SIGTERMs, two processes replaced %d times, behind a reverse proxy", count)
		count *= 2
		proxy := &http.Server{Handler: b.proxy(in, protocol), ReadHeaderTimeout: time.Minute}
		go func() { _ = proxy.Serve(front) }()
		defer func() { _ = proxy.Close() }()
		l.Address, l.Protocol = front.Addr().String(), 1
		l.Transport = func(int) http.RoundTripper { return &http.Transport{} }
	} else {
		go b.pass(front)
		l.TLS = in.TLS(in.Host)
		l.Transport = func(int) http.RoundTripper {
			return &http.Transport{
				TLSClientConfig: in.TLS(in.Host), ForceAttemptHTTP2: protocol == 2,
				DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
					return new(net.Dialer).DialContext(ctx, network, front.Addr().String())
				},
			}
		}
	}
	var sent atomic.Int64
	var done atomic.Bool
	l.More = func() bool {
		if done.Load() {
			return false
		}
		sent.Add(1)
		return true
	}
	results := make(chan load.Result, 1)
	go func() {
		result, _ := l.Send(ctx) // failures are counted
		results <- result
	}()
	began, before := time.Now(), in.Ended()
	for n := 0; n < count && err == nil; n++ {
		two[n%2], err = next(ctx, checking, in, b, two[n%2], replace)
	}
	ended := in.Ended() - before
	for err == nil && sent.Load() < int64(least) {
		err = world.Wait(ctx, checkEvery)
	}
	took := time.Since(began)
	done.Store(true)
	result := <-results
	if err != nil {
		return err
	}
	figure := fmt.Sprintf("%d of %d, within %s", result.Failed, result.Requests, took.Round(time.Second))
	if result.First != nil {
		figure += fmt.Sprintf("; the first by %v", result.First)
	}
	if failed := b.unreachable(); len(failed) > 0 {
		figure += fmt.Sprintf("; %d connections reached no gateway, the first: %s", len(failed), failed[0])
	}
	limit, announced := "0", "15 s, the default"
	if least > 0 {
		limit = fmt.Sprintf("0 of %d", least)
	}
	if in.Announces != 0 {
		announced = in.Announces.String()
	}
	m.Row(fmt.Sprintf("requests lost over %d %s, by %s, announced for %s", ended, what, []string{"", "HTTP/1.1", "HTTP/2"}[protocol], announced), limit, figure,
		result.Failed == 0 && result.Requests >= max(least, 1) && ended == count)
	return nil
}

// requestsWhile returns the requests that clients send while gateways shut down. One in slowEvery of them is slow. A request counts as
// failed if it gets no response, or another response than the upstream's.
func requestsWhile(site *world.Site, protocol int) load.Load {
	l := site.Load(http.MethodPost, "/wait/"+load.Placeholder, "something")
	l.Address, l.Connections, l.CountFailures, l.Protocol, l.Every = site.Host, clients, true, protocol, 2*time.Millisecond
	l.Check = func(body []byte) error {
		if string(body) != world.Answer {
			return fmt.Errorf("the response is not the upstream's: %.300s", body)
		}
		return nil
	}
	var sent atomic.Int64
	l.Change = load.Replace(l.Request, load.Placeholder, func() string {
		wait := rand.IntN(quick) //nolint:gosec // G404: no secret
		if sent.Add(1)%slowEvery == 0 {
			wait = slow
		}
		return fmt.Sprintf("%0*d", len(load.Placeholder), wait)
	})
	return l
}

// started starts a gateway and adds it to the balancer. It uses the addresses of the gateway where, or free ones if where is nil.
func started(ctx, checking context.Context, in *world.Installation, b *balancer, where *world.Gateway) (*world.Gateway, error) {
	var at world.Addresses
	if where != nil {
		at = where.Addresses
	} else {
		var err error
		if at, err = world.FreeAddresses(ctx); err != nil {
			return nil, err
		}
	}
	g, err := in.Start(at)
	if err == nil {
		b.add(checking, g)
	}
	return g, err
}

// next shuts down a gateway. It starts it again afterwards, or replaces it by another one before. It returns the gateway that runs in
// its place, or nil if none does.
func next(ctx, checking context.Context, in *world.Installation, b *balancer, g *world.Gateway, replace bool) (other *world.Gateway, err error) {
	if replace {
		if other, err = started(ctx, checking, in, b, nil); err != nil {
			return g, err
		}
		if err := b.until(ctx, 3); err != nil {
			return g, errors.Join(err, other.Stop())
		}
		err = g.Stop()
		b.remove(g)
		return other, err
	}
	if err := g.Stop(); err != nil {
		return nil, err
	}
	b.remove(g)
	if other, err = started(ctx, checking, in, b, g); err != nil {
		return nil, err
	}
	return other, b.until(ctx, 2)
}

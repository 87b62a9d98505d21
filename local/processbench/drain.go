package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"github.com/gatewright/gatewright/internal/bars"
)

// drains has gateways told to end under load, and counts what is lost: first two of which one ends and starts again at the same
// addresses, behind what passes connections on; then two that are replaced by others, one after the other, behind a
// reverse proxy. Clients or the proxy speak HTTP/1.1 to them, and then HTTP/2. Last some end that announce it as they do by default.
func drains(ctx context.Context, dir string, o options, table *bars.Table) error {
	in, err := newInstallation(ctx, filepath.Join(dir, "drain"), o)
	if err != nil {
		return err
	}
	defer in.stop()
	for _, speaks := range []protocol{http1, http2} {
		if err := in.restarts(ctx, speaks, o.drains, o.requests, table); err != nil {
			return err
		}
		if err := in.replacements(ctx, speaks, o.drains, o.requests, table); err != nil {
			return err
		}
	}
	in.announces = 0
	for _, speaks := range []protocol{http1, http2} {
		if err := in.restarts(ctx, speaks, o.long, 0, table); err != nil {
			return err
		}
	}
	return nil
}

// protocol is what gateways are spoken to by.
type protocol int

const (
	http1 protocol = 1
	http2 protocol = 2
)

func (p protocol) String() string {
	if p == http2 {
		return "HTTP/2"
	}
	return "HTTP/1.1"
}

// speaking speaks a protocol, and fails where an answer comes by another one.
type speaking struct {
	http.RoundTripper
	protocol
}

func (p protocol) by(t *http.Transport) http.RoundTripper {
	t.ForceAttemptHTTP2 = p == http2
	return speaking{t, p}
}

// RoundTrip implements http.RoundTripper.
func (s speaking) RoundTrip(r *http.Request) (*http.Response, error) {
	out, err := s.RoundTripper.RoundTrip(r)
	if err == nil && out.ProtoMajor != int(s.protocol) {
		_ = out.Body.Close()
		return nil, fmt.Errorf("answered by %s, and not by %s", out.Proto, s.protocol)
	}
	return out, err
}

// announced tells for how long gateways announce their end.
func (in *installation) announced() string {
	if in.announces == 0 {
		return "15 s, the default"
	}
	return in.announces.String()
}

// restarts has one of two gateways end and start again where it was, so often. Each client has a connection of its own.
func (in *installation) restarts(ctx context.Context, speaks protocol, ends int, least int64, table *bars.Table) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	defer func() { _ = l.Close() }()
	b := newBalancer()
	go b.pass(l)
	return in.under(ctx, b, drain{
		address: "https://" + in.host, ends: ends, least: least,
		name: fmt.Sprintf("SIGTERMs with restarts, behind what passes connections on, by %s, announced for %s", speaks, in.announced()),
		transport: func() http.RoundTripper {
			return speaks.by(&http.Transport{TLSClientConfig: in.tls(in.host), DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, network, l.Addr().String())
			}})
		},
		step: func(ctx context.Context, two []*running, n int) (err error) {
			two[n%2], err = in.again(ctx, b, two[n%2])
			return err
		},
	}, table)
}

// replacements has both of two gateways replaced, one after the other, so often.
func (in *installation) replacements(ctx context.Context, speaks protocol, ends int, least int64, table *bars.Table) error {
	front, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	b := newBalancer()
	proxy := &http.Server{Handler: b.proxy(in.certificate, in.host, speaks), ReadHeaderTimeout: time.Minute}
	go func() { _ = proxy.Serve(front) }()
	defer func() { _ = proxy.Close() }()
	return in.under(ctx, b, drain{
		address: "http://" + front.Addr().String(), ends: 2 * ends, least: least,
		name:      fmt.Sprintf("SIGTERMs, two processes replaced %d times, behind a reverse proxy by %s, announced for %s", ends, speaks, in.announced()),
		transport: func() http.RoundTripper { return &http.Transport{} },
		step: func(ctx context.Context, two []*running, n int) (err error) {
			two[n%2], err = in.replace(ctx, b, two[n%2])
			return err
		},
	}, table)
}

// drain is what is done with two gateways while clients ask.
type drain struct {
	name, address string
	transport     func() http.RoundTripper // of a client
	step          func(ctx context.Context, two []*running, n int) error
	ends          int   // steps, each of which ends a gateway
	least         int64 // requests
}

// under starts two gateways behind a balancer, has clients ask while something is done with them, and adds what was lost.
func (in *installation) under(ctx context.Context, b *balancer, d drain, table *bars.Table) error {
	checking, endChecks := context.WithCancel(ctx)
	defer endChecks()
	two := make([]*running, 2)
	for n := range two {
		at, err := some(ctx)
		if err != nil {
			return err
		}
		if two[n], err = in.start(at); err != nil {
			return err
		}
		b.add(checking, two[n])
	}
	if err := b.until(ctx, 2); err != nil {
		return err
	}
	clients, endClients := context.WithCancel(ctx)
	var asking sync.WaitGroup
	var l askers
	asking.Go(func() { l.run(clients, d.address, in.key, d.transport) })
	began, before := time.Now(), in.ended
	var err error
	for n := 0; n < d.ends && err == nil; n++ {
		err = d.step(ctx, two, n)
	}
	ended := in.ended - before
	for err == nil && ctx.Err() == nil && l.asked.Load() < d.least {
		time.Sleep(checkEvery)
	}
	took := time.Since(began)
	endClients()
	asking.Wait()
	for _, p := range two {
		if p != nil {
			err = errors.Join(err, in.end(p))
		}
	}
	if err != nil {
		return err
	}
	figure := fmt.Sprintf("%d of %d, within %s", l.lost.Load(), l.asked.Load(), took.Round(time.Second))
	if l.first != nil {
		figure += fmt.Sprintf("; the first by %v", l.first)
	}
	if len(b.failed) > 0 {
		figure += fmt.Sprintf("; %d connections were sent where nobody listens, the first: %s", len(b.failed), b.failed[0])
	}
	bar := "0"
	if d.least > 0 {
		bar = fmt.Sprintf("0 of %d", d.least)
	}
	table.Add(fmt.Sprintf("requests lost over %d %s", ended, d.name), bar, figure, l.lost.Load() == 0 && l.asked.Load() >= max(d.least, 1) && ended == d.ends)
	return nil
}

// end ends a gateway, and counts that it has.
func (in *installation) end(p *running) error {
	err := p.stop()
	if err == nil {
		in.ended++
	}
	return err
}

// again has a gateway end, and starts it anew where it was.
func (in *installation) again(ctx context.Context, b *balancer, p *running) (*running, error) {
	if err := in.end(p); err != nil {
		return nil, err
	}
	b.remove(p)
	next, err := in.start(addresses{p.secure, p.plain, p.admin})
	if err != nil {
		return nil, err
	}
	b.add(ctx, next)
	return next, b.until(ctx, 2)
}

// replace starts another gateway, and has one end when the balancer knows the other.
func (in *installation) replace(ctx context.Context, b *balancer, p *running) (*running, error) {
	at, err := some(ctx)
	if err != nil {
		return nil, err
	}
	next, err := in.start(at)
	if err != nil {
		return nil, err
	}
	b.add(ctx, next)
	if err := b.until(ctx, 3); err != nil {
		return nil, err
	}
	err = in.end(p)
	b.remove(p)
	return next, err
}

// until waits until so many gateways are ready.
func (b *balancer) until(ctx context.Context, n int) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for b.serving() < n {
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %d gateways: %w", n, ctx.Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
	return nil
}

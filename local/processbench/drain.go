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

// leastRequests is how many have to be asked at least.
const leastRequests = 10_000

// drains has gateways told to end under load, and counts what is lost: first two of which one ends and starts again at the same
// addresses, behind what passes connections on; then two that are replaced by others, one after the other, behind a
// reverse proxy.
func drains(ctx context.Context, dir string, o options, table *bars.Table) error {
	in, err := newInstallation(ctx, filepath.Join(dir, "drain"), o)
	if err != nil {
		return err
	}
	defer in.stop()
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	defer func() { _ = l.Close() }()
	b := newBalancer()
	go b.pass(l)
	passed := func() *http.Transport {
		return &http.Transport{TLSClientConfig: in.tls(in.host), DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, l.Addr().String())
		}}
	}
	err = in.under(ctx, b, "https://"+in.host, passed, fmt.Sprintf("requests lost over %d SIGTERMs with restarts, behind what passes connections on", o.drains), table, func(ctx context.Context, two []*running) error {
		for n := range o.drains {
			if two[n%2], err = in.again(ctx, b, two[n%2]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}

	b = newBalancer()
	front, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	proxy := &http.Server{Handler: b.proxy(in.certificate, in.host), ReadHeaderTimeout: time.Minute}
	go func() { _ = proxy.Serve(front) }()
	defer func() { _ = proxy.Close() }()
	direct := func() *http.Transport { return &http.Transport{} }
	return in.under(ctx, b, "http://"+front.Addr().String(), direct, fmt.Sprintf("requests lost over %d rolling replacements of two processes, behind a reverse proxy", o.drains), table, func(ctx context.Context, two []*running) error {
		for range o.drains {
			for n := range two {
				if two[n], err = in.replace(ctx, b, two[n]); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// under starts two gateways behind a balancer, has clients ask while something is done with them, and adds what was lost.
func (in *installation) under(ctx context.Context, b *balancer, address string, transport func() *http.Transport, name string, table *bars.Table,
	done func(ctx context.Context, two []*running) error,
) error {
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
	asking.Go(func() { l.run(clients, address, in.key, transport) })
	began := time.Now()
	err := done(ctx, two)
	for err == nil && ctx.Err() == nil && l.asked.Load() < leastRequests {
		time.Sleep(checkEvery)
	}
	took := time.Since(began)
	endClients()
	asking.Wait()
	for _, p := range two {
		if p != nil {
			err = errors.Join(err, p.stop())
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
	table.Add(name, fmt.Sprintf("0 of %d", leastRequests), figure, l.lost.Load() == 0 && l.asked.Load() >= leastRequests)
	return nil
}

// again has a gateway end, and starts it anew where it was.
func (in *installation) again(ctx context.Context, b *balancer, p *running) (*running, error) {
	if err := p.stop(); err != nil {
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
	err = p.stop()
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

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/gatewright/gatewright/internal/bench/world"
	"github.com/gatewright/gatewright/internal/connectproxy"
)

const (
	// checkEvery is the interval at which the balancer checks each gateway. The documentation asks for at least three checks while a
	// gateway announces its end.
	checkEvery = 250 * time.Millisecond
	// checkTimeout is how long a gateway may take to answer a check. It is long, because a busy machine must not look like a gateway
	// that shuts down.
	checkTimeout = 2 * time.Second
	// proxyConnections is the number of HTTP/2 connections from the proxy to each gateway.
	proxyConnections = 4
)

// balancer sends clients to the ready gateways in turn. It does not retry, and it does not hide failures.
type balancer struct {
	client *http.Client

	mu     sync.Mutex
	all    []*backend
	turn   int
	failed []string // errors of connections that reached no gateway
}

// backend is a gateway of a balancer. The balancer's mu guards its fields.
type backend struct {
	*world.Gateway
	ready, removed bool
}

func newBalancer() *balancer {
	return &balancer{client: &http.Client{Timeout: checkTimeout, Transport: &http.Transport{DisableKeepAlives: true}}}
}

// add adds a gateway, and checks it until it is removed or ctx ends.
func (b *balancer) add(ctx context.Context, g *world.Gateway) {
	one := &backend{Gateway: g}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all = append(b.all, one)
	go func() {
		for ctx.Err() == nil {
			ready := b.ready(ctx, g.Admin)
			b.mu.Lock()
			one.ready = ready
			removed := one.removed
			b.mu.Unlock()
			if removed || world.Wait(ctx, checkEvery) != nil {
				return
			}
		}
	}()
}

// remove removes a gateway.
func (b *balancer) remove(g *world.Gateway) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all = slices.DeleteFunc(b.all, func(one *backend) bool {
		one.removed = one.removed || one.Gateway == g
		return one.removed
	})
}

func (b *balancer) ready(ctx context.Context, admin string) bool {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+admin+"/readyz", nil)
	if err != nil {
		return false
	}
	out, err := b.client.Do(r)
	if err != nil {
		return false
	}
	_ = out.Body.Close()
	return out.StatusCode == http.StatusOK
}

// until waits until n gateways are ready.
func (b *balancer) until(ctx context.Context, n int) error {
	return world.Until(ctx, "gateways that are ready", func() (bool, error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		ready := 0
		for _, one := range b.all {
			if one.ready {
				ready++
			}
		}
		return ready >= n, nil
	})
}

// next returns the address of the gateway for the next client, or "" if no gateway is ready.
func (b *balancer) next() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.turn++
	for n := range b.all {
		if one := b.all[(b.turn+n)%len(b.all)]; one.ready {
			return one.Secure
		}
	}
	return ""
}

// unreachable returns the errors of connections that reached no gateway.
func (b *balancer) unreachable() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.failed)
}

// pass accepts connections and forwards each to a gateway, without ending TLS.
func (b *balancer) pass(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer func() { _ = c.Close() }()
			to, err := net.Dial("tcp", b.next()) //nolint:noctx // to this machine
			if err != nil {
				b.mu.Lock()
				defer b.mu.Unlock()
				b.failed = append(b.failed, err.Error())
				return // the client's request fails
			}
			defer func() { _ = to.Close() }()
			connectproxy.Splice(c, c, to)
		}()
	}
}

// proxy returns a reverse proxy that sends each request to the next gateway, over keep-alive connections.
func (b *balancer) proxy(in *world.Installation, protocol int) http.Handler {
	all := make(anyOf, 1)
	if protocol == 2 {
		all = make(anyOf, proxyConnections)
	}
	for n := range all {
		all[n] = &http.Transport{
			MaxIdleConnsPerHost: 256, DisableCompression: true, TLSClientConfig: in.TLS(in.Host), IdleConnTimeout: time.Minute, ForceAttemptHTTP2: protocol == 2,
		}
	}
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "https", Host: b.next()})
			r.Out.Host = in.Host
		},
		ModifyResponse: func(r *http.Response) error {
			if r.ProtoMajor != protocol {
				return fmt.Errorf("the gateway answered with %s instead of HTTP/%d", r.Proto, protocol)
			}
			return nil
		},
		Transport: all,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, "the proxy: "+err.Error(), http.StatusBadGateway)
		},
	}
}

// anyOf sends each request through a random one of its transports.
type anyOf []http.RoundTripper

// RoundTrip implements http.RoundTripper.
func (t anyOf) RoundTrip(r *http.Request) (*http.Response, error) {
	return t[rand.IntN(len(t))].RoundTrip(r) //nolint:gosec // G404: no secret
}

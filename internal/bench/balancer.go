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

	"github.com/gatewright/gatewright/internal/bench/fixture"
	"github.com/gatewright/gatewright/internal/connectproxy"
)

const (
	// checkInterval is the interval at which the balancer checks each gateway. The documentation requires at least three checks while a
	// gateway announces that it is about to shut down.
	checkInterval = 250 * time.Millisecond
	// checkTimeout is how long a gateway can take to respond to a check. It is long, so that a gateway on a busy
	// machine does not count as shutting down.
	checkTimeout = 2 * time.Second
	// proxyConnections is the number of HTTP/2 connections from the proxy to each gateway.
	proxyConnections = 4
)

// balancer distributes clients over the ready gateways in turn. It does not retry, and it does not hide failures.
type balancer struct {
	client *http.Client

	mu        sync.Mutex
	backends  []*backend
	nextIndex int
	failed    []string // errors of connections that reached no gateway
}

// backend is a gateway of a balancer. The balancer's mu guards its fields.
type backend struct {
	*fixture.Gateway
	ready, removed bool
}

func newBalancer() *balancer {
	return &balancer{client: &http.Client{Timeout: checkTimeout, Transport: &http.Transport{DisableKeepAlives: true}}}
}

// add adds a gateway, and checks it until it is removed or ctx ends.
func (b *balancer) add(ctx context.Context, g *fixture.Gateway) {
	added := &backend{Gateway: g}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.backends = append(b.backends, added)
	go func() {
		for ctx.Err() == nil {
			ready := b.ready(ctx, g.Admin)
			b.mu.Lock()
			added.ready = ready
			removed := added.removed
			b.mu.Unlock()
			if removed || fixture.Wait(ctx, checkInterval) != nil {
				return
			}
		}
	}()
}

// remove removes a gateway.
func (b *balancer) remove(g *fixture.Gateway) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.backends = slices.DeleteFunc(b.backends, func(candidate *backend) bool {
		candidate.removed = candidate.removed || candidate.Gateway == g
		return candidate.removed
	})
}

// ready reports whether a gateway is ready. admin is the gateway's address for operators.
func (b *balancer) ready(ctx context.Context, admin string) bool {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+admin+"/readyz", nil)
	if err != nil {
		return false
	}
	resp, err := b.client.Do(r)
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// waitReady waits until n gateways are ready.
func (b *balancer) waitReady(ctx context.Context, n int) error {
	return fixture.Until(ctx, "gateways that are ready", func() (bool, error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		ready := 0
		for _, candidate := range b.backends {
			if candidate.ready {
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
	b.nextIndex++
	for n := range b.backends {
		if candidate := b.backends[(b.nextIndex+n)%len(b.backends)]; candidate.ready {
			return candidate.Secure
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

// forward accepts connections and forwards each to a gateway, without terminating TLS.
func (b *balancer) forward(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer func() { _ = c.Close() }()
			upstream, err := net.Dial("tcp", b.next()) //nolint:noctx // the address is on this machine
			if err != nil {
				b.mu.Lock()
				defer b.mu.Unlock()
				b.failed = append(b.failed, err.Error())
				return // the client's request fails
			}
			defer func() { _ = upstream.Close() }()
			connectproxy.Splice(c, c, upstream)
		}()
	}
}

// proxy returns a reverse proxy that sends each request to the next gateway, over keep-alive connections. protocol is
// the HTTP version of these connections, 1 or 2.
func (b *balancer) proxy(inst *fixture.Installation, protocol int) http.Handler {
	transports := make(randomTransport, 1)
	if protocol == 2 {
		transports = make(randomTransport, proxyConnections)
	}
	for n := range transports {
		transports[n] = &http.Transport{
			MaxIdleConnsPerHost: 256, DisableCompression: true, TLSClientConfig: inst.TLS(inst.Host),
			IdleConnTimeout: time.Minute, ForceAttemptHTTP2: protocol == 2,
		}
	}
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "https", Host: b.next()})
			r.Out.Host = inst.Host
		},
		ModifyResponse: func(r *http.Response) error {
			if r.ProtoMajor != protocol {
				return fmt.Errorf("the gateway responded with %s, want HTTP/%d", r.Proto, protocol)
			}
			return nil
		},
		Transport: transports,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, "the proxy: "+err.Error(), http.StatusBadGateway)
		},
	}
}

// randomTransport sends each request through one of its transports, chosen at random.
type randomTransport []http.RoundTripper

// RoundTrip implements http.RoundTripper.
func (t randomTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	return t[rand.IntN(len(t))].RoundTrip(r) //nolint:gosec // G404: no secret
}

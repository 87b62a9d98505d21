package main

import (
	"context"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"time"
)

// checkEvery is how often a balancer asks each gateway whether it is ready. Three times within the announcement, as the handbook
// wants it.
const checkEvery = 250 * time.Millisecond

// checkTimeout is how long a gateway may take to say that it is ready: a machine that does other things is no gateway that ends.
const checkTimeout = 2 * time.Second

// balancer sends clients to gateways that are ready, in turn. It repeats nothing, and hides no failure.
type balancer struct {
	client *http.Client
	turns  atomic.Uint64

	mu     sync.Mutex
	all    []*backend
	failed []string // why connections were sent nowhere
}

type backend struct {
	*running
	ready, removed bool // guarded by the balancer's mu
}

func newBalancer() *balancer {
	return &balancer{client: &http.Client{Timeout: checkTimeout, Transport: &http.Transport{DisableKeepAlives: true}}}
}

// add has a gateway looked at until it is removed, or ctx ends.
func (b *balancer) add(ctx context.Context, p *running) {
	one := &backend{running: p}
	b.mu.Lock()
	b.all = append(b.all, one)
	b.mu.Unlock()
	go b.check(ctx, one)
}

// remove forgets a gateway.
func (b *balancer) remove(p *running) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for n, one := range b.all {
		if one.running == p {
			one.removed = true
			b.all = append(b.all[:n:n], b.all[n+1:]...)
			return
		}
	}
}

// check asks a gateway again and again.
func (b *balancer) check(ctx context.Context, one *backend) {
	for ctx.Err() == nil {
		ready := b.ready(ctx, one.admin)
		b.mu.Lock()
		one.ready = ready
		removed := one.removed
		b.mu.Unlock()
		if removed {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(checkEvery):
		}
	}
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

// serving is how many gateways are ready, as far as the balancer knows.
func (b *balancer) serving() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, one := range b.all {
		if one.ready {
			n++
		}
	}
	return n
}

// next is where the next client goes, "" for nowhere.
func (b *balancer) next() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	turn := int(b.turns.Add(1)) //nolint:gosec // G115: it is only counted up
	for n := range b.all {
		if one := b.all[(turn+n)%len(b.all)]; one.ready {
			return one.secure
		}
	}
	return ""
}

// pass sends connections on as they come, TLS and all.
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
				return // the client will tell
			}
			defer func() { _ = to.Close() }()
			splice(c, c, to)
		}()
	}
}

// proxyConnections is how many connections by HTTP/2 a proxy has to each gateway.
const proxyConnections = 4

// proxy sends requests on, each to the gateway whose turn it is, on connections that are kept.
func (b *balancer) proxy(c certificate, host string, speaks protocol) http.Handler {
	all := make(anyOf, 1)
	if speaks == http2 {
		all = make(anyOf, proxyConnections)
	}
	for n := range all {
		all[n] = speaks.by(&http.Transport{MaxIdleConnsPerHost: 256, DisableCompression: true, TLSClientConfig: c.tls(host), IdleConnTimeout: time.Minute})
	}
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "https", Host: b.next()})
			r.Out.Host = host
		},
		Transport: all,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, "the proxy: "+err.Error(), http.StatusBadGateway)
		},
	}
}

// anyOf sends each request by one of them, at random.
type anyOf []http.RoundTripper

// RoundTrip implements http.RoundTripper.
func (t anyOf) RoundTrip(r *http.Request) (*http.Response, error) {
	return t[rand.IntN(len(t))].RoundTrip(r) //nolint:gosec // no secret
}

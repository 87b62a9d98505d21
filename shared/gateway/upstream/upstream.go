// Package upstream sends requests to the servers behind the gateway and streams
// their responses. It dials only addresses that the installation allows, and turns
// failures into the status and text of a problem.
//
// It knows no routes: package handler decides where a request goes. Everything
// sits behind http.RoundTripper, so the way a round trip is done can change
// without its users (design, section 7).
//
// Read this file, then direct.go and pool.go (the short way for requests without
// a body), guard.go (which addresses), header.go (which fields pass) and
// failure.go (which status a failure is).
package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"syscall"
	"time"
)

// Options are what a Client takes from its installation. The zero value has the
// defaults that are given with each field.
type Options struct {
	Guard Guard
	// Resolver looks names up, nil for the system's.
	Resolver *net.Resolver
	// TLS is for roots of one's own; nil trusts the system's.
	TLS *tls.Config
	// DialTimeout bounds look-up and connection, 10 s.
	DialTimeout time.Duration
	// TLSTimeout bounds the TLS handshake, 10 s.
	TLSTimeout time.Duration
	// ResponseTimeout bounds the time from the end of the request to the
	// beginning of the response, 60 s. A response may then last as long as it
	// wants to: streams do.
	ResponseTimeout time.Duration
	// MaxHeaderBytes bounds a response's header, 256 KiB.
	MaxHeaderBytes int64
	// MaxIdlePerHost is how many idle connections to one host are kept, 256.
	MaxIdlePerHost int
}

// idleTimeout closes connections that nobody needed. Servers commonly close
// theirs after 60 s or more: being earlier spares retries.
const idleTimeout = 55 * time.Second

// maxRedirects is how many redirects Follow goes after.
const maxRedirects = 10

// Client sends requests to upstreams. It is safe for concurrent use.
type Client struct {
	direct    direct
	transport *http.Transport
	follow    *http.Client
	http1     http1Hosts
}

// maxHTTP1Hosts bounds what upstreams can make a gateway remember by redirects.
const maxHTTP1Hosts = 4096

// http1Hosts are the hosts with TLS that chose HTTP/1.
type http1Hosts struct {
	mu    sync.RWMutex
	known map[string]bool
}

func (h *http1Hosts) has(host string) bool {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.known[host]
}

func (h *http1Hosts) set(host string, chose bool) {
	if h.has(host) == chose {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.known == nil || len(h.known) >= maxHTTP1Hosts {
		h.known = map[string]bool{}
	}
	h.known[host] = chose
}

var _ http.RoundTripper = (*Client)(nil)

// New makes a Client.
func New(o Options) *Client {
	def := func(d *time.Duration, value time.Duration) {
		if *d == 0 {
			*d = value
		}
	}
	def(&o.DialTimeout, 10*time.Second)
	def(&o.TLSTimeout, 10*time.Second)
	def(&o.ResponseTimeout, time.Minute)
	if o.MaxHeaderBytes == 0 {
		o.MaxHeaderBytes = 256 << 10
	}
	if o.MaxIdlePerHost == 0 {
		o.MaxIdlePerHost = 256
	}
	dialer := &net.Dialer{
		Timeout:  o.DialTimeout,
		Resolver: o.Resolver,
		ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
			to, err := netip.ParseAddrPort(address)
			if err != nil {
				return fmt.Errorf("%w: it can't be read", errAddressRefused)
			}
			return o.Guard.Check(to)
		},
	}
	c := &Client{
		transport: &http.Transport{
			// Proxy stays nil: an HTTP_PROXY of the process must not see projects'
			// traffic, and would be dialled in place of the guarded address.
			DialContext:            dialer.DialContext,
			TLSClientConfig:        o.TLS,
			TLSHandshakeTimeout:    o.TLSTimeout,
			ResponseHeaderTimeout:  o.ResponseTimeout,
			ExpectContinueTimeout:  time.Second,
			MaxResponseHeaderBytes: o.MaxHeaderBytes,
			MaxIdleConnsPerHost:    o.MaxIdlePerHost,
			IdleConnTimeout:        idleTimeout,
			ForceAttemptHTTP2:      true,
			// Bodies pass as they are: what was compressed stays so.
			DisableCompression: true,
			HTTP2:              &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 10 * time.Second},
		},
		direct: direct{maxHeaderBytes: o.MaxHeaderBytes, timeout: o.ResponseTimeout},
	}
	c.direct.pool = pool{dial: dialer.DialContext, tls: onlyHTTP1(o.TLS), tlsTime: o.TLSTimeout, perHost: o.MaxIdlePerHost}
	c.follow = &http.Client{Transport: c, CheckRedirect: mayFollow}
	return c
}

// onlyHTTP1 is a configuration that negotiates nothing else.
func onlyHTTP1(config *tls.Config) *tls.Config {
	if config == nil {
		config = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	config = config.Clone()
	config.NextProtos = []string{"http/1.1"}
	return config
}

// Send sends one request and answers its response, redirects included. It calls
// onInformational, if that is not nil, for each 1xx response but 100 before it returns.
func (c *Client) Send(r *http.Request, onInformational func(status int, header http.Header)) (*http.Response, error) {
	if c.isDirect(r) {
		response, err := c.direct.send(r, onInformational)
		if _, unsent := errors.AsType[*handshakeError](err); !unsent {
			return response, err
		}
		// It may speak something else by now: it is asked again.
		c.http1.set(r.URL.Host, false)
	}
	if onInformational != nil {
		e := informational{handle: onInformational}
		defer e.stop()
		r = e.watch(r)
	}
	response, err := c.transport.RoundTrip(r)
	if err == nil && r.URL.Scheme == "https" && response.ProtoMajor == 1 {
		c.http1.set(r.URL.Host, true)
	}
	return response, err
}

// isDirect reports whether a request goes the short way. Which protocol a TLS
// server speaks is seen on the first request to it.
func (c *Client) isDirect(r *http.Request) bool {
	if !c.direct.supports(r) {
		return false
	}
	if r.URL.Scheme == "https" {
		return c.http1.has(r.URL.Host)
	}
	return r.URL.Scheme == "http"
}

// RoundTrip is Send without word of 1xx responses.
func (c *Client) RoundTrip(r *http.Request) (*http.Response, error) { return c.Send(r, nil) }

// Follow sends a request and follows redirects as far as that is safe: at most
// ten, never from https to http, never with a body that can't be sent again.
// Where it stops, the redirect itself is the response. Credentials go to the
// first host and its subdomains only (net/http).
func (c *Client) Follow(r *http.Request) (*http.Response, error) {
	response, err := c.follow.Do(r) //nolint:gosec // the guard decides where it may go, at the dial
	if err != nil {
		// The wrapper's text holds the address with its query, which may hold
		// secrets.
		if wrapped, ok := errors.AsType[*url.Error](err); ok {
			err = wrapped.Err
		}
		return nil, err
	}
	return response, nil
}

func mayFollow(next *http.Request, via []*http.Request) error {
	if len(via) >= maxRedirects {
		return errRedirects
	}
	if next.URL.Scheme != "https" && via[len(via)-1].URL.Scheme == "https" {
		return http.ErrUseLastResponse
	}
	return nil
}

// Close closes idle connections.
func (c *Client) Close() {
	c.transport.CloseIdleConnections()
	c.direct.pool.close()
}

// Package upstream sends requests to the servers behind the gateway and streams
// their responses. It dials only addresses that the installation allows, and turns
// failures into the status and text of a problem.
//
// It knows no routes: package handler decides where a request goes. Everything
// sits behind http.RoundTripper, so the way a round trip is done can change
// without its users (design, section 7).
//
// With Options.Standard every request goes the long way. It is for incidents in which direct.go has a fault.
//
// Read this file, then direct.go, pool.go, patience.go and silence.go (the short way for
// requests without a body), transports.go and wait.go (the long way), service.go (the way to
// what is behind tunnels), guard.go (which
// addresses), header.go (which fields pass), redirect.go (which of them pass on)
// and failure.go (which status a failure is).
package upstream

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gatewright/gatewright/shared/socket"
	"github.com/gatewright/gatewright/shared/tunnel"
)

// Options are what a Client takes from its installation. The zero value has the
// defaults that are given with each field.
type Options struct {
	Guard Guard
	// Services carries requests to services behind tunnels, nil where there are none.
	Services Services
	// Standard sends every request through http.Transport, and none through direct.go. It is for
	// incidents in which direct.go has a fault.
	Standard bool
	// Resolver looks names up, nil for the system's.
	Resolver *net.Resolver
	// TLS is for roots of one's own; nil trusts the system's.
	TLS *tls.Config
	// DialTimeout bounds look-up and connection, 10 s.
	DialTimeout time.Duration
	// TLSTimeout bounds the TLS handshake, 10 s.
	TLSTimeout time.Duration
	// ResponseTimeout bounds the time from the end of the request to the
	// beginning of the response, 60 s, unless Account.Waiting says otherwise. A
	// response may then last as long as it wants to: streams do. No less is the time
	// in which an upstream has to take some more of a request's body.
	ResponseTimeout time.Duration
	// MaxHeaderBytes bounds a response's header, 256 KiB.
	MaxHeaderBytes int64
	// MaxIdlePerHost is how many idle connections of one account to one host are
	// kept, 256.
	MaxIdlePerHost int
	// MaxIdle is how many idle connections are kept in all, once on each of the
	// two ways: 4,096, or a quarter of the files that the process may open.
	MaxIdle int
}

// idleTimeout closes connections that nobody needed. Servers commonly close
// theirs after 60 s or more: being earlier spares retries.
const idleTimeout = 55 * time.Second

// Client sends requests to upstreams, each on behalf of an Account. It is safe
// for concurrent use.
type Client struct {
	direct     direct
	transports transports
	standard   bool // Options.Standard
	services   Services
	http1      http1Hosts
	wait       time.Duration // until a response begins
}

// Account sends the requests of one account: over connections that no other
// account's requests are sent on. It is safe for concurrent use.
type Account struct {
	client *Client
	way    way
	wait   time.Duration
	caller tunnel.Caller // who services are asked by
}

// way is what connections have in common that one request may be sent on and another
// may not: whose they are, and as whom they were opened.
type way struct {
	account string
	// shown is the fingerprint of the client certificate, "" for none. Certificates of
	// one fingerprint have one key.
	shown       string
	certificate *tls.Certificate
}

// key tells ways apart.
func (w way) key() wayKey { return wayKey{w.account, w.shown} }

type wayKey struct{ account, shown string }

// configured is a configuration with the way's certificate. It is shown to a server
// that asks for any: which CAs a server names in its request many have wrong.
func (w way) configured(config *tls.Config) *tls.Config {
	config = config.Clone()
	if w.certificate != nil {
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return w.certificate, nil }
	}
	return config
}

// Account returns the way of an account's requests, which may be made anew for
// each of them: connections belong to the id.
func (c *Client) Account(id string) *Account {
	return &Account{client: c, way: way{account: id}, wait: c.wait}
}

// Showing returns the way of those of the account's requests that show a client
// certificate, over connections of their own. Its Leaf has to be set.
func (a *Account) Showing(c *tls.Certificate) *Account {
	sum := sha256.Sum256(c.Leaf.Raw)
	out := *a
	out.way = way{account: a.way.account, shown: string(sum[:]), certificate: c}
	return &out
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

var _ http.RoundTripper = (*Account)(nil)

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
		ControlContext: func(ctx context.Context, _, address string, _ syscall.RawConn) error {
			to, err := netip.ParseAddrPort(address)
			if err != nil {
				return fmt.Errorf("%w: it can't be read", errAddressRefused)
			}
			return o.Guard.Check(ctx, to)
		},
	}
	if o.MaxIdle == 0 {
		o.MaxIdle = maxIdle()
	}
	c := &Client{
		transports: transports{dial: dialer.DialContext, options: o},
		direct:     direct{maxHeaderBytes: o.MaxHeaderBytes},
		standard:   o.Standard,
		services:   o.Services,
		wait:       o.ResponseTimeout,
	}
	c.direct.pool = pool{dial: dialer.DialContext, tls: onlyHTTP1(o.TLS), tlsTime: o.TLSTimeout, perHost: o.MaxIdlePerHost, most: o.MaxIdle}
	return c
}

// maxIdle leaves most of the files that the process may open for what is in use.
func maxIdle() int {
	return int(min(4096, socket.Descriptors()/4)) //nolint:gosec // it is small
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
// onInformational, if that is not nil, for each 1xx response but 100 before it
// returns. A response of status 101 answers a request that asked for the same
// protocol; its body is an io.ReadWriteCloser. A request for a service behind a tunnel, by an address
// of tunnel.Scheme, is on behalf of Calling's caller.
func (a *Account) Send(r *http.Request, onInformational func(status int, header http.Header)) (*http.Response, error) {
	c := a.client
	if r.URL.Scheme == tunnel.Scheme {
		return a.serve(r, onInformational)
	}
	if c.isDirect(r) {
		response, err := c.direct.send(a.way, a.wait, r, onInformational)
		if _, unsent := errors.AsType[*handshakeError](err); !unsent {
			return response, err
		}
		// It may speak something else by now: it is asked again.
		c.http1.set(r.URL.Host, false)
	}
	var t tap
	e := informational{handle: onInformational, tap: &t}
	defer e.stop()
	w := wait{limit: a.wait, sending: max(a.wait, c.wait)}
	response, err := c.transports.of(a.way).RoundTrip(w.watch(t.watch(e.watch(r))))
	t.final(response)
	if w.stop() {
		if err == nil {
			_ = response.Body.Close()
		}
		return nil, errLate
	}
	if err != nil {
		return nil, err
	}
	if r.URL.Scheme == "https" && response.ProtoMajor == 1 {
		c.http1.set(r.URL.Host, true)
	}
	return checked(response, r)
}

// checked is the response to r, or an error in place of one that is none.
func checked(response *http.Response, r *http.Request) (_ *http.Response, err error) {
	switch {
	case !validStatus(response.StatusCode):
		err = errStatus
	case response.StatusCode == http.StatusSwitchingProtocols && !answersUpgrade(response, r):
		err = errSwitched
	case !validLength(response.Header["Content-Length"]):
		err = errLength
	default:
		tunnel.Unread(response)
		return response, nil
	}
	_ = response.Body.Close()
	return nil, err
}

// validLength reports whether a Content-Length is at most one number (RFC 9110, section 8.6).
// net/http takes any of HTTP/2, where frames say what belongs to an answer. In HTTP/1, by which
// it goes on, two of them are two answers to whoever goes by the other one.
func validLength(values []string) bool {
	if len(values) == 0 {
		return true
	}
	_, err := strconv.ParseUint(values[0], 10, 63)
	return len(values) == 1 && err == nil
}

// answersUpgrade reports whether a switch is the one that a request asked for.
func answersUpgrade(response *http.Response, r *http.Request) bool {
	asked := r.Header.Get("Upgrade")
	_, isOpen := response.Body.(io.ReadWriteCloser)
	return isOpen && asked != "" && strings.EqualFold(response.Header.Get("Upgrade"), asked)
}

// isDirect reports whether a request goes the short way. Which protocol a TLS
// server speaks is seen on the first request to it.
func (c *Client) isDirect(r *http.Request) bool {
	if c.standard || !c.direct.supports(r) {
		return false
	}
	if r.URL.Scheme == "https" {
		return c.http1.has(r.URL.Host)
	}
	return r.URL.Scheme == "http"
}

// RoundTrip is Send without word of 1xx responses.
func (a *Account) RoundTrip(r *http.Request) (*http.Response, error) { return a.Send(r, nil) }

// Close closes idle connections.
func (c *Client) Close() {
	c.transports.close()
	c.direct.pool.close()
}

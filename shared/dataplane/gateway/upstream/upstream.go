// Package upstream sends requests to the servers behind the gateway and streams their responses. It dials
// only addresses that the installation allows, and converts errors to the status and text of a problem.
//
// Package handler has the routes' handlers, which choose the address of a request. An Account is an
// http.RoundTripper, so the implementation of a round trip can change without its callers (design, section 7).
//
// A request to a server takes one of two paths. The direct path (direct.go) is for most requests
// without a body over HTTP/1.1. All other requests use http.Transport. With Options.Standard,
// every request uses http.Transport: operators can set this if direct.go has a defect.
//
// Read this file first, then direct.go, pool.go, contextwatch.go and idlecheck.go (the direct path), transports.go
// and wait.go (the path through http.Transport), service.go (services behind tunnels), guard.go (allowed
// addresses), header.go (forwarded fields), redirect.go (redirects) and failure.go (the status of a failure).
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

	"github.com/gatewright/gatewright/shared/base/socket"
	"github.com/gatewright/gatewright/shared/format/tunnel"
)

// Options are the settings of a Client. The zero value uses the default that each field documents.
type Options struct {
	Guard Guard
	// Services sends requests to services behind tunnels, nil if the installation has none.
	Services Services
	// Standard sends every request with http.Transport. Operators can set it if direct.go has a defect.
	Standard bool
	// Resolver resolves host names, nil for the system's resolver.
	Resolver *net.Resolver
	// TLS configures other trusted roots; nil trusts the system's.
	TLS *tls.Config
	// DialTimeout limits DNS lookup and connecting, default 10 s.
	DialTimeout time.Duration
	// TLSTimeout limits the TLS handshake, default 10 s.
	TLSTimeout time.Duration
	// ResponseTimeout limits the time from the end of the request to the beginning of the response, default
	// 60 s, unless Account.WithTimeout sets another limit. The duration of the response after its beginning
	// is not limited. An upstream has at least this time to accept each further part of a request's body.
	ResponseTimeout time.Duration
	// MaxHeaderBytes limits the size of a response's header, default 256 KiB.
	MaxHeaderBytes int64
	// MaxIdlePerHost is the maximum number of idle connections to one host with the same account and client certificate
	// (or none), separately for each of the two paths. The default is 256.
	MaxIdlePerHost int
	// MaxIdle is the maximum number of idle connections, separately for each of the two paths. The path through
	// http.Transport can exceed it until it opens another connection. The default is 4,096, or a quarter of the
	// process's limit of open files if that is less.
	MaxIdle int
}

// idleTimeout is the time after which an unused connection is not used again. It is closed then, or at
// the next sweep. Servers commonly close unused connections after 60 s or more. A shorter time avoids retries.
const idleTimeout = 55 * time.Second

// Client sends requests to upstreams, each on behalf of an Account. It is safe
// for concurrent use.
type Client struct {
	direct     direct
	transports transports
	standard   bool // Options.Standard
	services   Services
	http1      http1Hosts
	timeout    time.Duration // for the beginning of a response
}

// Account sends the requests of one account. It never shares connections with other accounts. It is safe for concurrent use.
type Account struct {
	client   *Client
	identity identity
	timeout  time.Duration
	caller   tunnel.Caller // on whose behalf services are called
}

// identity is the identity with which connections are opened: an account and a
// client certificate. Two requests share a connection only if both are equal.
type identity struct {
	account string
	// certFingerprint is the fingerprint of the client certificate, "" for none.
	certFingerprint string
	certificate     *tls.Certificate
}

// key returns a comparable value that distinguishes identities.
func (i identity) key() identityKey { return identityKey{i.account, i.certFingerprint} }

type identityKey struct{ account, certFingerprint string }

// withCertificate returns a copy of a configuration with the identity's certificate. The client sends this
// certificate to every server that requests one, because many servers list the wrong CAs in their request.
func (i identity) withCertificate(config *tls.Config) *tls.Config {
	config = config.Clone()
	if i.certificate != nil {
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return i.certificate, nil
		}
	}
	return config
}

// Account returns an Account for an account's ID. Connections belong to the ID, so callers can create an Account for each request.
func (c *Client) Account(id string) *Account {
	return &Account{client: c, identity: identity{account: id}, timeout: c.timeout}
}

// WithCertificate returns an Account whose requests present a client
// certificate, over separate connections. The certificate must have its Leaf.
func (a *Account) WithCertificate(c *tls.Certificate) *Account {
	sum := sha256.Sum256(c.Leaf.Raw)
	out := *a
	out.identity = identity{account: a.identity.account, certFingerprint: string(sum[:]), certificate: c}
	return &out
}

// maxHTTP1Hosts is the maximum number of hosts in http1Hosts, because upstreams can add hosts with redirects.
const maxHTTP1Hosts = 4096

// http1Hosts has the hosts whose servers have chosen HTTP/1 in a TLS handshake.
type http1Hosts struct {
	mu    sync.RWMutex
	known map[string]bool
}

func (h *http1Hosts) has(host string) bool {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.known[host]
}

func (h *http1Hosts) set(host string, http1 bool) {
	if h.has(host) == http1 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.known == nil || len(h.known) >= maxHTTP1Hosts {
		h.known = map[string]bool{}
	}
	h.known[host] = http1
}

var _ http.RoundTripper = (*Account)(nil)

// New returns a Client.
func New(o Options) *Client {
	setDefault := func(d *time.Duration, value time.Duration) {
		if *d == 0 {
			*d = value
		}
	}
	setDefault(&o.DialTimeout, 10*time.Second)
	setDefault(&o.TLSTimeout, 10*time.Second)
	setDefault(&o.ResponseTimeout, time.Minute)
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
		timeout:    o.ResponseTimeout,
	}
	c.direct.pool = pool{
		dial: dialer.DialContext, tls: onlyHTTP1(o.TLS), tlsTimeout: o.TLSTimeout,
		perHost: o.MaxIdlePerHost, maxIdle: o.MaxIdle,
	}
	return c
}

// maxIdle returns the default of Options.MaxIdle. With it, the idle connections of the two paths together take at most
// half of the process's file descriptors.
func maxIdle() int {
	return int(min(4096, socket.MaxDescriptors()/4)) //nolint:gosec // it is small
}

// onlyHTTP1 returns a copy of a configuration that negotiates only HTTP/1.1.
func onlyHTTP1(config *tls.Config) *tls.Config {
	if config == nil {
		config = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	config = config.Clone()
	config.NextProtos = []string{"http/1.1"}
	return config
}

// Send sends one request and returns its response, which can be a redirect. Before it returns, it calls
// onInformational for each 1xx response except 100, unless onInformational is nil. A response of status 101
// switches to the protocol that the request has asked for. Its body is an io.ReadWriteCloser. If the URL has
// the scheme tunnel.Scheme, the request is sent to a service behind a tunnel, with the identity of WithCaller.
func (a *Account) Send(r *http.Request, onInformational func(status int, header http.Header)) (*http.Response, error) {
	c := a.client
	if r.URL.Scheme == tunnel.Scheme {
		return a.sendToService(r, onInformational)
	}
	if c.isDirect(r) {
		response, err := c.direct.send(a.identity, a.timeout, r, onInformational)
		if _, unsent := errors.AsType[*handshakeError](err); !unsent {
			return response, err
		}
		// The server may have stopped choosing HTTP/1. Negotiate again with http.Transport.
		c.http1.set(r.URL.Host, false)
	}
	var recorder headRecorder
	hints := informational{handle: onInformational, recorder: &recorder}
	defer hints.stop()
	timer := responseTimer{responseTimeout: a.timeout, bodyTimeout: max(a.timeout, c.timeout)}
	response, err := c.transports.get(a.identity).RoundTrip(timer.watch(recorder.watch(hints.watch(r))))
	recorder.restoreFinal(response)
	if timer.stop() {
		if err == nil {
			_ = response.Body.Close()
		}
		return nil, errResponseTimeout
	}
	if err != nil {
		return nil, err
	}
	if r.URL.Scheme == "https" && response.ProtoMajor == 1 {
		c.http1.set(r.URL.Host, true)
	}
	return checkResponse(response, r)
}

// checkResponse returns the response to r, or an error if the response is invalid.
func checkResponse(response *http.Response, r *http.Request) (_ *http.Response, err error) {
	switch {
	case !validStatus(response.StatusCode):
		err = errStatus
	case response.StatusCode == http.StatusSwitchingProtocols && !acceptsUpgrade(response, r):
		err = errSwitched
	case !validLength(response.Header["Content-Length"]):
		err = errLength
	default:
		tunnel.DropBody(response)
		return response, nil
	}
	_ = response.Body.Close()
	return nil, err
}

// validLength reports whether Content-Length is missing or one number (RFC 9110, section 8.6). With HTTP/2, net/http
// accepts any value, because frames delimit the body. But the gateway can forward the response over HTTP/1, where a
// recipient could interpret a response with two lengths as two responses.
func validLength(values []string) bool {
	if len(values) == 0 {
		return true
	}
	_, err := strconv.ParseUint(values[0], 10, 63)
	return len(values) == 1 && err == nil
}

// acceptsUpgrade reports whether the response switches to the protocol that the request asked for.
func acceptsUpgrade(response *http.Response, r *http.Request) bool {
	requested := r.Header.Get("Upgrade")
	_, isOpen := response.Body.(io.ReadWriteCloser)
	return isOpen && requested != "" && strings.EqualFold(response.Header.Get("Upgrade"), requested)
}

// isDirect reports whether a request takes the direct path. The first request to a
// TLS server uses http.Transport, which shows the protocol that the server chooses.
func (c *Client) isDirect(r *http.Request) bool {
	if c.standard || !c.direct.supports(r) {
		return false
	}
	if r.URL.Scheme == "https" {
		return c.http1.has(r.URL.Host)
	}
	return r.URL.Scheme == "http"
}

// RoundTrip calls Send without a callback for 1xx responses.
func (a *Account) RoundTrip(r *http.Request) (*http.Response, error) { return a.Send(r, nil) }

// Close closes idle connections. Connections in use are closed when their requests end.
func (c *Client) Close() {
	c.transports.close()
	c.direct.pool.close()
}

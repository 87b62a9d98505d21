package relay

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/gatewright/gatewright/shared/format/tunnel"
)

// timeouts has the timeouts of connections to relays.
type timeouts struct {
	// dial limits the time to open a TCP connection, and also the time of the TLS handshake after it.
	dial time.Duration
	// ping is how long a connection is silent during a request before HTTP/2 sends a ping. pong is how
	// long the response to the ping can take. Proxies and address translators drop connections silently,
	// and a ping detects that. Without TLS there is no HTTP/2, and only TCP keep-alive checks connections.
	ping, pong time.Duration
	// idle is how long an idle connection is kept. It is less than the few minutes after which
	// load balancers forget idle connections. The time that a Lambda is frozen counts.
	idle time.Duration
}

// defaultTimeouts returns the timeouts outside tests.
func defaultTimeouts() timeouts {
	return timeouts{dial: 2 * time.Second, ping: 10 * time.Second, pong: 5 * time.Second, idle: 55 * time.Second}
}

// relayClient is a client for relays, with connections that are kept and shared by all accounts.
// With HTTP/2, a connection has several requests at once; with HTTP/1.1, one after the other.
type relayClient struct {
	passes *passes
	// transport is for most requests, with HTTP/2 over TLS. upgradeTransport is
	// for requests to switch protocols, which only HTTP/1.1 supports.
	transport, upgradeTransport *http.Transport
}

// dialFunc opens TCP connections.
type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

func newRelayClient(p *passes, config *tls.Config, dial dialFunc, t timeouts) *relayClient {
	if dial == nil {
		dial = (&net.Dialer{Timeout: t.dial, KeepAlive: keepAlive}).DialContext
	}
	newTransport := func(http2 bool) *http.Transport {
		tr := &http.Transport{
			// No Proxy function: only relays may see a pass.
			DialContext: dial, TLSClientConfig: config.Clone(), TLSHandshakeTimeout: t.dial,
			IdleConnTimeout: t.idle, MaxIdleConnsPerHost: maxIdle,
			MaxResponseHeaderBytes: maxHeaderBytes, DisableCompression: true,
			ReadBufferSize: copyBufferSize, WriteBufferSize: copyBufferSize,
			ExpectContinueTimeout: agentWait + t.dial,
			Protocols:             new(http.Protocols),
			HTTP2:                 &http.HTTP2Config{SendPingTimeout: t.ping, PingTimeout: t.pong},
		}
		tr.Protocols.SetHTTP1(true)
		tr.Protocols.SetHTTP2(http2)
		return tr
	}
	return &relayClient{passes: p, transport: newTransport(true), upgradeTransport: newTransport(false)}
}

const (
	// keepAlive is the interval of TCP's keep-alive probes.
	keepAlive = 15 * time.Second
	// maxIdle is the maximum number of idle HTTP/1.1 connections to a relay.
	maxIdle = 256
	// maxHeaderBytes limits the head of a response, like package tunnel for responses of agents.
	maxHeaderBytes = 256 << 10
	// copyBufferSize is the size of the buffers for sending and receiving, in bytes.
	copyBufferSize = 32 << 10
)

func (rc *relayClient) close() {
	rc.transport.CloseIdleConnections()
	rc.upgradeTransport.CloseIdleConnections()
}

// send sends a request once to the relay at an address, with a pass for
// the claims c. It does not change the request, but reads its body.
//
// The error wraps an error of the list failures, or is a *tunnel.Error or the cause of r's context. It is ErrBroken
// only if a service may have received the request. If it is ErrUnavailable or ErrNoAgent, no service was reached.
func (rc *relayClient) send(r *http.Request, body *body, relay *url.URL, c claims) (*http.Response, error) {
	var headersSent atomic.Bool
	ctx := httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{WroteHeaders: func() { headersSent.Store(true) }})
	out := r.WithContext(ctx)
	out.URL = &url.URL{
		Scheme: relay.Scheme, Host: relay.Host, Path: RequestPath + r.URL.Path, RawPath: RequestPath + r.URL.EscapedPath(),
		RawQuery: r.URL.RawQuery,
	}
	out.Host, out.RequestURI, out.GetBody, out.Close = "", "", nil, false
	out.Body = body.next()
	pass, err := rc.passes.issue(ctx, c, methodOf(r), out.URL.RequestURI())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", tunnel.ErrUnavailable, err)
	}
	out.Header = r.Header.Clone()
	if out.Header == nil {
		out.Header = http.Header{}
	}
	out.Header[fieldPass] = []string{pass}
	if _, hasUserAgent := out.Header["User-Agent"]; !hasUserAgent {
		out.Header["User-Agent"] = []string{""} // otherwise net/http would send its own name
	}
	transport := rc.transport
	switch {
	case out.Header.Get("Upgrade") != "":
		transport = rc.upgradeTransport
		out.Header["Connection"] = []string{"Upgrade"}
	case out.Body != nil:
		// Wait for status 100 before sending the body. So a relay without an
		// agent does not use up the body, which can be sent to another relay.
		out.Header["Expect"] = []string{expectContinue}
	}
	// send makes only one attempt: its callers make further attempts, and the type attempts counts them.
	response, err := transport.RoundTrip(tunnel.LimitAttempts(out, 1))
	switch {
	case err == nil:
	case r.Context().Err() != nil:
		return nil, context.Cause(r.Context())
	case headersSent.Load():
		return nil, fmt.Errorf("%w: %w", tunnel.ErrBroken, err)
	default:
		return nil, fmt.Errorf("%w: %w", tunnel.ErrUnavailable, err)
	}
	if err := readFailure(response); err != nil {
		_ = response.Body.Close()
		return nil, err
	}
	// The version is that of the connection to the relay. For callers, services use HTTP/1.1.
	response.Proto, response.ProtoMajor, response.ProtoMinor = "HTTP/1.1", 1, 1
	return response, nil
}

// expectContinue makes a client wait for status 100 before it sends a body (RFC 9110, section 10.1.1).
const expectContinue = "100-continue"

func methodOf(r *http.Request) string {
	if r.Method == "" {
		return http.MethodGet
	}
	return r.Method
}

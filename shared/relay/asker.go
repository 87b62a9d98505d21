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

	"github.com/gatewright/gatewright/shared/tunnel"
)

// timing is how long connections to relays may take and be silent.
type timing struct {
	// dial bounds a connection until it can be used.
	dial time.Duration
	// ping is how long one that is waited for is silent before the relay is asked whether it is
	// there, pong how long the answer may take: proxies and address translators cut connections
	// without a word. It is HTTP/2's, so it is for TLS; without it TCP looks after connections.
	ping, pong time.Duration
	// idle is how long one is kept that carries nothing. Load balancers forget them after some
	// minutes, and the clock runs on while a Lambda sleeps.
	idle time.Duration
}

// usual is what connections to relays are held to outside tests.
func usual() timing {
	return timing{dial: 2 * time.Second, ping: 10 * time.Second, pong: 5 * time.Second, idle: 55 * time.Second}
}

// asker asks relays, over connections that are kept and shared. Each carries whole
// requests, in the frames of HTTP/2 or one after the other, of whichever account.
type asker struct {
	passes *passes
	// plain is for most requests, by HTTP/2 where there is TLS; switching for those that ask to
	// switch protocols, which HTTP/1.1 alone can.
	plain, switching *http.Transport
}

// dialler opens TCP connections.
type dialler func(ctx context.Context, network, address string) (net.Conn, error)

func newAsker(p *passes, config *tls.Config, dial dialler, t timing) *asker {
	if dial == nil {
		dial = (&net.Dialer{Timeout: t.dial, KeepAlive: keepAlive}).DialContext
	}
	transport := func(http2 bool) *http.Transport {
		own := &http.Transport{
			// No proxy: a pass is for relays alone.
			DialContext: dial, TLSClientConfig: config.Clone(), TLSHandshakeTimeout: t.dial,
			IdleConnTimeout: t.idle, MaxIdleConnsPerHost: maxIdle,
			MaxResponseHeaderBytes: maxHeaderBytes, DisableCompression: true,
			ReadBufferSize: copyBytes, WriteBufferSize: copyBytes,
			ExpectContinueTimeout: patience + t.dial,
			Protocols:             new(http.Protocols),
			HTTP2:                 &http.HTTP2Config{SendPingTimeout: t.ping, PingTimeout: t.pong},
		}
		own.Protocols.SetHTTP1(true)
		own.Protocols.SetHTTP2(http2)
		return own
	}
	return &asker{passes: p, plain: transport(true), switching: transport(false)}
}

const (
	// keepAlive is how often TCP itself looks after a connection.
	keepAlive = 15 * time.Second
	// maxIdle is how many connections of HTTP/1.1 to a relay are kept.
	maxIdle = 256
	// maxHeaderBytes bounds the head of an answer, as that of an agent's.
	maxHeaderBytes = 256 << 10
	copyBytes      = 32 << 10
)

func (a *asker) close() {
	a.plain.CloseIdleConnections()
	a.switching.CloseIdleConnections()
}

// ask sends a request to the relay at an address once, with a pass for what c claims. The
// request is left as it is, its body apart, which is the one of this attempt.
//
// The error is one of failures, a *tunnel.Error, or the cause of r's context. It is ErrBroken
// only where the request may have been seen; where it is ErrUnavailable or
// ErrNoAgent no service was reached.
func (a *asker) ask(r *http.Request, body *body, relay *url.URL, c claims) (*http.Response, error) {
	var left atomic.Bool
	ctx := httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{WroteHeaders: func() { left.Store(true) }})
	out := r.WithContext(ctx)
	out.URL = &url.URL{
		Scheme: relay.Scheme, Host: relay.Host, Path: AskPath + r.URL.Path, RawPath: AskPath + r.URL.EscapedPath(),
		RawQuery: r.URL.RawQuery,
	}
	out.Host, out.RequestURI, out.GetBody, out.Close = "", "", nil, false
	out.Body = body.next()
	pass, err := a.passes.make(ctx, c, methodOf(r), out.URL.RequestURI())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", tunnel.ErrUnavailable, err)
	}
	out.Header = r.Header.Clone()
	if out.Header == nil {
		out.Header = http.Header{}
	}
	out.Header[fieldPass] = []string{pass}
	if _, named := out.Header["User-Agent"]; !named {
		out.Header["User-Agent"] = []string{""} // net/http would name itself
	}
	transport := a.plain
	switch {
	case out.Header.Get("Upgrade") != "":
		transport = a.switching
		out.Header["Connection"] = []string{"Upgrade"}
	case out.Body != nil:
		// A body goes where it is read: a relay that has no agent for it leaves it for another.
		out.Header["Expect"] = []string{expectation}
	}
	// Another attempt is for tries to make, which count them.
	response, err := transport.RoundTrip(tunnel.SendAtMost(out, 1))
	switch {
	case err == nil:
	case r.Context().Err() != nil:
		return nil, context.Cause(r.Context())
	case left.Load():
		return nil, fmt.Errorf("%w: %w", tunnel.ErrBroken, err)
	default:
		return nil, fmt.Errorf("%w: %w", tunnel.ErrUnavailable, err)
	}
	if err := failed(response); err != nil {
		_ = response.Body.Close()
		return nil, err
	}
	response.Proto, response.ProtoMajor, response.ProtoMinor = "HTTP/1.1", 1, 1
	return response, nil
}

// expectation is what a client waits for before it sends a body (RFC 9110, section 10.1.1).
const expectation = "100-continue"

func methodOf(r *http.Request) string {
	if r.Method == "" {
		return http.MethodGet
	}
	return r.Method
}

package tunnel

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// Link is a relay's end of one connection to an agent. It is safe for concurrent use.
type Link struct {
	conn   net.Conn
	client *http.ClientConn

	mu          sync.Mutex
	ready       bool          // the agent has received its services
	draining    bool          // the link refuses new requests
	active      int           // requests whose responses' bodies have not ended
	disconnects int           // requests whose clients disconnected before their responses
	idle        chan struct{} // closed when draining and no requests are left

	done      chan struct{} // closed when the connection has ended
	closeOnce sync.Once
}

// linkTransport returns the transport that all links of a relay share.
// newLink passes each connection to the transport in the context.
func linkTransport() *http.Transport {
	t := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn, _ := ctx.Value(dialedKey{}).(net.Conn)
			return conn, nil
		},
		MaxResponseHeaderBytes: maxHeaderBytes,
		DisableCompression:     true,
		Protocols:              new(http.Protocols),
		HTTP2: &http.HTTP2Config{
			SendPingTimeout: pingInterval, PingTimeout: pingTimeout, WriteByteTimeout: pingInterval + pingTimeout,
			MaxReadFrameSize: frameBytes, MaxReceiveBufferPerStream: streamWindow,
			MaxReceiveBufferPerConnection: connectionWindow,
		},
	}
	t.Protocols.SetUnencryptedHTTP2(true) // within TLS
	return t
}

// dialedKey is the context key of the connection that linkTransport uses.
type dialedKey struct{}

// newLink returns the Link of a connection that an agent has dialed
// and switched to Protocol. transport is the result of linkTransport.
func newLink(ctx context.Context, transport *http.Transport, conn net.Conn) (*Link, error) {
	l := &Link{conn: conn, idle: make(chan struct{}), done: make(chan struct{})}
	ctx = context.WithValue(ctx, dialedKey{}, conn)
	client, err := transport.NewClientConn(ctx, "http", controlHost+":80")
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("begin HTTP/2 with the agent: %w", err)
	}
	l.client = client
	client.SetStateHook(func(c *http.ClientConn) {
		if c.Err() != nil {
			l.markDone()
		}
	})
	return l, nil
}

// Done returns a channel that is closed when the connection has ended.
func (l *Link) Done() <-chan struct{} { return l.done }

func (l *Link) markDone() { l.closeOnce.Do(func() { close(l.done) }) }

// Close ends the connection immediately and aborts its requests.
func (l *Link) Close() {
	_ = l.client.Close()
	_ = l.conn.Close()
	l.markDone()
}

// Configure sends the list of services to the agent. The agent removes services that are not in the list.
func (l *Link) Configure(ctx context.Context, services []Service) error {
	// Do not escape characters for HTML: the largest configuration would then be longer than an agent accepts.
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(services); err != nil {
		return fmt.Errorf("encode the services: %w", err)
	}
	if err := l.control(ctx, http.MethodPut, "/services", text.Bytes()); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ready {
		// Reserve a stream for closeOnShutdown: otherwise requests could fill the connection
		// first, and the agent could not announce its shutdown until one of them ends.
		if err := l.client.Reserve(); err != nil {
			return fmt.Errorf("ask the agent: %w", err)
		}
	}
	l.ready = true
	return nil
}

// Drain makes the link refuse new requests, and makes the agent dial another connection. It waits until no request is
// in flight on the link, or until the link has ended. It returns an error if it cannot reach the agent, or if ctx ends
// first.
func (l *Link) Drain(ctx context.Context) error {
	l.retire()
	if err := l.control(ctx, http.MethodPost, "/drain", nil); err != nil {
		return err
	}
	select {
	case <-l.idle:
	case <-l.done:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// retire makes the link refuse new requests.
func (l *Link) retire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.draining {
		l.draining = true
		if l.active == 0 {
			close(l.idle)
		}
	}
}

// closeOnShutdown waits until the agent shuts down, and then until no request is in flight, and ends the connection.
func (l *Link) closeOnShutdown(ctx context.Context) {
	if l.send(ctx, http.MethodGet, "/leaving", nil) != nil {
		return // the connection has ended
	}
	l.retire()
	select {
	case <-l.idle:
		l.Close()
	case <-l.done:
	}
}

// control sends a request to the agent itself. It reserves another stream for the request,
// so that the stream for closeOnShutdown stays free. If no stream is free, control waits.
func (l *Link) control(ctx context.Context, method, path string, body []byte) error {
	_ = l.client.Reserve() // fails if no stream is free: then the request below waits, or returns the reason
	return l.send(ctx, method, path, body)
}

// send sends a request to the agent itself, on a stream that is already reserved. It returns an error unless the agent
// responds 204.
func (l *Link) send(ctx context.Context, method, path string, body []byte) error {
	r, err := http.NewRequestWithContext(ctx, method, "http://"+controlHost+path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("ask the agent: %w", err)
	}
	response, err := l.client.RoundTrip(r)
	if err != nil {
		return fmt.Errorf("ask the agent: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusNoContent {
		return fmt.Errorf("ask the agent for %s %s: it answers %s", method, path, response.Status)
	}
	return nil
}

// inFlight returns the number of requests in flight, or -1 if the link accepts no further request now.
func (l *Link) inFlight() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.usableLocked() || l.client.Available() <= 0 {
		return -1
	}
	return l.active
}

// usable reports whether the link serves requests. It also returns true if no stream is free at the moment.
func (l *Link) usable() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.usableLocked()
}

// isDraining reports whether the link was retired but has not ended.
func (l *Link) isDraining() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.draining && l.client.Err() == nil
}

// usableLocked returns the result of usable. The caller must hold l.mu.
func (l *Link) usableLocked() bool { return l.ready && !l.draining && l.client.Err() == nil }

// reserve counts a request as in flight. It returns false if the link accepts no further request.
func (l *Link) reserve() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ready || l.draining || l.client.Reserve() != nil {
		return false
	}
	l.active++
	return true
}

func (l *Link) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.active--
	if l.draining && l.active == 0 {
		close(l.idle)
	}
}

// errNotAccepted means that a link did not accept a request. The request was not sent.
var errNotAccepted = errors.New("tunnel: the connection takes no more requests")

// roundTrip sends a request for a service and returns its response. The error is errNotAccepted if the link did not
// accept the request, an *Error if the agent itself responded or switched protocols without a request to do so,
// ErrBroken if the connection ended, or the cause of r's context. The caller must not use r and its header afterwards.
func (l *Link) roundTrip(r *http.Request, service string, c Caller) (*http.Response, error) {
	if !l.reserve() {
		return nil, errNotAccepted
	}
	clientCtx := r.Context()
	var tracked trackedRequest
	r, stop := tracked.watch(r)
	release := sync.OnceFunc(func() {
		stop()
		l.release()
	})
	// Replace the host of the request: the agent recognizes requests to itself by their host.
	u := *r.URL
	u.Scheme, u.Host, u.User = "http", serviceHost, nil
	r.URL, r.Host = &u, ""
	removeFields(r.Header)
	r.Header[fieldService] = []string{service}
	r.Header[fieldProject], r.Header[fieldEnvironment] = []string{c.Project}, []string{c.Environment}
	if _, hasUserAgent := r.Header["User-Agent"]; !hasUserAgent {
		r.Header["User-Agent"] = []string{""} // net/http would send its own name
	}
	var up *clientStream
	if protocol := r.Header.Get("Upgrade"); protocol != "" {
		r, up = upgradeRequest(r, protocol)
	}
	response, err := l.client.RoundTrip(r)
	if err != nil {
		up.abort()
		release()
		return nil, l.wrapError(clientCtx, err)
	}
	if !tracked.markReturned() {
		up.abort()
		_ = response.Body.Close()
		release()
		return nil, context.Cause(clientCtx)
	}
	if failure := response.Header.Get(fieldFailure); failure != "" {
		up.abort()
		_ = response.Body.Close()
		release()
		return nil, &Error{parseFailure(failure)}
	}
	DropBody(response)
	switched := response.Header.Get(fieldSwitched)
	removeFields(response.Header)
	response.Proto, response.ProtoMajor, response.ProtoMinor = "HTTP/1.1", 1, 1
	switch {
	case up != nil && switched != "":
		return up.upgradeResponse(response, switched, release), nil
	case switched != "": // the service switched protocols without a request to do so
		_ = response.Body.Close()
		release()
		return nil, &Error{Unreachable}
	}
	up.abort()
	response.Body = &responseBody{response.Body, release}
	return response, nil
}

// wrapError returns the cause of ctx if the client has disconnected, and otherwise err as an ErrBroken.
func (l *Link) wrapError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("%w: %w", ErrBroken, err)
}

// responseBody is a body that calls release when it ends or is closed.
type responseBody struct {
	io.ReadCloser
	release func()
}

func (b *responseBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.release()
	}
	return n, err
}

func (b *responseBody) Close() error {
	b.release()
	return b.ReadCloser.Close()
}

// keepAlive is the interval of TCP keep-alives, for proxies that close connections that they consider idle.
const keepAlive = 30 * time.Second

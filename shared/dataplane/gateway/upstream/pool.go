package upstream

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"math"
	"net"
	"net/url"
	"sync"
	"time"
)

// pool has the idle connections of direct. It reuses the most recently used connection
// first. Accounts do not share connections, so that unsolicited data of a server can't
// reach a client of another account (docs/decisions/0025-connections-of-one-account.md).
type pool struct {
	dial       func(ctx context.Context, network, address string) (net.Conn, error)
	tls        *tls.Config // negotiates only HTTP/1.1
	tlsTimeout time.Duration
	perHost    int // maximum number of idle connections of one poolKey
	maxIdle    int // maximum number of idle connections in total

	mu       sync.Mutex
	idle     map[poolKey][]*conn
	count    int // number of connections in idle
	sweeping bool
	closed   bool
}

// poolKey identifies connections that are interchangeable.
type poolKey struct {
	identityKey
	host   string // the URL's host, with a port if the URL has one
	secure bool
}

// conn is a connection to an upstream, with its HTTP state. One exchange at a time uses it.
type conn struct {
	net.Conn
	tcp net.Conn // the connection below TLS, or Conn itself
	idleChecker
	reader       reader
	r            *bufio.Reader
	w            *bufio.Writer
	pool         *pool
	key          poolKey
	idleSince    time.Time // when it became idle
	readDeadline time.Time // the read deadline, zero for none

	ctx              context.Context //nolint:containedctx // of the current exchange; needed while the body is read
	responseDeadline time.Time       // the latest time for the response to begin
	stopWatch        func() bool     // stops the watch over ctx, nil while there is none
	reusable         bool            // whether the server allows another request after this exchange
}

// unlimited is the value of reader.remaining for no limit.
const unlimited = math.MaxInt64

// reader limits the number of bytes that are read from a connection, and records whether any byte was read.
type reader struct {
	io.Reader
	remaining int64
	hasRead   bool
	// err is the error of the last read. A parser can drop this error, and report instead that the last line is malformed.
	err    error
	inHead bool  // whether the bytes that are read are recorded in heads
	heads  heads // heads of the exchange's responses
}

func (r *reader) Read(p []byte) (int, error) {
	if r.remaining <= 0 {
		r.err = errHeaderTooLarge
		return 0, r.err
	}
	n, err := r.Reader.Read(p[:min(int64(len(p)), r.remaining)])
	r.err = err
	if n > 0 {
		r.hasRead = true
		r.remaining -= int64(n)
		if r.inHead {
			r.heads.raw = append(r.heads.raw, p[:n]...)
		}
	}
	return n, err
}

// get returns a connection for requests to u. If mayReuse is true, that is an idle connection that is still open, if
// there is one. Otherwise get opens a new connection. reused reports whether the connection was idle.
func (p *pool) get(ctx context.Context, id identity, u *url.URL, mayReuse bool) (c *conn, reused bool, err error) {
	key := poolKey{id.key(), u.Host, u.Scheme == "https"}
	for mayReuse {
		c := p.pop(key)
		if c == nil {
			break
		}
		if time.Since(c.idleSince) < idleTimeout && c.isIdle(onSocket) {
			return c, true, nil
		}
		_ = c.Close()
	}
	c, err = p.connect(ctx, id, u)
	if err != nil {
		return nil, false, err
	}
	c.key = key
	return c, false, nil
}

func (p *pool) pop(key poolKey) *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	stack := p.idle[key]
	if len(stack) == 0 {
		return nil
	}
	c := stack[len(stack)-1]
	stack[len(stack)-1] = nil
	p.idle[key] = stack[:len(stack)-1]
	p.count--
	return c
}

func (p *pool) connect(ctx context.Context, id identity, u *url.URL) (*conn, error) {
	tcp, err := p.dial(ctx, "tcp", addressOf(u))
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: tcp, tcp: tcp, pool: p}
	if err := c.prepare(tcp); err != nil {
		_ = tcp.Close()
		return nil, err
	}
	if u.Scheme == "https" {
		config := id.withCertificate(p.tls)
		if config.ServerName == "" {
			config.ServerName = u.Hostname()
		}
		ctx, cancel := context.WithTimeout(ctx, p.tlsTimeout)
		defer cancel()
		secure := tls.Client(c.wrapForTLS(tcp), config)
		if err := secure.HandshakeContext(ctx); err != nil {
			_ = tcp.Close()
			return nil, &handshakeError{err}
		}
		c.Conn = secure
	}
	c.reader.Reader = watchedConn{c}
	c.r, c.w = bufio.NewReader(&c.reader), bufio.NewWriter(watchedConn{c})
	return c, nil
}

// Close closes the connection without a TLS close_notify alert, because sending it blocks if the
// server does not read. The alert is not needed, because the end of each request is explicit.
func (c *conn) Close() error { return c.tcp.Close() }

// handshakeError is the error of a failed TLS handshake. It shows that the request was not sent.
type handshakeError struct{ error }

func (e *handshakeError) Unwrap() error { return e.error }

// readUntil sets the read deadline, zero for none. If ctx has ended, readUntil returns the
// cause of ctx, and the caller must not read, because readUntil can overwrite the deadline
// that the watch over ctx has set. If ctx ends later, the watch sets its deadline again.
func (c *conn) readUntil(t time.Time) error {
	c.readDeadline = t
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return context.Cause(c.ctx)
}

// hasReadNothing reports whether the exchange has read nothing.
func (c *conn) hasReadNothing() bool { return !c.reader.hasRead }

// isIdle reports whether the connection is open and has nothing to read. A connection with
// unsolicited bytes is not reused, because they would be taken for the response to the next request.
func (c *conn) isIdle(depth checkDepth) bool {
	if c.r.Buffered() > 0 {
		return false
	}
	// Remove a deadline that has passed: with it, reads would fail.
	if depth == onSocket && !c.readDeadline.IsZero() && time.Until(c.readDeadline) <= 0 &&
		c.SetReadDeadline(time.Time{}) != nil {
		return false
	}
	return c.hasNothingToRead(c.Conn, depth)
}

// release returns the connection to the pool if it can be reused, and closes it otherwise.
func (c *conn) release() {
	if !c.endWatch() || !c.reusable || !c.isIdle(inMemory) {
		_ = c.Close()
		return
	}
	c.ctx = nil
	c.idleSince = time.Now()
	c.pool.put(c)
}

// discard stops the watch and closes the connection.
func (c *conn) discard() {
	c.endWatch()
	_ = c.Close()
}

func (p *pool) put(c *conn) {
	if evicted := p.addIdle(c); evicted != nil {
		_ = evicted.Close()
	}
}

// addIdle adds c to the idle connections, and returns a connection that the caller must
// close, nil for none. If c's host has enough idle connections, or the pool is closed, that
// is c itself. If there are too many idle connections in total, it is another connection.
func (p *pool) addIdle(c *conn) (evicted *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.idle[c.key]) >= p.perHost {
		return c
	}
	if p.idle == nil {
		p.idle = map[poolKey][]*conn{}
	}
	if p.count >= p.maxIdle {
		evicted = p.popFromAnyHost()
	}
	p.idle[c.key] = append(p.idle[c.key], c)
	p.count++
	if !p.sweeping {
		p.sweeping = true
		time.AfterFunc(idleTimeout, p.sweep)
	}
	return evicted
}

// popFromAnyHost chooses a host. It removes and returns the connection of this host that was idle for the longest time.
// The order of the map chooses the host, so clients can't influence the choice.
func (p *pool) popFromAnyHost() *conn {
	for key, stack := range p.idle {
		if len(stack) == 0 {
			delete(p.idle, key)
			continue
		}
		c := stack[0]
		stack[0] = nil
		p.idle[key] = stack[1:]
		p.count--
		return c
	}
	return nil
}

// sweep closes connections that were idle for idleTimeout. If there are other idle connections, it schedules another sweep.
func (p *pool) sweep() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, stack := range p.idle {
		expired := 0
		for expired < len(stack) && time.Since(stack[expired].idleSince) >= idleTimeout {
			_ = stack[expired].Close()
			expired++
		}
		p.count -= expired
		if remaining := append([]*conn(nil), stack[expired:]...); len(remaining) > 0 {
			p.idle[key] = remaining
		} else {
			delete(p.idle, key)
		}
	}
	if p.sweeping = len(p.idle) > 0; p.sweeping {
		time.AfterFunc(idleTimeout, p.sweep)
	}
}

// close closes idle connections. Connections in use are closed when they are released.
func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, stack := range p.idle {
		for _, c := range stack {
			_ = c.Close()
		}
	}
	p.idle, p.count = nil, 0
}

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

// pool keeps idle connections of direct, the last used one on top. An account's
// connections are its own: what a server has put on one can't reach another's
// caller (docs/decisions/0025-connections-of-one-account.md).
type pool struct {
	dial    func(ctx context.Context, network, address string) (net.Conn, error)
	tls     *tls.Config // with only HTTP/1.1 to negotiate
	tlsTime time.Duration
	perHost int // of one account
	most    int // of all

	mu       sync.Mutex
	idle     map[poolKey][]*conn
	count    int // of idle
	sweeping bool
	closed   bool
}

// poolKey is what connections have in common that can stand in for each other.
type poolKey struct {
	wayKey
	host   string // of the URL, with its port if it names one
	secure bool
}

// conn is a connection and what is needed to speak HTTP on it. One exchange at
// a time has it.
type conn struct {
	net.Conn
	tcp net.Conn
	silence
	reader reader
	r      *bufio.Reader
	w      *bufio.Writer
	pool   *pool
	key    poolKey
	since  time.Time // when it became idle
	until  time.Time // the deadline of reading, zero for none

	ctx      context.Context //nolint:containedctx // of the exchange that has it: its body is read later
	late     time.Time       // when the response has to have begun
	stop     func() bool     // ends the watch over ctx, nil while there is none
	reusable bool
}

// unlimited is a reader's bound where there is none.
const unlimited = math.MaxInt64

// reader bounds what is read of a connection and knows whether anything was.
type reader struct {
	io.Reader
	left int64
	got  bool
	// failed is why reading ended. Who parses lines may call what was read of the
	// last one malformed, and drop the error.
	failed error
	inHead bool  // what is read is kept in heads
	heads  heads // of the exchange's responses
}

func (r *reader) Read(p []byte) (int, error) {
	if r.left <= 0 {
		r.failed = errHeaderTooLarge
		return 0, r.failed
	}
	n, err := r.Reader.Read(p[:min(int64(len(p)), r.left)])
	r.failed = err
	if n > 0 {
		r.got = true
		r.left -= int64(n)
		if r.inHead {
			r.heads.raw = append(r.heads.raw, p[:n]...)
		}
	}
	return n, err
}

// get takes an idle connection that still stands, if one may be used, or dials
// one.
func (p *pool) get(ctx context.Context, by way, u *url.URL, mayReuse bool) (c *conn, reused bool, err error) {
	key := poolKey{by.key(), u.Host, u.Scheme == "https"}
	for mayReuse {
		c := p.pop(key)
		if c == nil {
			break
		}
		if time.Since(c.since) < idleTimeout && c.quiet(onSocket) {
			return c, true, nil
		}
		_ = c.Close()
	}
	c, err = p.connect(ctx, by, u)
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

func (p *pool) connect(ctx context.Context, by way, u *url.URL) (*conn, error) {
	tcp, err := p.dial(ctx, "tcp", addressOf(u))
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: tcp, tcp: tcp, pool: p}
	if err := c.watch(tcp); err != nil {
		_ = tcp.Close()
		return nil, err
	}
	if u.Scheme == "https" {
		config := by.configured(p.tls)
		if config.ServerName == "" {
			config.ServerName = u.Hostname()
		}
		ctx, cancel := context.WithTimeout(ctx, p.tlsTime)
		defer cancel()
		secure := tls.Client(c.under(tcp), config)
		if err := secure.HandshakeContext(ctx); err != nil {
			_ = tcp.Close()
			return nil, &handshakeError{err}
		}
		c.Conn = secure
	}
	c.reader.Reader = patient{c}
	c.r, c.w = bufio.NewReader(&c.reader), bufio.NewWriter(patient{c})
	return c, nil
}

// Close closes the connection without TLS's word of goodbye, which may have to
// wait for a server that reads nothing. Nothing depends on it: what we send
// says itself where it ends.
func (c *conn) Close() error { return c.tcp.Close() }

// handshakeError tells that no secure connection came about, and so that
// nothing was sent.
type handshakeError struct{ error }

func (e *handshakeError) Unwrap() error { return e.error }

// readUntil sets the time at which reading ends, zero for none. The end of ctx
// may have been there before and its mark be overwritten now: then reading must
// not begin. If it comes later, so does its mark.
func (c *conn) readUntil(t time.Time) error {
	c.until = t
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return context.Cause(c.ctx)
}

// untouched reports whether the exchange has read nothing.
func (c *conn) untouched() bool { return !c.reader.got }

// quiet reports whether the connection stands and nothing waits to be read on
// it: what came unasked is no answer to the next request.
func (c *conn) quiet(where depth) bool {
	if c.r.Buffered() > 0 {
		return false
	}
	// Past its deadline a connection is not read at all.
	if where == onSocket && !c.until.IsZero() && time.Until(c.until) <= 0 && c.SetReadDeadline(time.Time{}) != nil {
		return false
	}
	return c.silent(c.Conn, where)
}

// release gives the connection back, if it can be used again.
func (c *conn) release() {
	if !c.unwatch() || !c.reusable || !c.quiet(inMemory) {
		_ = c.Close()
		return
	}
	c.ctx = nil
	c.since = time.Now()
	c.pool.put(c)
}

// discard closes the connection and ends the watch.
func (c *conn) discard() {
	c.unwatch()
	_ = c.Close()
}

func (p *pool) put(c *conn) {
	if left := p.keep(c); left != nil {
		_ = left.Close()
	}
}

// keep takes a connection and answers the one that has to go for it: itself
// where its host has enough, or another host's when there are too many in all.
func (p *pool) keep(c *conn) (left *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.idle[c.key]) >= p.perHost {
		return c
	}
	if p.idle == nil {
		p.idle = map[poolKey][]*conn{}
	}
	if p.count >= p.most {
		left = p.oldestOfAny()
	}
	p.idle[c.key] = append(p.idle[c.key], c)
	p.count++
	if !p.sweeping {
		p.sweeping = true
		time.AfterFunc(idleTimeout, p.sweep)
	}
	return left
}

// oldestOfAny takes the connection of some host that was idle the longest. Which
// host is left to the order of maps, so that none can choose.
func (p *pool) oldestOfAny() *conn {
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

// sweep closes what has been idle for too long and comes again while there is
// anything left.
func (p *pool) sweep() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, stack := range p.idle {
		old := 0
		for old < len(stack) && time.Since(stack[old].since) >= idleTimeout {
			_ = stack[old].Close()
			old++
		}
		p.count -= old
		if kept := append([]*conn(nil), stack[old:]...); len(kept) > 0 {
			p.idle[key] = kept
		} else {
			delete(p.idle, key)
		}
	}
	if p.sweeping = len(p.idle) > 0; p.sweeping {
		time.AfterFunc(idleTimeout, p.sweep)
	}
}

// close closes idle connections; those in use are closed when they come back.
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

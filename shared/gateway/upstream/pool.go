package upstream

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/url"
	"sync"
	"syscall"
	"time"
)

// pool keeps idle connections of direct, the last used one on top.
type pool struct {
	dial    func(ctx context.Context, network, address string) (net.Conn, error)
	tls     *tls.Config // with only HTTP/1.1 to negotiate
	tlsTime time.Duration
	perHost int

	mu       sync.Mutex
	idle     map[string][]*conn // by scheme and address
	sweeping bool
	closed   bool
}

// conn is a connection and what is needed to speak HTTP on it. One exchange at
// a time has it.
type conn struct {
	net.Conn
	raw    syscall.RawConn
	reader reader
	r      *bufio.Reader
	w      *bufio.Writer
	pool   *pool
	key    string
	since  time.Time // when it became idle
	until  time.Time // the deadline of reading, zero for none

	ctx      context.Context //nolint:containedctx // of the exchange that has it: its body is read later
	stop     func() bool     // ends the watch over ctx
	reusable bool
}

// unlimited is a reader's bound where there is none.
const unlimited = math.MaxInt64

// reader bounds what is read of a connection and knows whether anything was.
type reader struct {
	io.Reader
	left     int64
	got      bool
	exceeded bool
}

func (r *reader) Read(p []byte) (int, error) {
	if r.left <= 0 {
		r.exceeded = true
		return 0, errHeaderTooLarge
	}
	n, err := r.Reader.Read(p)
	if n > 0 {
		r.got = true
		r.left -= int64(n)
	}
	return n, err
}

// get takes an idle connection that still stands, or dials one.
func (p *pool) get(ctx context.Context, u *url.URL) (c *conn, reused bool, err error) {
	address := addressOf(u)
	key := address
	if u.Scheme == "https" {
		key = "tls " + address
	}
	for {
		c := p.pop(key)
		if c == nil {
			break
		}
		if time.Since(c.since) < idleTimeout && c.healthy() {
			return c, true, nil
		}
		_ = c.Close()
	}
	c, err = p.connect(ctx, u, address)
	if err != nil {
		return nil, false, err
	}
	c.key = key
	return c, false, nil
}

func (p *pool) pop(key string) *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	stack := p.idle[key]
	if len(stack) == 0 {
		return nil
	}
	c := stack[len(stack)-1]
	stack[len(stack)-1] = nil
	p.idle[key] = stack[:len(stack)-1]
	return c
}

func (p *pool) connect(ctx context.Context, u *url.URL, address string) (*conn, error) {
	tcp, err := p.dial(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: tcp, pool: p}
	if s, ok := tcp.(syscall.Conn); ok {
		if c.raw, err = s.SyscallConn(); err != nil {
			_ = tcp.Close()
			return nil, fmt.Errorf("watch a connection: %w", err)
		}
	}
	if u.Scheme == "https" {
		config := p.tls.Clone()
		if config.ServerName == "" {
			config.ServerName = u.Hostname()
		}
		ctx, cancel := context.WithTimeout(ctx, p.tlsTime)
		defer cancel()
		secure := tls.Client(tcp, config)
		if err := secure.HandshakeContext(ctx); err != nil {
			_ = tcp.Close()
			return nil, &handshakeError{err}
		}
		c.Conn = secure
	}
	c.reader.Reader = c.Conn
	c.r, c.w = bufio.NewReader(&c.reader), bufio.NewWriter(c.Conn)
	return c, nil
}

// handshakeError tells that no secure connection came about, and so that
// nothing was sent.
type handshakeError struct{ error }

func (e *handshakeError) Unwrap() error { return e.error }

// begin gives the connection to an exchange: when ctx ends, everything that
// waits on the connection does.
func (c *conn) begin(ctx context.Context, maxHeaderBytes int64) {
	c.reader.left, c.reader.got, c.reader.exceeded, c.reusable = maxHeaderBytes, false, false, false
	c.ctx = ctx
	c.stop = context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
}

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

// healthy reports whether the connection stands and nothing waits to be read on
// it: an idle connection's bytes are no answer to the next request. Reading
// nothing without waiting is the only way to know.
func (c *conn) healthy() bool {
	if c.raw == nil {
		return false
	}
	var one [1]byte
	alive := false
	// Past its deadline a connection is not read at all.
	if !c.until.IsZero() && time.Until(c.until) <= 0 && c.SetReadDeadline(time.Time{}) != nil {
		return false
	}
	err := c.raw.Read(func(fd uintptr) bool {
		_, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		alive = errors.Is(err, syscall.EAGAIN)
		return true
	})
	return err == nil && alive
}

// release gives the connection back, if it can be used again.
func (c *conn) release() {
	if !c.stop() || !c.reusable || c.r.Buffered() > 0 || c.raw == nil {
		_ = c.Close()
		return
	}
	c.ctx, c.stop = nil, nil
	c.since = time.Now()
	c.pool.put(c)
}

// discard closes the connection and ends the watch.
func (c *conn) discard() {
	c.stop()
	_ = c.Close()
}

func (p *pool) put(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.idle[c.key]) >= p.perHost {
		_ = c.Close()
		return
	}
	if p.idle == nil {
		p.idle = map[string][]*conn{}
	}
	p.idle[c.key] = append(p.idle[c.key], c)
	if !p.sweeping {
		p.sweeping = true
		time.AfterFunc(idleTimeout, p.sweep)
	}
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
	p.idle = nil
}

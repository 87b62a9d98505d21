package listen

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/gatewright/gatewright/shared/listen/framing"
)

// standard is the state of an HTTP/1.1 connection that net/http reads itself, as
// config.Listener.StandardHTTP wants it: our scanner and our stash are not in use, and
// net/http alone decides where a request begins and ends. The connection keeps the
// timeouts, and a copy of each head: framing.Limits.Lines refuses requests by that
// copy which net/http takes and other programs may read in another way.
//
// Where the next head begins is known from net/http too: behind the head that it has
// parsed and the Content-Length that it has found there. The end of a chunked body is
// not known, so that the answer to such a request is the last on its connection.
type standard struct {
	mu sync.Mutex // guards what follows, and conn.headBy
	// head are the bytes of the next request that net/http has read, lines how many lines they end.
	head  []byte
	lines int
	// running says that a handler runs, left how much of its request's body was not read yet.
	running bool
	left    int64
	// chunked says that the body is chunked and was not read to its end yet, last that it was
	// chunked and the connection ends after the answer.
	chunked, last bool
}

// phase is what the next read of the connection is for.
type phase uint8

const (
	readingHead phase = iota
	readingBody
	readingAhead // net/http waits for the client to go, while a handler runs
)

// phase returns the phase and the deadline of a head, zero for none.
func (c *conn) phase() (phase, time.Time) {
	s := c.standard
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.running:
		return readingHead, c.headBy
	case s.chunked || s.left > 0:
		return readingBody, time.Time{}
	default:
		return readingAhead, time.Time{}
	}
}

// readStandard is Read for a connection that net/http reads itself.
func (c *conn) readStandard(p []byte) (int, error) {
	if c.stage == inTunnel {
		return c.Conn.Read(p)
	}
	for {
		if c.ended != nil {
			return 0, c.end()
		}
		now, by := c.phase()
		// net/http begins to read ahead, a byte, before the handler runs: the head is whole then.
		if now == readingHead && len(p) > 1 {
			if refusal := c.overLimit(); refusal != nil {
				return 0, c.refuse(refusal)
			}
		}
		n, err := 0, error(nil)
		stalled, hurried := false, false
		if now == readingBody {
			n, stalled, hurried, err = c.readOfBody(p)
		} else {
			n, err = c.read(p, by)
		}
		if n > 0 {
			if n = c.copyHead(p[:n]); n > 0 {
				return n, err
			}
			continue
		}
		// A handler has begun to run meanwhile: the deadline was that of the head.
		if then, _ := c.phase(); then != now && isTimeout(err) {
			continue
		}
		switch now {
		case readingBody:
			return 0, c.bodyFailed(err, stalled, hurried)
		case readingHead:
			if isTimeout(err) && c.hasHead() {
				c.replaced = true // net/http calls the part of a head malformed
				return 0, c.refuse(errSlowHead)
			}
		case readingAhead:
		}
		c.note(err)
		return 0, err
	}
}

// hasHead reports whether net/http has read a part of the next head.
func (c *conn) hasHead() bool {
	c.standard.mu.Lock()
	defer c.standard.mu.Unlock()
	return len(c.standard.head) > 0
}

// overLimit refuses a head that is as large as it may be and not whole: net/http reads on.
func (c *conn) overLimit() *framing.Refusal {
	c.standard.mu.Lock()
	defer c.standard.mu.Unlock()
	refusal := c.server.limits.Unfinished(len(c.standard.head), c.standard.lines)
	c.replaced = refusal != nil
	return refusal
}

// copyHead counts what was read of a body and copies what was read of a head. It returns how
// many bytes of p net/http gets: all of them, but line ends before a head.
func (c *conn) copyHead(p []byte) int {
	s := c.standard
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(p)
	switch {
	case s.chunked:
		return n
	case s.running:
		ofBody := min(s.left, int64(n))
		s.left -= ofBody
		p = p[ofBody:]
	case len(s.head) == 0:
		blanks := 0
		for blanks < n && isBlank(p[blanks]) && c.blanks < maxBlanks {
			blanks++
			c.blanks++
		}
		n = copy(p, p[blanks:])
		p = p[:n]
	}
	s.head = append(s.head, p...)
	s.lines += bytes.Count(p, []byte("\n"))
	if !s.running && len(s.head) > 0 && c.headBy.IsZero() {
		c.headBy = time.Now().Add(c.server.settings.HeaderTimeout)
	}
	c.unsettled.Store(len(s.head) > 0 || s.left > 0 || s.last)
	return n
}

// enterStandard is enter for a connection that net/http reads itself. It returns why the request
// is refused, nil for one that the handler gets.
func (c *conn) enterStandard(r *http.Request) *framing.Refusal {
	s := c.standard
	s.mu.Lock()
	defer s.mu.Unlock()
	head := bytes.TrimLeft(s.head, "\r\n")
	size, refusal := c.server.limits.Lines(r, head)
	rest := head[size:]
	s.running, s.chunked, s.last = true, r.ContentLength < 0, r.ContentLength < 0
	if s.chunked {
		rest = nil
	}
	here := min(int64(len(rest)), max(0, r.ContentLength))
	s.left = max(0, r.ContentLength) - here
	s.head = append(s.head[:0], rest[here:]...)
	s.lines = bytes.Count(s.head, []byte("\n"))
	if len(s.head) == 0 && cap(s.head) > stashSize {
		s.head = nil
	}
	c.headBy, c.blanks, c.entered = time.Time{}, 0, true
	c.unsettled.Store(s.chunked || s.left > 0 || len(s.head) > 0)
	c.mu.Lock()
	c.hurrying = false
	c.mu.Unlock()
	return refusal
}

// idleStandard is idle for a connection that net/http reads itself.
func (c *conn) idleStandard() {
	s := c.standard
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.ended == nil && (s.last || s.left > 0) {
		c.ended = errFraming
	}
	s.running, s.last, c.entered = false, false, false
	if len(s.head) > 0 {
		c.headBy = time.Now().Add(c.server.settings.HeaderTimeout)
	}
}

// isLast reports whether the answer to the request has to be the last on its connection.
func (c *conn) isLast() bool {
	if c.standard == nil {
		return false
	}
	c.standard.mu.Lock()
	defer c.standard.mu.Unlock()
	return c.standard.last
}

// refuseStandard answers a request in place of the handler, and ends the connection.
func (c *conn) refuseStandard(r *framing.Refusal) {
	c.unsettled.Store(true)
	c.answer(r)
	c.hurry()
	panic(http.ErrAbortHandler)
}

// standardBody is a chunked body that net/http reads by itself.
type standardBody struct {
	io.ReadCloser
	conn *conn
}

// Read implements io.Reader.
func (b standardBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	c := b.conn
	switch {
	case err == nil:
	case errors.Is(err, io.EOF):
		c.standard.mu.Lock()
		c.standard.chunked = false
		c.standard.mu.Unlock()
	case isOfChunks(err):
		c.fail(framing.ErrChunks)
	}
	return n, err
}

// isOfChunks reports whether net/http finds fault with a chunked body. An error of the
// connection is another one.
func isOfChunks(err error) bool {
	_, ofConnection := errors.AsType[net.Error](err)
	return !ofConnection && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, errStalled) && !errors.Is(err, http.ErrBodyReadAfterClose)
}

// enterStandard begins a request that net/http has read itself.
func (s *Server) enterStandard(c *conn, r *http.Request) {
	if refusal := c.enterStandard(r); refusal != nil {
		c.refuseStandard(refusal)
	}
	if r.ContentLength < 0 {
		r.Body = standardBody{r.Body, c}
	}
}

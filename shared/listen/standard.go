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

// standard is the state of an HTTP/1.1 connection that net/http reads itself, with
// config.Listener.StandardHTTP. Our scanner and our stash are not in use: net/http
// alone decides where a request begins and ends. The connection still has its
// timeouts, and it keeps a copy of each head. framing.Limits.Lines checks that copy:
// it refuses requests that net/http accepts and other programs may read in another way.
//
// net/http also determines where the next head begins: after the head that it has parsed
// and the Content-Length in that head. The end of a chunked body is not known, so the
// answer to such a request is the last on its connection.
type standard struct {
	mu sync.Mutex // guards what follows, and conn.headBy
	// head holds the bytes of the next request that net/http has read. lines is the number of line ends in them.
	head  []byte
	lines int
	// running says that a handler runs. left is the number of bytes of its request's body that are not read yet.
	running bool
	left    int64
	// chunked says that the body is chunked and is not read to its end yet. last says that the
	// body is or was chunked, so that the connection ends after the answer.
	chunked, last bool
}

// phase is the purpose of the next read of the connection.
type phase uint8

const (
	readingHead phase = iota
	readingBody
	readingAhead // net/http waits for the client to go, while a handler runs
)

// phase returns the phase, and the deadline of a head, which is zero if there is none.
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
		// Before the handler runs, net/http begins to read one byte ahead. The head is whole then.
		if now == readingHead && len(p) > 1 {
			if refusal := c.overLimit(); refusal != nil {
				return 0, c.refuse(refusal)
			}
		}
		var n int
		var err error
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
				c.replaced = true // net/http would call the incomplete head malformed
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

// overLimit refuses a head that is not whole and has reached its limit, or finds no memory: net/http would read on.
func (c *conn) overLimit() *framing.Refusal {
	c.standard.mu.Lock()
	defer c.standard.mu.Unlock()
	refusal := c.server.limits.Unfinished(len(c.standard.head), c.standard.lines)
	if refusal == nil && !c.takeHead(standardHeadSize(c.standard.head)) {
		refusal = errManyHeads
	}
	c.replaced = refusal != nil
	return refusal
}

// copyHead counts the bytes of a body and copies the bytes of a head. It returns how many bytes
// of p net/http gets: all of them except line ends before a head.
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

// enterStandard is enter for a connection that net/http reads itself. It returns the refusal of
// the request, or nil if the handler gets the request.
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
	c.passHead(standardHeadSize(s.head))
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
	c.releaseHead()
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

// refuseStandard answers a request instead of the handler, and ends the connection.
func (c *conn) refuseStandard(r *framing.Refusal) {
	c.unsettled.Store(true)
	c.answer(r)
	c.hurry()
	panic(http.ErrAbortHandler)
}

// standardBody is a chunked body that net/http reads itself.
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

// isOfChunks reports whether err says that a chunked body is malformed. Errors of the
// connection are not among these.
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

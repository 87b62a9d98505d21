package listen

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/gatewright/gatewright/shared/base/framing"
)

// standard is the state of an HTTP/1.1 connection that net/http reads itself, with config.Listener.StandardHTTP.
// Our scanner and our buffer are not used: net/http alone decides where a request begins and ends. The connection
// still has its timeouts, and it keeps a copy of each head. framing.Limits.CheckHTTP1 checks that copy: it refuses
// requests that net/http accepts and other programs could interpret differently.
//
// net/http also determines where the next head begins: after the head that it has parsed and the Content-Length in
// that head. The end of a chunked body is not known, so the response to such a request is the last on its connection.
type standard struct {
	mu sync.Mutex // guards the fields below, and conn.headDeadline
	// head has the bytes of the next request that net/http has read. lines is the number of line ends in head.
	head  []byte
	lines int
	// running is set while a handler runs. bodyRemaining is the number of bytes of its request's body that are not read yet.
	running       bool
	bodyRemaining int64
	// chunked is set if the body is chunked and was not read to its end yet. closeAfter is set if the body is or was
	// chunked, so that the connection ends after the response.
	chunked, closeAfter bool
}

// phase is the purpose of the next read of the connection.
type phase uint8

const (
	readingHead phase = iota
	readingBody
	readingAhead // net/http waits for the client to disconnect while a handler runs
)

// phase returns the phase, and the deadline of a head, which is zero if there is none.
func (c *conn) phase() (phase, time.Time) {
	s := c.standard
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.running:
		return readingHead, c.headDeadline
	case s.chunked || s.bodyRemaining > 0:
		return readingBody, time.Time{}
	default:
		return readingAhead, time.Time{}
	}
}

// readStandard implements Read for a connection that net/http reads itself.
func (c *conn) readStandard(p []byte) (int, error) {
	if c.stage == inTunnel {
		return c.Conn.Read(p)
	}
	for {
		if c.readErr != nil {
			return 0, c.failRead()
		}
		current, deadline := c.phase()
		// Before the handler starts, net/http begins to read one byte ahead. At that time the head is complete.
		if current == readingHead && len(p) > 1 {
			if refusal := c.checkHeadLimit(); refusal != nil {
				return 0, c.refuse(refusal)
			}
		}
		var n int
		var err error
		stalled, unneeded := false, false
		if current == readingBody {
			n, stalled, unneeded, err = c.readBodyBytes(p)
		} else {
			n, err = c.read(p, deadline)
		}
		if n > 0 {
			if n = c.copyHead(p[:n]); n > 0 {
				return n, err
			}
			continue
		}
		// A handler has started during the read. The deadline that has passed was the deadline of the head.
		if next, _ := c.phase(); next != current && isTimeout(err) {
			continue
		}
		switch current {
		case readingBody:
			return 0, c.bodyReadError(err, stalled, unneeded)
		case readingHead:
			if isTimeout(err) && c.hasHead() {
				c.replaced = true // otherwise net/http would respond that the head is malformed
				return 0, c.refuse(errSlowHead)
			}
		case readingAhead:
		}
		c.noteReadError(err)
		return 0, err
	}
}

// hasHead reports whether net/http has read a part of the next head.
func (c *conn) hasHead() bool {
	c.standard.mu.Lock()
	defer c.standard.mu.Unlock()
	return len(c.standard.head) > 0
}

// checkHeadLimit returns the refusal of an incomplete head that has reached its limit or exceeds the budget, or nil.
// net/http has higher limits, and would read more of the head.
func (c *conn) checkHeadLimit() *framing.Refusal {
	c.standard.mu.Lock()
	defer c.standard.mu.Unlock()
	refusal := c.server.limits.CheckPartial(len(c.standard.head), c.standard.lines)
	if refusal == nil && !c.reserveHead(standardHeadSize(c.standard.head)) {
		refusal = errTooManyHeadBytes
	}
	c.replaced = refusal != nil
	return refusal
}

// copyHead counts the bytes of a body and copies the bytes of a head. It returns the
// number of bytes of p that net/http receives: all bytes except line ends before a head.
func (c *conn) copyHead(p []byte) int {
	s := c.standard
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(p)
	switch {
	case s.chunked:
		return n
	case s.running:
		bodyBytes := min(s.bodyRemaining, int64(n))
		s.bodyRemaining -= bodyBytes
		p = p[bodyBytes:]
	case len(s.head) == 0:
		skipped := 0
		for skipped < n && isLineEnd(p[skipped]) && c.skippedLineEnds < maxSkippedLineEnds {
			skipped++
			c.skippedLineEnds++
		}
		n = copy(p, p[skipped:])
		p = p[:n]
	}
	s.head = append(s.head, p...)
	s.lines += bytes.Count(p, []byte("\n"))
	if !s.running && len(s.head) > 0 && c.headDeadline.IsZero() {
		c.headDeadline = time.Now().Add(c.server.settings.HeaderTimeout)
	}
	c.mayBeSending.Store(len(s.head) > 0 || s.bodyRemaining > 0 || s.closeAfter)
	return n
}

// beginStandardRequest is called when net/http has read a request itself and calls serveHTTP. It checks the copy of
// the head. It returns the refusal of the request, or nil if the handler gets the request.
func (c *conn) beginStandardRequest(r *http.Request) *framing.Refusal {
	s := c.standard
	s.mu.Lock()
	defer s.mu.Unlock()
	head := bytes.TrimLeft(s.head, "\r\n")
	size, refusal := c.server.limits.CheckHTTP1(r, head)
	rest := head[size:]
	s.running, s.chunked, s.closeAfter = true, r.ContentLength < 0, r.ContentLength < 0
	if s.chunked {
		rest = nil
	}
	buffered := min(int64(len(rest)), max(0, r.ContentLength))
	s.bodyRemaining = max(0, r.ContentLength) - buffered
	s.head = append(s.head[:0], rest[buffered:]...)
	s.lines = bytes.Count(s.head, []byte("\n"))
	if len(s.head) == 0 && cap(s.head) > bufSize {
		s.head = nil
	}
	c.setBufferedHead(standardHeadSize(s.head))
	c.headDeadline, c.skippedLineEnds, c.handlerStarted = time.Time{}, 0, true
	c.mayBeSending.Store(s.chunked || s.bodyRemaining > 0 || len(s.head) > 0)
	c.mu.Lock()
	c.bodyUnneeded = false
	c.mu.Unlock()
	return refusal
}

// onIdleStandard is called after a response on a connection that net/http reads itself.
func (c *conn) onIdleStandard() {
	s := c.standard
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.readErr == nil && (s.closeAfter || s.bodyRemaining > 0) {
		c.readErr = errFraming
	}
	s.running, s.closeAfter, c.handlerStarted = false, false, false
	c.releaseHead()
	if len(s.head) > 0 {
		c.headDeadline = time.Now().Add(c.server.settings.HeaderTimeout)
	}
}

// closesAfterResponse reports whether the response to the request is the last on its connection because
// net/http reads the connection itself and the request had a chunked body.
func (c *conn) closesAfterResponse() bool {
	if c.standard == nil {
		return false
	}
	c.standard.mu.Lock()
	defer c.standard.mu.Unlock()
	return c.standard.closeAfter
}

// refuseStandard writes a refusal instead of a handler's response. It then panics
// with http.ErrAbortHandler, so that net/http ends the connection.
func (c *conn) refuseStandard(r *framing.Refusal) {
	c.mayBeSending.Store(true)
	c.writeRefusal(r)
	c.markBodyUnneeded()
	panic(http.ErrAbortHandler)
}

// standardBody is a chunked body that net/http decodes itself. It records when the body ends, or is malformed.
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
	case isChunkError(err):
		c.fail(framing.ErrChunks)
	}
	return n, err
}

// isChunkError reports whether err means that a chunked body is malformed, and not that the connection has failed.
func isChunkError(err error) bool {
	_, isNetError := errors.AsType[net.Error](err)
	return !isNetError && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, errStalled) &&
		!errors.Is(err, http.ErrBodyReadAfterClose)
}

// enterStandard starts a request that net/http has read itself, or refuses it.
func (s *Server) enterStandard(c *conn, r *http.Request) {
	if refusal := c.beginStandardRequest(r); refusal != nil {
		c.refuseStandard(refusal)
	}
	if r.ContentLength < 0 {
		r.Body = standardBody{r.Body, c}
	}
}

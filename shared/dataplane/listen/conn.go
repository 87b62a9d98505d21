package listen

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gatewright/gatewright/shared/base/framing"
)

// conn is a client's connection. For HTTP/1.1 without StandardHTTP, net/http receives a head from it only after the
// head is complete and was checked, and receives no byte of a request before the previous request has its response.
// So conn and net/http can't disagree about where a request begins. If net/http nevertheless mistakes other bytes for
// a request, enterHandler refuses that request.
//
// Read is called by one goroutine at a time, and net/http's own locks synchronize the fields that Read
// changes. ConnState hooks run between two reads. A handler can start while net/http already reads one byte
// ahead; that read changes no field that enterHandler uses.
type conn struct {
	net.Conn
	// wire is the connection below TLS, or Conn itself without it.
	wire net.Conn
	// state is the result of the TLS handshake, nil without TLS. It does not change after the handshake.
	state *tls.ConnectionState
	// http2 is the state for HTTP/2, nil for HTTP/1.1. Most of the fields below are for HTTP/1.1.
	http2  *http2State
	server *Server
	// fail ends the contexts of the connection's requests with a cause.
	fail context.CancelCauseFunc
	// limitAddr is the address to whose limit the connection counts. clientAddr is the client's address
	// according to a proxy, nil for the connection's own address. Neither changes after a request was read.
	limitAddr  netip.Addr
	clientAddr net.Addr
	// head is the connection's part of the budget of large heads.
	head headBytes

	// standard is the state of a connection that net/http reads itself (StandardHTTP), nil for any other connection.
	// The pointer never changes.
	standard *standard

	stage stage
	scan  framing.Scanner
	body  framing.Body
	// buf has received bytes, nil for none. Read has returned buf[:returned],
	// and can return buf[returned:available]. The next head begins at nextHead.
	buf                           []byte
	returned, available, nextHead int
	skippedLineEnds               int       // line ends before a head that were skipped
	parkAt                        time.Time // when the connection is parked, if no byte arrives before
	headDeadline                  time.Time // deadline of the head, zero before it begins
	responding                    bool      // a request was returned and has no complete response yet
	readErr                       error     // the error of every further read
	// handlerStarted is set when a handler starts, until the next
	// request. Bytes that are written before are net/http's own response.
	handlerStarted bool
	replaced       bool    // our refusal has replaced a response of net/http
	oneByte        [1]byte // the buffer of waitForByte

	// mayBeSending is set if the client may still be sending, disconnected if no more bytes will arrive, and
	// notReading if a write has ended because the client does not read. parking is set if net/http's next Close parks
	// the connection. closed is set by the first Close or closeFlooding, and finished when the connection releases
	// what it holds.
	mayBeSending, disconnected, notReading, parking, closed, finished atomic.Bool
	// finalWrite is set while the last bytes of the connection are written, which must not block for long.
	finalWrite atomic.Bool
	// idleSince is responseInFlight while a response is written that does not end the connection. If such a response
	// has ended after AnnounceShutdown, idleSince is the time of its end, in nanoseconds since 1970. Otherwise it is
	// 0.
	idleSince atomic.Int64

	mu                     sync.Mutex    // guards the fields below
	requestedDeadline      time.Time     // the read deadline that net/http or a handler has set
	ownDeadline            time.Time     // our own deadline
	appliedDeadline        time.Time     // the read deadline that Conn has now
	pauseTimer             *time.Timer   // runs during a pause, nil before the first pause
	deadlineSet            chan struct{} // receives a value when a deadline is set during a pause
	paused                 bool          // set during a pause (delayReadAhead)
	reading                bool          // set during a read
	readsBody              bool          // the read is for the body
	bodyStalled            bool          // the body must end as if it stalled
	bodyUnneeded           bool          // the rest of the body is not needed (markBodyUnneeded)
	tunneled               bool          // a handler has taken over the connection
	writeDeadline          time.Time     // the current write deadline
	requestedWriteDeadline time.Time     // set by net/http or a handler
}

// stage says which kind of bytes is read next.
type stage uint8

const (
	inHead stage = iota
	inBody
	inTunnel // after an upgrade: bytes of another protocol
)

var (
	// errStalled is the cause that ends the context of a request whose body stalls. It wraps os.ErrDeadlineExceeded.
	errStalled = fmt.Errorf("listen: the request's body stalled: %w", os.ErrDeadlineExceeded)
	errRefused = errors.New("listen: the request is refused")
	errFraming = errors.New("listen: the server and the framing disagree on where the request ends")
)

// gracePeriod is how long net/http, before it ends a response, waits for the next bytes of a
// body that is not needed. If the rest of the body arrives in time, the connection can be reused.
const gracePeriod = 5 * time.Millisecond

func (s *Server) newConn(c net.Conn, from netip.Addr) *conn {
	out := &conn{Conn: c, wire: c, server: s, limitAddr: from, headDeadline: time.Now().Add(s.settings.HeaderTimeout)}
	out.scan.Limits = s.limits
	if s.settings.StandardHTTP {
		out.standard = &standard{}
	}
	return out
}

// Read implements net.Conn.
func (c *conn) Read(p []byte) (int, error) {
	if c.standard != nil {
		return c.readStandard(p)
	}
	for len(p) > 0 {
		switch {
		case c.returned < c.available:
			return c.copyAvailable(p), nil
		case c.readErr != nil:
			return 0, c.failRead()
		case c.stage == inTunnel:
			if c.buf == nil {
				return c.Conn.Read(p)
			}
			c.available, c.nextHead = len(c.buf), len(c.buf)
		case c.stage == inBody:
			return c.readBody(p)
		case c.responding:
			return c.readAhead(p)
		default:
			n, err := c.readHead(p)
			if n > 0 || err != nil {
				return n, err
			}
		}
	}
	return 0, nil
}

// copyAvailable copies available bytes to p. After it has copied all of them, it removes the bytes before the next head from buf.
func (c *conn) copyAvailable(p []byte) int {
	n := copy(p, c.buf[c.returned:c.available])
	c.returned += n
	if c.returned < c.available {
		return n
	}
	rest := c.buf[c.nextHead:]
	if len(rest) == 0 {
		c.releaseBuf()
		return n
	}
	c.buf = c.buf[:copy(c.buf, rest)]
	c.returned, c.available, c.nextHead = 0, 0, 0
	c.mayBeSending.Store(true)
	return n
}

// readHead reads a head. A common request arrives in one piece and is read into p directly: readHead then returns its
// number of bytes. If it returns 0 and no error, the head is available in buf, or only a part of it has arrived,
// which is in buf; then Read calls readHead again.
func (c *conn) readHead(p []byte) (int, error) {
	c.skipLineEnds()
	if c.buf == nil && len(p) >= bufSize {
		parkAt := c.nextParkTime(time.Now())
		n, err := c.read(p, parkAt)
		if n == 0 {
			if isTimeout(err) && c.tryPark(parkAt) {
				err = errParked
			}
			return 0, c.headReadError(err)
		}
		return c.scanHead(p, n)
	}
	for {
		if len(c.buf) > 0 {
			h, done, refusal := c.scan.Scan(c.buf)
			if refusal != nil {
				return 0, c.refuse(refusal)
			}
			if done {
				c.beginRequest(h)
				m, err := c.body.Consume(c.buf[h.Size:])
				c.available = h.Size + m
				c.nextHead = c.available
				c.updateStage(err)
				return 0, nil
			}
		}
		if err := c.readMoreHead(); err != nil {
			return 0, err
		}
	}
}

// readMoreHead reads a part of a head into buf.
func (c *conn) readMoreHead() error {
	if c.headDeadline.IsZero() {
		c.headDeadline = time.Now().Add(c.server.settings.HeaderTimeout)
	}
	hadBytes := c.buf != nil
	if len(c.buf) == cap(c.buf) {
		if err := c.growHead(); err != nil {
			return err
		}
	}
	n, err := c.read(c.buf[len(c.buf):cap(c.buf)], c.headDeadline)
	c.buf = c.buf[:len(c.buf)+n]
	if !hadBytes && n == 0 {
		c.releaseBuf()
	}
	if n == 0 {
		return c.headReadError(err)
	}
	c.mayBeSending.Store(true)
	c.skipLineEnds()
	return nil
}

// scanHead checks the n bytes that were read into p. It returns the
// number of bytes that Read returns: 0 if the head is not complete.
func (c *conn) scanHead(p []byte, n int) (int, error) {
	b := p[:n]
	for len(b) > 0 && isLineEnd(b[0]) && c.skippedLineEnds < maxSkippedLineEnds {
		b = b[1:]
		c.skippedLineEnds++
	}
	if len(b) == 0 {
		return 0, nil
	}
	h, done, refusal := c.scan.Scan(b)
	if refusal != nil {
		return 0, c.refuse(refusal)
	}
	if !done {
		c.bufferBytes(b)
		return 0, nil
	}
	c.beginRequest(h)
	m, err := c.body.Consume(b[h.Size:])
	total := h.Size + m
	c.updateStage(err)
	if err == nil && total < len(b) {
		c.bufferBytes(b[total:])
	}
	return copy(p, b[:total]), nil
}

// skipLineEnds skips line ends before a head, which old clients send after a body (RFC 9112, section 2.2).
func (c *conn) skipLineEnds() {
	n := 0
	for n < len(c.buf) && isLineEnd(c.buf[n]) && c.skippedLineEnds < maxSkippedLineEnds {
		n++
		c.skippedLineEnds++
	}
	if n == len(c.buf) {
		c.releaseBuf()
	} else if n > 0 {
		c.buf = c.buf[:copy(c.buf, c.buf[n:])]
	}
}

const maxSkippedLineEnds = 4

func isLineEnd(b byte) bool { return b == '\r' || b == '\n' }

// headReadError returns the error of a read that returned nothing. It refuses a head
// that has begun and takes too long. A connection without any bytes ends silently.
func (c *conn) headReadError(err error) error {
	if c.buf != nil && isTimeout(err) {
		return c.refuse(errSlowHead)
	}
	c.noteReadError(err)
	return err
}

// beginRequest prepares the connection for the body of a request whose head is complete.
func (c *conn) beginRequest(h framing.Head) {
	c.body, c.stage, c.responding = h.Body, inBody, true
	c.headDeadline, c.skippedLineEnds = time.Time{}, 0
	c.scan = framing.Scanner{Limits: c.scan.Limits}
	c.mu.Lock()
	c.bodyUnneeded, c.bodyStalled = false, false
	c.mu.Unlock()
}

// updateStage updates the state after body.Consume, which has returned err.
func (c *conn) updateStage(err error) {
	if err != nil {
		c.readErr = err
	} else if c.body.Done() {
		c.stage = inHead
	}
	if sending := c.stage == inBody; c.mayBeSending.Load() != sending {
		c.mayBeSending.Store(sending)
	}
}

// readBody reads a part of the body. If it also reads bytes that follow the body, it keeps them in buf.
func (c *conn) readBody(p []byte) (int, error) {
	n, stalled, unneeded, err := c.readBodyBytes(p)
	if n == 0 {
		return 0, c.bodyReadError(err, stalled, unneeded)
	}
	m, bodyErr := c.body.Consume(p[:n])
	c.updateStage(bodyErr)
	if bodyErr == nil && m < n {
		c.bufferBytes(p[m:n])
	}
	if m == 0 {
		return 0, c.failRead()
	}
	return m, nil
}

// bodyReadError returns the error of a read that returned no byte of a body.
func (c *conn) bodyReadError(err error, stalled, unneeded bool) error {
	switch {
	case !isTimeout(err):
		c.noteReadError(err)
		c.readErr = err
	case unneeded:
		c.readErr = err
	case stalled:
		c.readErr = errStalled
		return c.failRead()
	}
	return err
}

// failRead returns the error of all further reads. net/http ends the request with it.
// If the body is at fault, the error also becomes the cause of the request's context.
func (c *conn) failRead() error {
	if errors.Is(c.readErr, framing.ErrChunks) || errors.Is(c.readErr, errStalled) {
		c.fail(c.readErr)
	}
	return c.readErr
}

// readAhead serves the read of one byte that net/http uses during a response to detect that
// the client has disconnected. It returns no byte and no error, which ends net/http's read,
// and keeps the byte in buf. Only after the response is it known whether the byte begins a
// head, or belongs to another protocol after an upgrade. Then it must not be lost.
func (c *conn) readAhead(p []byte) (int, error) {
	if len(p) > 1 {
		c.readErr = errFraming // net/http reads a body beyond the end that we have found
		return 0, c.readErr
	}
	if c.buf == nil {
		if err := c.delayReadAhead(); err != nil {
			return 0, err
		}
		n, err := c.read(p, time.Time{})
		if n == 0 {
			c.noteReadError(err)
			return 0, err
		}
		c.bufferBytes(p[:1])
	}
	return 0, nil
}

// noteReadError records that no more bytes will arrive, unless err is a timeout or parks the connection.
func (c *conn) noteReadError(err error) {
	if err != nil && !isTimeout(err) && !errors.Is(err, errParked) {
		c.disconnected.Store(true)
	}
}

func isTimeout(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }

// enterHandler is called when a handler begins. It returns false if net/http has mistaken other
// bytes for a request. Then the handler must not run.
func (c *conn) enterHandler() bool {
	if !c.responding || c.handlerStarted || c.stage == inTunnel {
		return false
	}
	c.handlerStarted = true
	return true
}

// onIdle is called after a response, when net/http waits for the next request.
func (c *conn) onIdle() {
	if c.standard != nil {
		c.onIdleStandard()
		return
	}
	if c.readErr == nil && (c.stage != inHead || c.returned < c.available) {
		c.readErr = errFraming // net/http would read the rest of the body as a request
	}
	if c.readErr != nil {
		c.available = c.returned
	}
	c.releaseHead()
	c.responding, c.handlerStarted = false, false
}

// onHijacked is called after a handler has taken over the connection, for example for an upgrade to another protocol.
func (c *conn) onHijacked() {
	c.stage = inTunnel
	c.releaseHead()
	c.mayBeSending.Store(false)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tunneled = true
	_ = c.applyReadDeadline()
}

// refuse writes a refusal instead of a handler's response. Its error makes net/http close the connection. Earlier
// responses were written before.
func (c *conn) refuse(r *framing.Refusal) error {
	c.mayBeSending.Store(true)
	c.writeRefusal(r)
	c.readErr = &net.OpError{Op: "read", Net: "tcp", Err: errRefused} // net/http writes nothing after this error
	return c.readErr
}

// writeRefusal writes a problem as a complete response.
func (c *conn) writeRefusal(r *framing.Refusal) {
	c.finalWrite.Store(true)
	_ = c.Conn.SetWriteDeadline(time.Now().Add(refusalTimeout))
	_, _ = c.Conn.Write(c.server.refusals.response(r, c.RemoteAddr()))
}

// refusalTimeout limits the time until the kernel accepts the bytes of a refusal.
const refusalTimeout = time.Second

// CloseWrite ends our side of the connection.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// lingerTimeout is how long a client that is still sending has to read a response. A connection that
// is closed with unread bytes is reset, and its response may be lost (RFC 9112, section 9.6).
const lingerTimeout = 5 * time.Second

// Close implements net.Conn. After tryPark, it parks the connection instead. It does not wait for the client, except
// over TLS: there it waits for at most refusalTimeout until the close_notify alert is written.
func (c *conn) Close() error {
	if c.parking.Swap(false) {
		c.park()
		return nil
	}
	if c.closed.Swap(true) {
		return net.ErrClosed
	}
	if c.notReading.Load() {
		// Discard the bytes in the kernel's buffers, because the client reads nothing.
		if tcp, ok := c.wire.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
	} else if c.mayBeSending.Load() && !c.disconnected.Load() {
		go c.linger()
		return nil
	}
	return c.closeOnce()
}

// linger closes the connection of a client that is still sending, after the client can have read the response.
func (c *conn) linger() {
	c.finalWrite.Store(true)
	drain(c.Conn)
	_ = c.closeOnce()
}

// closeOnce closes the connection and releases what it holds. Only its first call has an effect.
func (c *conn) closeOnce() error {
	if c.finished.Swap(true) {
		return net.ErrClosed
	}
	defer c.release()
	return c.closeGracefully()
}

// drain ends our side of the connection, and reads until the client has ended its side or lingerTimeout has passed.
func drain(c net.Conn) {
	half, ok := c.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	_ = c.SetReadDeadline(time.Now().Add(lingerTimeout))
	_, _ = io.Copy(io.Discard, c)
}

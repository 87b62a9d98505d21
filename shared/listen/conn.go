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

	"github.com/gatewright/gatewright/shared/listen/framing"
)

// conn is a client's connection. net/http reads from it whole heads that were
// looked at, and never a byte of a request before the one before is answered: so
// the two can't disagree on where a request begins. Where net/http takes for a
// request what is none, enter refuses it.
//
// Read is called by one goroutine at a time, and what it changes is handed on by
// net/http's own locks; ConnState's hooks and handlers begin between two reads.
type conn struct {
	net.Conn
	// wire is the connection below TLS, or Conn itself without it.
	wire net.Conn
	// state is of the handshake, nil without TLS. It never changes.
	state *tls.ConnectionState
	// http2 is what it has by HTTP/2, nil for HTTP/1.1, for which most of what follows is.
	http2  *multiplexed
	server *Server
	// fail ends the contexts of the connection's requests with a cause.
	fail context.CancelCauseFunc
	// from is the address that it counts for, client the one that a proxy says it comes
	// from, nil for the connection's own. They do not change once a request is read.
	from   netip.Addr
	client net.Addr
	// head is what it holds of the budget of large heads.
	head headBytes

	// standard is the state of a connection that net/http reads itself, nil for any other connection. The pointer never changes.
	standard *standard

	stage stage
	scan  framing.Scanner
	body  framing.Body
	// stash holds what was received and not given on yet, nil for nothing. Up to
	// given it was given, up to pass it may be, and at next the next head begins.
	stash             []byte
	given, pass, next int
	blanks            int       // line ends before a head that were left out
	restBy            time.Time // when it goes to rest, if nothing comes
	headBy            time.Time // when the head has to be whole, zero before it begins
	answering         bool      // a request was given on and is not answered yet
	ended             error     // what every further read answers
	// entered says that a handler runs or ran for the request: what is written
	// then is its answer.
	entered bool
	// replaced says that a refusal of net/http was answered by one of ours.
	replaced bool

	one [1]byte

	// unsettled says that the client may be sending still, gone that it will not,
	// stuck that it takes nothing, resting that net/http lets go of it.
	unsettled, gone, stuck, resting, closed, finished atomic.Bool
	// last says that what is written now is the last on the connection: it has no time
	// to wait for.
	last atomic.Bool
	// untold is underWay while an answer is written that does not say that it is the last, the time
	// since when the connection is idle if that ended after Leave, in nanoseconds since 1970, or 0.
	untold atomic.Int64

	mu         sync.Mutex // guards what follows
	wanted     time.Time  // the deadline for reads that net/http or a handler set
	own        time.Time  // ours
	applied    time.Time
	patience   *time.Timer   // while it pauses, nil before the first pause
	told       chan struct{} // has one when a deadline is set meanwhile
	pausing    bool
	blocked    bool // in a read
	ofBody     bool // which is one of the body
	stalls     bool // the body has to end like one that stalls
	hurrying   bool
	tunnelled  bool
	writeBy    time.Time // the deadline for writes that is set
	writeAsked time.Time // by net/http or a handler
}

// stage is what is read next.
type stage uint8

const (
	inHead stage = iota
	inBody
	inTunnel // after an upgrade: bytes of another protocol
)

var (
	// errStalled ends the contexts of a request whose body stalls. It is an
	// os.ErrDeadlineExceeded.
	errStalled = fmt.Errorf("listen: the request's body stalled: %w", os.ErrDeadlineExceeded)
	errRefused = errors.New("listen: the request is refused")
	errFraming = errors.New("listen: the server and the framing disagree on where the request ends")
)

// grace is how long an answer waits for the rest of a body that nobody has asked
// for, when that may be here already: a connection that is used again is worth
// that much.
const grace = 5 * time.Millisecond

func (s *Server) newConn(c net.Conn, from netip.Addr) *conn {
	out := &conn{Conn: c, wire: c, server: s, from: from, headBy: time.Now().Add(s.settings.HeaderTimeout)}
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
		case c.given < c.pass:
			return c.give(p), nil
		case c.ended != nil:
			return 0, c.end()
		case c.stage == inTunnel:
			if c.stash == nil {
				return c.Conn.Read(p)
			}
			c.pass, c.next = len(c.stash), len(c.stash)
		case c.stage == inBody:
			return c.readBody(p)
		case c.answering:
			return c.readEarly(p)
		default:
			n, err := c.readHead(p)
			if n > 0 || err != nil {
				return n, err
			}
		}
	}
	return 0, nil
}

// give hands out what may be, and forgets it when the next head follows.
func (c *conn) give(p []byte) int {
	n := copy(p, c.stash[c.given:c.pass])
	c.given += n
	if c.given < c.pass {
		return n
	}
	rest := c.stash[c.next:]
	if len(rest) == 0 {
		c.forget()
		return n
	}
	c.stash = c.stash[:copy(c.stash, rest)]
	c.given, c.pass, c.next = 0, 0, 0
	c.unsettled.Store(true)
	return n
}

// readHead reads until a head is whole, and gives on what of its message came with
// it. The common request comes in one piece and is read into p itself.
func (c *conn) readHead(p []byte) (int, error) {
	c.leaveBlanks()
	if c.stash == nil && len(p) >= stashSize {
		by := c.mayRest(time.Now())
		n, err := c.read(p, by)
		if n == 0 {
			if isTimeout(err) && c.rest(by) {
				err = errResting
			}
			return 0, c.headFailed(err)
		}
		return c.take(p, n)
	}
	for {
		if len(c.stash) > 0 {
			h, done, refusal := c.scan.Scan(c.stash)
			if refusal != nil {
				return 0, c.refuse(refusal)
			}
			if done {
				c.begin(h)
				m, err := c.body.Take(c.stash[h.Size:])
				c.pass = h.Size + m
				c.next = c.pass
				c.settle(err)
				return 0, nil
			}
		}
		if err := c.more(); err != nil {
			return 0, err
		}
	}
}

// more reads into the stash, as a part of a head.
func (c *conn) more() error {
	if c.headBy.IsZero() {
		c.headBy = time.Now().Add(c.server.settings.HeaderTimeout)
	}
	begun := c.stash != nil
	if len(c.stash) == cap(c.stash) {
		if err := c.growHead(); err != nil {
			return err
		}
	}
	n, err := c.read(c.stash[len(c.stash):cap(c.stash)], c.headBy)
	c.stash = c.stash[:len(c.stash)+n]
	if !begun && n == 0 {
		c.forget()
	}
	if n == 0 {
		return c.headFailed(err)
	}
	c.unsettled.Store(true)
	c.leaveBlanks()
	return nil
}

// take looks at what was read into p, and answers how much of it to give on: 0 if
// the head is not whole.
func (c *conn) take(p []byte, n int) (int, error) {
	b := p[:n]
	for len(b) > 0 && isBlank(b[0]) && c.blanks < maxBlanks {
		b = b[1:]
		c.blanks++
	}
	if len(b) == 0 {
		return 0, nil
	}
	h, done, refusal := c.scan.Scan(b)
	if refusal != nil {
		return 0, c.refuse(refusal)
	}
	if !done {
		c.keep(b)
		return 0, nil
	}
	c.begin(h)
	m, err := c.body.Take(b[h.Size:])
	whole := h.Size + m
	c.settle(err)
	if err == nil && whole < len(b) {
		c.keep(b[whole:])
	}
	return copy(p, b[:whole]), nil
}

// leaveBlanks leaves out line ends before a head, as old clients send them after a
// body (RFC 9112, section 2.2).
func (c *conn) leaveBlanks() {
	n := 0
	for n < len(c.stash) && isBlank(c.stash[n]) && c.blanks < maxBlanks {
		n++
		c.blanks++
	}
	if n == len(c.stash) {
		c.forget()
	} else if n > 0 {
		c.stash = c.stash[:copy(c.stash, c.stash[n:])]
	}
}

const maxBlanks = 4

func isBlank(b byte) bool { return b == '\r' || b == '\n' }

// headFailed answers a read that brought nothing. A head that has begun and takes
// too long is refused; a connection on which nothing comes ends silently.
func (c *conn) headFailed(err error) error {
	if c.stash != nil && isTimeout(err) {
		return c.refuse(errSlowHead)
	}
	c.note(err)
	return err
}

// begin is where a request begins: its head is whole.
func (c *conn) begin(h framing.Head) {
	c.body, c.stage, c.answering = h.Body, inBody, true
	c.headBy, c.blanks = time.Time{}, 0
	c.scan = framing.Scanner{Limits: c.scan.Limits}
	c.mu.Lock()
	c.hurrying, c.stalls = false, false
	c.mu.Unlock()
}

// settle notes how far the body has come after the tracker has seen more of it.
func (c *conn) settle(err error) {
	if err != nil {
		c.ended = err
	} else if c.body.Done() {
		c.stage = inHead
	}
	if unsettled := c.stage == inBody; c.unsettled.Load() != unsettled {
		c.unsettled.Store(unsettled)
	}
}

// readBody reads what belongs to the message and keeps what follows it.
func (c *conn) readBody(p []byte) (int, error) {
	n, stalled, hurried, err := c.readOfBody(p)
	if n == 0 {
		return 0, c.bodyFailed(err, stalled, hurried)
	}
	m, bad := c.body.Take(p[:n])
	c.settle(bad)
	if bad == nil && m < n {
		c.keep(p[m:n])
	}
	if m == 0 {
		return 0, c.end()
	}
	return m, nil
}

// bodyFailed returns the error of a read that returned no byte of a body.
func (c *conn) bodyFailed(err error, stalled, hurried bool) error {
	switch {
	case !isTimeout(err):
		c.note(err)
		c.ended = err
	case hurried:
		c.ended = err
	case stalled:
		c.ended = errStalled
		return c.end()
	}
	return err
}

// end answers what every further read answers. net/http ends the request with it,
// for which the faults of the body are to be the cause.
func (c *conn) end() error {
	if errors.Is(c.ended, framing.ErrChunks) || errors.Is(c.ended, errStalled) {
		c.fail(c.ended)
	}
	return c.ended
}

// readEarly answers net/http's read of one byte while a request is answered, by
// which it learns that the client has gone. It gets none of what comes, which ends
// its read without an error: whether that begins a head or, after an upgrade, is
// another protocol's, where no byte may be left out, is known later.
func (c *conn) readEarly(p []byte) (int, error) {
	if len(p) > 1 {
		c.ended = errFraming // it looks for a body beyond what we take for its end
		return 0, c.ended
	}
	if c.stash == nil {
		if err := c.pause(); err != nil {
			return 0, err
		}
		n, err := c.read(p, time.Time{})
		if n == 0 {
			c.note(err)
			return 0, err
		}
		c.keep(p[:1])
	}
	return 0, nil
}

// note remembers that nothing more will come.
func (c *conn) note(err error) {
	if err != nil && !isTimeout(err) && !errors.Is(err, errResting) {
		c.gone.Store(true)
	}
}

func isTimeout(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }

// enter is called as a handler begins. It refuses what net/http has taken for a
// request, and what is none.
func (c *conn) enter() bool {
	if !c.answering || c.entered || c.stage == inTunnel {
		return false
	}
	c.entered = true
	return true
}

// idle is called when a request is answered and net/http turns to the next.
func (c *conn) idle() {
	if c.standard != nil {
		c.idleStandard()
		return
	}
	if c.ended == nil && (c.stage != inHead || c.given < c.pass) {
		c.ended = errFraming // a part of the body is left, which would be read as a request
	}
	if c.ended != nil {
		c.pass = c.given
	}
	c.releaseHead()
	c.answering, c.entered = false, false
}

// tunnel is called when a handler has taken the connection.
func (c *conn) tunnel() {
	c.stage = inTunnel
	c.releaseHead()
	c.unsettled.Store(false)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tunnelled = true
	_ = c.apply()
}

// refuse answers instead of a handler, and ends the connection. Whatever was
// answered before is on its way already.
func (c *conn) refuse(r *framing.Refusal) error {
	c.unsettled.Store(true)
	c.answer(r)
	c.ended = &net.OpError{Op: "read", Net: "tcp", Err: errRefused} // on which net/http says nothing
	return c.ended
}

// answer writes a problem, as a whole response.
func (c *conn) answer(r *framing.Refusal) {
	c.last.Store(true)
	_ = c.Conn.SetWriteDeadline(time.Now().Add(refusalTimeout))
	_, _ = c.Conn.Write(c.server.refusals.answer(r, c.RemoteAddr()))
}

// refusalTimeout is how long a refusal may take to be taken by the kernel.
const refusalTimeout = time.Second

// CloseWrite ends our side of the connection.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// lingering is how long a client that is sending still may take to read an answer:
// a connection that is closed with bytes unread is reset, and what was answered on
// it may be lost (RFC 9112, section 9.6).
const lingering = 5 * time.Second

// Close implements net.Conn. It does not wait.
func (c *conn) Close() error {
	if c.resting.Swap(false) {
		c.sleep()
		return nil
	}
	if c.closed.Swap(true) {
		return net.ErrClosed
	}
	if c.stuck.Load() {
		// Who takes nothing is not owed what is in the kernel's buffers.
		if tcp, ok := c.wire.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
	} else if c.unsettled.Load() && !c.gone.Load() {
		go c.linger()
		return nil
	}
	return c.finish()
}

func (c *conn) linger() {
	c.last.Store(true)
	drain(c.Conn)
	_ = c.finish()
}

// finish closes the connection, once.
func (c *conn) finish() error {
	if c.finished.Swap(true) {
		return net.ErrClosed
	}
	defer c.giveBack()
	return c.part()
}

// drain ends our side and reads until the client has ended its own, for a while.
func drain(c net.Conn) {
	half, ok := c.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	_ = c.SetReadDeadline(time.Now().Add(lingering))
	_, _ = io.Copy(io.Discard, c)
}

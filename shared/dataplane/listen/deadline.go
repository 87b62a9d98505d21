package listen

import (
	"os"
	"time"

	"github.com/gatewright/gatewright/shared/base/framing"
)

// read reads from the connection. It returns a timeout error at the deadline, or at an earlier deadline that net/http
// has set. The zero deadline means none.
func (c *conn) read(p []byte, deadline time.Time) (int, error) {
	c.mu.Lock()
	c.ownDeadline, c.reading = deadline, true
	_ = c.applyReadDeadline()
	c.mu.Unlock()
	n, err := c.Conn.Read(p)
	c.mu.Lock()
	c.ownDeadline, c.reading = time.Time{}, false
	c.mu.Unlock()
	return n, err
}

// readBodyBytes reads bytes of the body. stalled reports that no byte has arrived in time. unneeded
// reports that the body is not needed any more: then readBodyBytes waits at most for gracePeriod.
func (c *conn) readBodyBytes(p []byte) (n int, stalled, unneeded bool, err error) {
	c.mu.Lock()
	deadline := time.Now().Add(c.server.settings.BodyTimeout)
	c.ownDeadline, c.reading, c.readsBody = deadline, true, true
	switch {
	case c.bodyStalled:
		c.ownDeadline = aLongTimeAgo
	case c.bodyUnneeded:
		c.ownDeadline = time.Now().Add(gracePeriod)
	}
	_ = c.applyReadDeadline()
	c.mu.Unlock()
	n, err = c.Conn.Read(p)
	c.mu.Lock()
	c.ownDeadline, c.reading, c.readsBody = time.Time{}, false, false
	unneeded = c.bodyUnneeded
	c.mu.Unlock()
	stalled = n == 0 && !unneeded && isTimeout(err) && (c.bodyStalled || !time.Now().Before(deadline))
	return n, stalled, unneeded, err
}

// stallBody ends the request's body as if it had stalled. A pending read ends immediately.
func (c *conn) stallBody() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bodyStalled = true
	if c.readsBody {
		c.ownDeadline = aLongTimeAgo
		_ = c.applyReadDeadline()
	}
}

// markBodyUnneeded marks that the request's body is not needed any more. Then a
// pending read, and each later read of the body, waits at most for gracePeriod.
func (c *conn) markBodyUnneeded() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tunneled || c.bodyUnneeded {
		return
	}
	c.bodyUnneeded = true
	if c.readsBody {
		c.ownDeadline = time.Now().Add(gracePeriod)
		_ = c.applyReadDeadline()
	}
}

// applyReadDeadline sets the connection's read deadline to the earlier one of requestedDeadline and ownDeadline, if
// it differs from the current deadline. It is called before and during a read, because net/http sets most of its
// deadlines for reads that never happen. The caller holds mu.
func (c *conn) applyReadDeadline() error {
	deadline := c.requestedDeadline
	if deadline.IsZero() || !c.ownDeadline.IsZero() && c.ownDeadline.Before(deadline) {
		deadline = c.ownDeadline
	}
	if deadline.Equal(c.appliedDeadline) {
		return nil
	}
	c.appliedDeadline = deadline
	return c.Conn.SetReadDeadline(deadline)
}

// readAheadDelay is how long net/http's read of one byte waits before it reads from the
// system. Most responses are complete within this time, and then neither a read nor changes
// of the deadline are needed. So a client's disconnect is detected this much later.
const readAheadDelay = 20 * time.Millisecond

// delayReadAhead waits for readAheadDelay, or until a deadline is set. If that deadline has
// passed, which is how net/http ends its read, delayReadAhead returns os.ErrDeadlineExceeded.
func (c *conn) delayReadAhead() error {
	c.mu.Lock()
	if c.deadlinePassed() {
		c.mu.Unlock()
		return os.ErrDeadlineExceeded
	}
	if c.pauseTimer == nil {
		c.pauseTimer, c.deadlineSet = time.NewTimer(readAheadDelay), make(chan struct{}, 1)
	} else {
		c.pauseTimer.Reset(readAheadDelay)
	}
	c.paused = true
	c.mu.Unlock()
	select {
	case <-c.deadlineSet:
		c.pauseTimer.Stop()
	case <-c.pauseTimer.C:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.paused = false
	select {
	case <-c.deadlineSet:
	default:
	}
	if c.deadlinePassed() {
		return os.ErrDeadlineExceeded
	}
	return nil
}

// deadlinePassed reports whether the read deadline that net/http or a handler has set has passed. The caller holds mu.
func (c *conn) deadlinePassed() bool {
	return !c.requestedDeadline.IsZero() && !time.Now().Before(c.requestedDeadline)
}

// SetReadDeadline implements net.Conn.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requestedDeadline = t
	if c.paused {
		select {
		case c.deadlineSet <- struct{}{}:
		default:
		}
	}
	if !c.reading && !c.tunneled {
		return nil
	}
	return c.applyReadDeadline()
}

// SetWriteDeadline implements net.Conn. The zero value removes the caller's deadline and restores our own.
func (c *conn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.requestedWriteDeadline = t; t.IsZero() {
		return nil
	}
	c.writeDeadline = t
	return c.Conn.SetWriteDeadline(t)
}

// SetDeadline implements net.Conn.
func (c *conn) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}

// writeChecks is the number of checks in each SendTimeout. A check finds out whether the client has read anything
// since the last check, but not when. So the connection of a client that has stopped reading may be closed late: by
// up to one check interval, or by two if the system's buffer still accepted bytes.
const writeChecks = 10

// extendWriteDeadline sets the deadline of a write to the time of the next check, or to end if that is earlier. It
// does nothing if net/http or a handler has set a write deadline. It changes the deadline only if less than half of
// the interval remains, so most writes need no new deadline.
func (c *conn) extendWriteDeadline(now, end time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	interval := c.server.settings.SendTimeout / writeChecks
	if !c.requestedWriteDeadline.IsZero() || c.writeDeadline.Sub(now) >= interval/2 {
		return nil
	}
	if c.writeDeadline = now.Add(interval); end.Before(c.writeDeadline) {
		c.writeDeadline = end
	}
	return c.Conn.SetWriteDeadline(c.writeDeadline)
}

// Write implements net.Conn. It continues as long as the client reads some bytes in each SendTimeout. Bytes
// that are written before a handler starts are net/http's own refusal, which is replaced with a problem.
func (c *conn) Write(p []byte) (int, error) {
	if !c.handlerStarted {
		return c.replaceRefusal(p)
	}
	if c.Conn != c.wire {
		return c.Conn.Write(p) // c.Conn calls write
	}
	return c.write(p)
}

// write writes to the connection below TLS.
func (c *conn) write(p []byte) (int, error) {
	written, now := 0, time.Now()
	end := now.Add(c.server.settings.SendTimeout)
	for {
		if err := c.extendWriteDeadline(now, end); err != nil {
			return written, err
		}
		n, err := c.wire.Write(p[written:])
		written += n
		if err == nil {
			return written, nil
		}
		if !isTimeout(err) {
			c.disconnected.Store(true)
			return written, err
		}
		if now = time.Now(); n > 0 {
			end = now.Add(c.server.settings.SendTimeout)
		}
		if !now.Before(end) || c.hasWriteDeadline() {
			c.notReading.Store(true)
			return written, err
		}
	}
}

// hasWriteDeadline reports whether net/http or a handler has set a write deadline.
func (c *conn) hasWriteDeadline() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.requestedWriteDeadline.IsZero()
}

// replaceRefusal writes a problem with the status of net/http's own response. net/http can also mistake a part of a
// body for a request and refuse it. replaceRefusal then writes nothing.
func (c *conn) replaceRefusal(p []byte) (int, error) {
	switch {
	case c.replaced:
	case c.standard != nil:
		if c.hasHead() && !c.disconnected.Load() {
			c.replaced = true
			_ = c.refuse(framing.FromNetHTTP(refusalFromResponse(p))) // after this, net/http reads no body
		}
	case c.responding:
		c.replaced = true
		c.mayBeSending.Store(true)
		c.writeRefusal(refusalFromResponse(p))
	}
	return len(p), nil
}

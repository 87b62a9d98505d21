package listen

import (
	"os"
	"time"

	"github.com/gatewright/gatewright/shared/listen/framing"
)

// read reads, until own at the longest if that is not zero.
func (c *conn) read(p []byte, own time.Time) (int, error) {
	c.mu.Lock()
	c.own, c.blocked = own, true
	_ = c.apply()
	c.mu.Unlock()
	n, err := c.Conn.Read(p)
	c.mu.Lock()
	c.own, c.blocked = time.Time{}, false
	c.mu.Unlock()
	return n, err
}

// readOfBody reads of the body until it stalls, or only what is here of it when
// nobody asks for it any more.
func (c *conn) readOfBody(p []byte) (n int, stalled, hurried bool, err error) {
	c.mu.Lock()
	by := time.Now().Add(c.server.settings.BodyTimeout)
	c.own, c.blocked, c.ofBody = by, true, true
	switch {
	case c.stalls:
		c.own = past
	case c.hurrying:
		c.own = time.Now().Add(grace)
	}
	_ = c.apply()
	c.mu.Unlock()
	n, err = c.Conn.Read(p)
	c.mu.Lock()
	c.own, c.blocked, c.ofBody = time.Time{}, false, false
	hurried = c.hurrying
	c.mu.Unlock()
	stalled = n == 0 && !hurried && isTimeout(err) && (c.stalls || !time.Now().Before(by))
	return n, stalled, hurried, err
}

// stall ends the request's body like one that stalls. A read that is under way ends at once.
func (c *conn) stall() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stalls = true
	if c.ofBody {
		c.own = past
		_ = c.apply()
	}
}

// hurry says that nobody asks for the request's body any more: what is here of it
// is read, and no more is waited for.
func (c *conn) hurry() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tunnelled || c.hurrying {
		return
	}
	c.hurrying = true
	if c.ofBody {
		c.own = time.Now().Add(grace)
		_ = c.apply()
	}
}

// apply sets the earlier one of the deadlines for reads, if it is another than the
// one that is set. It is called before a read and during one: net/http sets most of
// its deadlines for reads that never come.
func (c *conn) apply() error {
	by := c.wanted
	if by.IsZero() || !c.own.IsZero() && c.own.Before(by) {
		by = c.own
	}
	if by.Equal(c.applied) {
		return nil
	}
	c.applied = by
	return c.Conn.SetReadDeadline(by)
}

// patience is how long net/http's read of one byte waits before it asks the system: most
// requests are answered within it, and then nothing was to be read, and no deadline to be
// set and lifted. A client that goes is noticed so much later.
const patience = 20 * time.Millisecond

// pause waits for as long, or until a deadline is set. It answers os.ErrDeadlineExceeded
// if that has passed, as it has when net/http wants its read to end.
func (c *conn) pause() error {
	c.mu.Lock()
	if c.passed() {
		c.mu.Unlock()
		return os.ErrDeadlineExceeded
	}
	if c.patience == nil {
		c.patience, c.told = time.NewTimer(patience), make(chan struct{}, 1)
	} else {
		c.patience.Reset(patience)
	}
	c.pausing = true
	c.mu.Unlock()
	select {
	case <-c.told:
		c.patience.Stop()
	case <-c.patience.C:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pausing = false
	select {
	case <-c.told:
	default:
	}
	if c.passed() {
		return os.ErrDeadlineExceeded
	}
	return nil
}

// passed reports whether the deadline for reads that net/http or a handler set has passed.
func (c *conn) passed() bool { return !c.wanted.IsZero() && !time.Now().Before(c.wanted) }

// SetReadDeadline implements net.Conn.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wanted = t
	if c.pausing {
		select {
		case c.told <- struct{}{}:
		default:
		}
	}
	if !c.blocked && !c.tunnelled {
		return nil
	}
	return c.apply()
}

// SetWriteDeadline implements net.Conn. Ours remains: one that is lifted is not
// there.
func (c *conn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.writeAsked = t; t.IsZero() {
		return nil
	}
	c.writeBy = t
	return c.Conn.SetWriteDeadline(t)
}

// SetDeadline implements net.Conn.
func (c *conn) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}

// looks is how often it is looked, in a client's time, whether it takes anything:
// when within that it took a byte last, nobody knows. The time may become two of
// these parts longer, the second when the system's buffer takes the rest of its
// room.
const looks = 10

// mayWrite sets the deadline for a write: the next look, or the end of the client's
// time. It is moved only when less than half of that is left, so that most writes
// find one that will do.
func (c *conn) mayWrite(now, end time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	look := c.server.settings.SendTimeout / looks
	if !c.writeAsked.IsZero() || c.writeBy.Sub(now) >= look/2 {
		return nil
	}
	if c.writeBy = now.Add(look); end.Before(c.writeBy) {
		c.writeBy = end
	}
	return c.Conn.SetWriteDeadline(c.writeBy)
}

// Write implements net.Conn. A client that takes a byte now and then is served, one
// that takes none is not. What is written while no handler runs is net/http's own
// refusal, for which a problem stands in.
func (c *conn) Write(p []byte) (int, error) {
	if !c.entered {
		return c.replace(p)
	}
	if c.Conn != c.wire {
		return c.Conn.Write(p) // by way of below
	}
	return c.write(p)
}

// write writes to the wire.
func (c *conn) write(p []byte) (int, error) {
	written, now := 0, time.Now()
	end := now.Add(c.server.settings.SendTimeout)
	for {
		if err := c.mayWrite(now, end); err != nil {
			return written, err
		}
		n, err := c.wire.Write(p[written:])
		written += n
		if err == nil {
			return written, nil
		}
		if !isTimeout(err) {
			c.gone.Store(true)
			return written, err
		}
		if now = time.Now(); n > 0 {
			end = now.Add(c.server.settings.SendTimeout)
		}
		if !now.Before(end) || c.asked() {
			c.stuck.Store(true)
			return written, err
		}
	}
}

func (c *conn) asked() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.writeAsked.IsZero()
}

// replace answers a problem with the status that net/http would answer. What it
// refuses beyond the last request is a part of a body, and gets no answer.
func (c *conn) replace(p []byte) (int, error) {
	switch {
	case c.replaced:
	case c.standard != nil:
		if c.hasHead() && !c.gone.Load() {
			c.replaced = true
			_ = c.refuse(framing.OfStandard(refusalOf(p))) // which ends what net/http reads of a body
		}
	case c.answering:
		c.replaced = true
		c.unsettled.Store(true)
		c.answer(refusalOf(p))
	}
	return len(p), nil
}

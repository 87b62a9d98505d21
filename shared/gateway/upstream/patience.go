package upstream

import (
	"context"
	"errors"
	"os"
	"time"
)

// patience is how long an exchange waits for its upstream before it looks after the end of its context. Most have their answer by
// then, and a watch over a context is half a kilobyte in six objects. So a client that goes away is noticed so much later at most.
const patience = 100 * time.Millisecond

// begin gives the connection to an exchange whose response has to begin within wait: when ctx ends, everything that waits on the
// connection does, at once or when patience is over.
func (c *conn) begin(ctx context.Context, wait time.Duration, maxHeaderBytes int64) error {
	c.reader.left, c.reader.got, c.reader.failed, c.reusable = maxHeaderBytes, false, nil, false
	c.reader.inHead = true
	c.reader.heads.reset()
	c.ctx = ctx
	now := time.Now()
	c.late = now.Add(wait)
	// What TLS was interrupted in writing can't be gone on with.
	if c.below != nil || wait < patience {
		return c.watchOver(time.Time{})
	}
	// The deadline of an exchange shortly before is as good.
	if left := c.until.Sub(now); left < patience/2 || left > patience {
		c.until = now.Add(patience)
		if err := c.SetDeadline(c.until); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// sent says that the request is: the time in which its response has to begin is counted from here.
func (c *conn) sent(wait time.Duration) error {
	if c.stop == nil {
		return nil // it was sent without waiting
	}
	c.late = time.Now().Add(wait)
	return c.readUntil(c.late)
}

// watchOver begins the watch over the exchange's context, unless there is one, and sets the time at which reading ends, zero for never.
func (c *conn) watchOver(t time.Time) error {
	if c.stop != nil {
		return c.readUntil(t)
	}
	c.until = t
	if err := errors.Join(c.SetWriteDeadline(time.Time{}), c.SetReadDeadline(t)); err != nil {
		return err
	}
	// Behind the deadlines, which would overwrite its mark.
	c.stop = context.AfterFunc(c.ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	return nil
}

// unwatch ends the watch. It reports whether the context is of no more consequence to the connection.
func (c *conn) unwatch() bool {
	stop := c.stop
	c.stop = nil
	return stop == nil || stop()
}

// patient reads and writes a connection, and goes on, under watch, when patience is over.
type patient struct{ *conn }

// Read implements io.Reader.
func (p patient) Read(b []byte) (int, error) {
	for {
		n, err := p.Conn.Read(b)
		if n > 0 || !p.isOver(err) {
			return n, err
		}
		if err := p.watchOver(p.late); err != nil {
			return 0, err
		}
	}
}

// Write implements io.Writer.
func (p patient) Write(b []byte) (n int, err error) {
	for {
		written, err := p.Conn.Write(b[n:])
		n += written
		if !p.isOver(err) {
			return n, err
		}
		if err := p.watchOver(time.Time{}); err != nil {
			return n, err
		}
	}
}

// isOver reports whether an error is the end of patience, and of nothing else.
func (p patient) isOver(err error) bool {
	return err != nil && p.stop == nil && p.ctx != nil && errors.Is(err, os.ErrDeadlineExceeded)
}

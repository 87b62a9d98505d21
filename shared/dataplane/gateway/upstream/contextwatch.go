package upstream

import (
	"context"
	"errors"
	"os"
	"time"
)

// watchDelay is how long an exchange waits for its upstream before it watches its context.
// Most responses arrive before that, and a watch over a context takes half a kilobyte of
// memory in six objects. So a client's disconnect is detected at most this much later.
const watchDelay = 100 * time.Millisecond

// begin assigns the connection to an exchange whose response must begin within timeout.
// When ctx ends, pending reads and writes on the connection end at most watchDelay later.
func (c *conn) begin(ctx context.Context, timeout time.Duration, maxHeaderBytes int64) error {
	c.reader.remaining, c.reader.hasRead, c.reader.err, c.reusable = maxHeaderBytes, false, nil, false
	c.reader.inHead = true
	c.reader.heads.reset()
	c.ctx = ctx
	now := time.Now()
	c.responseDeadline = now.Add(timeout)
	// A TLS connection can't be used after a write that has exceeded a deadline, so watch ctx from the beginning.
	if c.below != nil || timeout < watchDelay {
		return c.startWatch(time.Time{})
	}
	// Keep the deadline of an earlier exchange if it passes in between half of watchDelay and watchDelay.
	if remaining := c.readDeadline.Sub(now); remaining < watchDelay/2 || remaining > watchDelay {
		c.readDeadline = now.Add(watchDelay)
		if err := c.SetDeadline(c.readDeadline); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// startResponseTimeout starts the time limit for the response after the request was sent. If sending took less than
// watchDelay, the limit has already started in begin.
func (c *conn) startResponseTimeout(timeout time.Duration) error {
	if c.stopWatch == nil {
		return nil // the request was sent in less than watchDelay: keep the deadline of begin
	}
	c.responseDeadline = time.Now().Add(timeout)
	return c.readUntil(c.responseDeadline)
}

// startWatch starts to watch the exchange's context, unless it is watched already. t is the read deadline, zero for none.
func (c *conn) startWatch(t time.Time) error {
	if c.stopWatch != nil {
		return c.readUntil(t)
	}
	c.readDeadline = t
	if err := errors.Join(c.SetWriteDeadline(time.Time{}), c.SetReadDeadline(t)); err != nil {
		return err
	}
	// Do this after setting the deadlines, which would overwrite the deadline that is set when the context ends.
	c.stopWatch = context.AfterFunc(c.ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	return nil
}

// endWatch stops the watch. It reports whether the context can no longer affect the connection.
func (c *conn) endWatch() bool {
	stop := c.stopWatch
	c.stopWatch = nil
	return stop == nil || stop()
}

// watchedConn reads and writes a connection. If a read or write blocks for
// longer than watchDelay, watchedConn starts to watch the context and continues.
type watchedConn struct{ *conn }

// Read implements io.Reader.
func (c watchedConn) Read(b []byte) (int, error) {
	for {
		n, err := c.Conn.Read(b)
		if n > 0 || !c.isWatchDue(err) {
			return n, err
		}
		if err := c.startWatch(c.responseDeadline); err != nil {
			return 0, err
		}
	}
}

// Write implements io.Writer.
func (c watchedConn) Write(b []byte) (n int, err error) {
	for {
		written, err := c.Conn.Write(b[n:])
		n += written
		if !c.isWatchDue(err) {
			return n, err
		}
		if err := c.startWatch(time.Time{}); err != nil {
			return n, err
		}
	}
}

// isWatchDue reports whether an error only means that watchDelay has passed.
func (c watchedConn) isWatchDue(err error) bool {
	return err != nil && c.stopWatch == nil && c.ctx != nil && errors.Is(err, os.ErrDeadlineExceeded)
}

package listen

import (
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// A client of HTTP/1.1 learns from an answer that its connection ends, and from nothing else: what
// it sends as an idle connection is closed is lost to it (RFC 9112, section 9.5). So none is closed
// whose last answer may bring another request soon: it was the last of its connection and said so,
// or the connection has been idle since for as long as the end was announced.

const (
	// settling is how often Shutdown looks whether that holds of all connections.
	settling = 10 * time.Millisecond
	// arriving is how long a connection that has just come has for its first request.
	arriving = time.Second
)

// underWay is what conn.untold is while an answer is written which does not say that it is the last.
const underWay = -1

// departure is the end of a server as its connections see it.
type departure struct {
	// begun is when it was announced, and arrived when the last connection came, in nanoseconds since
	// 1970; 0 for not yet.
	begun, arrived atomic.Int64
	// over says that nobody listens any more.
	over atomic.Bool

	mu       sync.Mutex // guards what follows
	listener net.Listener
	// held are the connections by HTTP/1.1 that net/http reads, and how often: one that has rested may
	// come back before net/http has said that it let go of it. During an end there are those too that
	// rest and whose last answer did not say so.
	held map[*conn]int
	// framed are those by HTTP/2.
	framed map[*frames]struct{}
}

// begin notes when the end was announced, and tells the clients by HTTP/2 of that moment.
func (d *departure) begin(now time.Time) {
	if !d.begun.CompareAndSwap(0, now.UnixNano()) {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for f := range d.framed {
		f.due.Store(true)
		time.AfterFunc(telling, f.leave)
	}
}

// follow notes what becomes of a connection by HTTP/1.1.
func (d *departure) follow(c *conn, state http.ConnState) {
	switch state {
	case http.StateActive:
	case http.StateIdle:
		if c.untold.Load() != underWay {
			return
		}
		var since int64
		if d.begun.Load() != 0 {
			since = time.Now().UnixNano()
		}
		c.untold.Store(since)
	case http.StateNew:
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.held == nil {
			d.held = make(map[*conn]int)
		}
		d.held[c]++
	case http.StateClosed, http.StateHijacked:
		rests := !c.closed.Load() && !c.finished.Load() && state == http.StateClosed
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.held[c]--; d.held[c] <= 0 && !(rests && c.untold.Load() != 0) {
			delete(d.held, c)
		}
	}
}

// followFrames notes what becomes of one by HTTP/2.
func (d *departure) followFrames(f *frames, state http.ConnState) {
	switch state {
	case http.StateActive, http.StateIdle, http.StateHijacked:
	case http.StateNew:
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.framed == nil {
			d.framed = make(map[*frames]struct{})
		}
		d.framed[f] = struct{}{}
	case http.StateClosed:
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.framed, f)
	}
}

// listens gives the listener that notes when connections come, and that the departure closes.
func (d *departure) listens(l net.Listener) net.Listener {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.listener = &arrivals{Listener: l, departure: d}
	if d.over.Load() {
		_ = d.listener.Close()
	}
	return d.listener
}

// settle takes no further connections, and serves those that there are until each may be closed, or
// ctx ends. An end that nobody has announced it does not wait for.
func (d *departure) settle(ctx context.Context) {
	begun := d.begun.Load()
	if begun == 0 {
		return
	}
	announced := time.Duration(time.Now().UnixNano() - begun)
	d.over.Store(true)
	d.mu.Lock()
	l := d.listener
	for f := range d.framed {
		go f.leave() // which waits for what is being written to its client
	}
	d.mu.Unlock()
	if l != nil {
		_ = l.Close()
	}
	look := time.NewTicker(settling)
	defer look.Stop()
	for !d.settled(time.Now(), announced) {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
	}
}

// settled reports whether all connections may be closed that no request runs on.
func (d *departure) settled(now time.Time, announced time.Duration) bool {
	if now.UnixNano()-d.arrived.Load() < int64(min(arriving, announced)) {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for c := range d.held {
		since := c.untold.Load()
		switch {
		case c.finished.Load():
			delete(d.held, c)
		case since == underWay, since != 0 && now.UnixNano()-since < int64(announced):
			return false
		// A part of a head has come, which has a time of its own.
		case c.unsettled.Load() && !c.gone.Load() && !c.closed.Load():
			return false
		}
	}
	return true
}

// idle returns the connections that net/http reads itself and on which no request is under way. net/http
// would close them one after another, and wait for the close message of each.
func (d *departure) idle() (out []*conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for c := range d.held {
		if now, _ := c.phase(); now == readingHead && !c.hasHead() {
			out = append(out, c)
		}
	}
	return out
}

// arrivals is a listener whose connections are noted as they come.
type arrivals struct {
	net.Listener
	departure *departure
	once      sync.Once
}

// Accept implements net.Listener.
func (a *arrivals) Accept() (net.Conn, error) {
	c, err := a.Listener.Accept()
	if err == nil {
		a.departure.arrived.Store(time.Now().UnixNano())
	}
	return c, err
}

// Close implements net.Listener. It closes it once, whoever asks for it.
func (a *arrivals) Close() (err error) {
	a.once.Do(func() { err = a.Listener.Close() })
	return err
}

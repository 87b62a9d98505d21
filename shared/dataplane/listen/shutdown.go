package listen

import (
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// In HTTP/1.1, only a response can announce to a client that its connection ends. If an idle connection is closed
// while the client sends a request, the request is lost (RFC 9112, section 9.5). So after AnnounceShutdown, we close
// a connection only if no request is likely to arrive soon: its last response had the field Connection: close, the
// connection has been idle for the time between AnnounceShutdown and Shutdown, or it is new and has sent nothing for
// the shorter of that time and firstRequestTimeout. When the context of Shutdown ends, we do not wait any longer.

const (
	// shutdownCheckInterval is the interval at which Shutdown checks whether it can close all connections.
	shutdownCheckInterval = 10 * time.Millisecond
	// firstRequestTimeout is how long a shutdown waits at most for the first request of a new connection.
	firstRequestTimeout = time.Second
)

// responseInFlight is the value of conn.idleSince while a response without the field Connection: close is written.
const responseInFlight = -1

// shutdownState has the state of a server's shutdown, and the connections for which the shutdown waits.
type shutdownState struct {
	// announcedAt is the time of AnnounceShutdown, and lastArrival the time when the last
	// connection arrived, in nanoseconds since 1970. 0 means that this has not happened yet.
	announcedAt, lastArrival atomic.Int64
	// listenerClosed is set after the listener was closed.
	listenerClosed atomic.Bool

	mu       sync.Mutex // guards the fields below
	listener net.Listener
	// conns maps each HTTP/1.1 connection to the number of times that net/http holds it now. The number is 2 for a short
	// time if a parked connection returns to net/http before net/http has reported the end of its earlier use. During a
	// shutdown, conns also has, with the number 0, parked connections whose last response did not have the field
	// Connection: close.
	conns map[*conn]int
	// http2Conns has the HTTP/2 connections.
	http2Conns map[*framedConn]struct{}
}

// announce records the time of the announcement, and notifies the clients of all HTTP/2 connections.
func (s *shutdownState) announce(now time.Time) {
	if !s.announcedAt.CompareAndSwap(0, now.UnixNano()) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for f := range s.http2Conns {
		f.goAwayDue.Store(true)
		time.AfterFunc(goAwayDelay, f.sendGoAway)
	}
}

// trackConn records a state change of an HTTP/1.1 connection.
func (s *shutdownState) trackConn(c *conn, state http.ConnState) {
	switch state {
	case http.StateActive:
	case http.StateIdle:
		if c.idleSince.Load() != responseInFlight {
			return
		}
		var since int64
		if s.announcedAt.Load() != 0 {
			since = time.Now().UnixNano()
		}
		c.idleSince.Store(since)
	case http.StateNew:
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.conns == nil {
			s.conns = make(map[*conn]int)
		}
		s.conns[c]++
	case http.StateClosed, http.StateHijacked:
		parked := !c.closed.Load() && !c.finished.Load() && state == http.StateClosed
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.conns[c]--; s.conns[c] <= 0 && !(parked && c.idleSince.Load() != 0) {
			delete(s.conns, c)
		}
	}
}

// trackHTTP2Conn records a state change of an HTTP/2 connection.
func (s *shutdownState) trackHTTP2Conn(f *framedConn, state http.ConnState) {
	switch state {
	case http.StateActive, http.StateIdle, http.StateHijacked:
	case http.StateNew:
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.http2Conns == nil {
			s.http2Conns = make(map[*framedConn]struct{})
		}
		s.http2Conns[f] = struct{}{}
	case http.StateClosed:
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.http2Conns, f)
	}
}

// wrapListener returns a listener that records when connections arrive. waitForConns closes it.
func (s *shutdownState) wrapListener(l net.Listener) net.Listener {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listener = &arrivalListener{Listener: l, shutdown: s}
	if s.listenerClosed.Load() {
		_ = s.listener.Close()
	}
	return s.listener
}

// waitForConns closes the listener, and returns when all existing connections can be closed, or when ctx ends. It
// does nothing if the shutdown was not announced.
func (s *shutdownState) waitForConns(ctx context.Context) {
	announcedAt := s.announcedAt.Load()
	if announcedAt == 0 {
		return
	}
	noticeTime := time.Duration(time.Now().UnixNano() - announcedAt)
	s.listenerClosed.Store(true)
	s.mu.Lock()
	l := s.listener
	for f := range s.http2Conns {
		go f.sendGoAway() // blocks until the current write to the client has ended
	}
	s.mu.Unlock()
	if l != nil {
		_ = l.Close()
	}
	ticker := time.NewTicker(shutdownCheckInterval)
	defer ticker.Stop()
	for !s.canCloseAll(time.Now(), noticeTime) {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// canCloseAll reports whether Shutdown can stop waiting for HTTP/1.1 connections, because no further request is likely
// to arrive on them soon. It returns false while a response without the field Connection: close is written, because the
// client may send another request after it. noticeTime is the time between AnnounceShutdown and Shutdown.
func (s *shutdownState) canCloseAll(now time.Time, noticeTime time.Duration) bool {
	if now.UnixNano()-s.lastArrival.Load() < int64(min(firstRequestTimeout, noticeTime)) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		since := c.idleSince.Load()
		switch {
		case c.finished.Load():
			delete(s.conns, c)
		case since == responseInFlight, since != 0 && now.UnixNano()-since < int64(noticeTime):
			return false
		// A part of a request has arrived. The wait for the rest ends by a timeout of the connection, or with the context
		// of Shutdown.
		case c.mayBeSending.Load() && !c.disconnected.Load() && !c.closed.Load():
			return false
		}
	}
	return true
}

// idleStandardConns returns the connections that net/http reads itself and that have no request
// in flight. net/http would close them one after another, and wait for each close_notify alert.
func (s *shutdownState) idleStandardConns() (out []*conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		if current, _ := c.phase(); current == readingHead && !c.hasHead() {
			out = append(out, c)
		}
	}
	return out
}

// arrivalListener is a listener that records when connections arrive.
type arrivalListener struct {
	net.Listener
	shutdown *shutdownState
	once     sync.Once
}

// Accept implements net.Listener.
func (a *arrivalListener) Accept() (net.Conn, error) {
	c, err := a.Listener.Accept()
	if err == nil {
		a.shutdown.lastArrival.Store(time.Now().UnixNano())
	}
	return c, err
}

// Close implements net.Listener. It closes the listener once.
func (a *arrivalListener) Close() (err error) {
	a.once.Do(func() { err = a.Listener.Close() })
	return err
}

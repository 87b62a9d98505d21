package listen_test

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"github.com/gatewright/gatewright/shared/dataplane/listen"
)

// fillingListener is a listener that can fill the system's write buffers
// of its connections. Clients that do not read responses can do the same.
type fillingListener struct {
	net.Listener
	mu    sync.Mutex
	conns []net.Conn
}

func (f *fillingListener) Accept() (net.Conn, error) {
	c, err := f.Listener.Accept()
	if err == nil {
		if tcp, ok := c.(interface{ SetWriteBuffer(int) error }); ok {
			_ = tcp.SetWriteBuffer(16 << 10) // with a fixed size, the system does not enlarge a full buffer
		}
		f.mu.Lock()
		f.conns = append(f.conns, c)
		f.mu.Unlock()
	}
	return c, err
}

// fillBuffers writes to each connection until its buffers are full.
func (f *fillingListener) fillBuffers() {
	f.mu.Lock()
	defer f.mu.Unlock()
	// Write single bytes at the end, because a buffer without room
	// for a large piece may still have room for a close_notify alert.
	for _, size := range []int{64 << 10, 1} {
		for _, c := range f.conns {
			for err := error(nil); err == nil; {
				_ = c.SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
				_, err = c.Write(make([]byte, size))
			}
			_ = c.SetWriteDeadline(time.Time{})
		}
	}
}

// TestShutdownWithClientsThatDoNotRead checks that a shutdown closes the TLS
// connections of clients that do not read, without waiting for one after the other.
func TestShutdownWithClientsThatDoNotRead(t *testing.T) {
	waitParked := func([]*client) { time.Sleep(400 * time.Millisecond) }
	states := map[string]struct {
		protocol string
		prepare  func([]*client)
	}{
		"idle":   {"http/1.1", func([]*client) {}},
		"parked": {"http/1.1", waitParked},
		"resumed by a part of a record": {"http/1.1", func(clients []*client) {
			waitParked(clients)
			for _, c := range clients {
				_, _ = c.tcpConn().Write([]byte{23, 3})
			}
			time.Sleep(50 * time.Millisecond)
		}},
		"HTTP/2": {"h2", waitParked},
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for state, s := range states {
		t.Run(state, func(t *testing.T) {
			l, err := listen.Open(t.Context(), "127.0.0.1:0", "the test", "NOTHING")
			if err != nil {
				t.Fatal(err)
			}
			f := &fillingListener{Listener: l}
			server := newHTTP2Server(t, f, echo, nil)
			clients := make([]*client, 5)
			for i := range clients {
				clients[i] = dialTLS(t, l.Addr().String(), &tls.Config{RootCAs: server.roots, NextProtos: []string{s.protocol}})
				_ = clients[i].tcpConn().SetReadBuffer(4 << 10)
				if s.protocol == "h2" {
					clients[i].send(http2.ClientPreface + "\x00\x00\x00\x04\x00\x00\x00\x00\x00")
				} else {
					clients[i].mustServe()
				}
			}
			s.prepare(clients)
			f.fillBuffers()
			startTime := time.Now()
			if server.Shutdown(canceled) != nil {
				_ = server.Close()
			}
			if elapsed := time.Since(startTime); elapsed > 4*time.Second { // one alert can take 1 s
				t.Errorf("Shutdown() and Close() took %v, want at most 4 s", elapsed)
			}
			eventually(t, func() bool { return server.Connections() == 0 })
		})
	}
}

// tcpConn returns the client's TCP connection, which may be below TLS.
func (c *client) tcpConn() *net.TCPConn {
	if tlsConn, ok := c.Conn.(*tls.Conn); ok {
		return tlsConn.NetConn().(*net.TCPConn)
	}
	return c.Conn.(*net.TCPConn)
}

// TestRefusedClientThatDoesNotReadIsClosed checks that a refused client that has not sent all
// of its body has little time to read the close_notify alert, even with a long SendTimeout.
func TestRefusedClientThatDoesNotReadIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := make(pipes)
		s := newHTTP2Server(t, p, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusForbidden)
		}, func(o *listen.Options) {
			o.Settings.SendTimeout = 10 * time.Minute
		})
		c := p.dial(t)
		c.Conn = tls.Client(c.Conn, &tls.Config{RootCAs: s.roots, ServerName: "localhost", NextProtos: []string{"http/1.1"}})
		c.r.Reset(c.Conn)
		c.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n")
		if response, _ := c.readResponse(); response.StatusCode != http.StatusForbidden {
			t.Errorf("POST /: status = %s, want 403", response.Status)
		}
		time.Sleep(2 * time.Second)
		if n := s.Connections(); n != 0 {
			t.Errorf("Connections() = %d, want 0", n)
		}
	})
}

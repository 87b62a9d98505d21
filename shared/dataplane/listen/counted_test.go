package listen_test

import (
	"crypto/tls"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/core/config"
)

// closeInRandomState brings a connection into up to four random states and then closes it, with or without a reset.
func (c *client) closeInRandomState(random *rand.Rand, tcp *net.TCPConn) {
	for range 1 + random.IntN(4) {
		switch random.IntN(8) {
		case 0, 1, 2:
			_, _ = io.WriteString(c, getRequest("/"))
			if response, err := http.ReadResponse(c.r, nil); err == nil {
				_, _ = io.Copy(io.Discard, response.Body)
				_ = response.Body.Close()
			}
		case 3, 4: // about the time at which the connection is parked
			time.Sleep(240*time.Millisecond + time.Duration(random.IntN(20))*time.Millisecond)
		case 5: // a part of a head, an empty line, or a part of a body
			_, _ = io.WriteString(c,
				[]string{"GET / HT", "\r\n", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 30\r\n\r\nabc"}[random.IntN(3)])
		case 6: // with TLS, a part of a record
			_, _ = tcp.Write([]byte{23, 3})
		case 7:
			_ = tcp.CloseWrite()
		}
	}
	if random.IntN(2) == 0 {
		_ = tcp.SetLinger(0) // close with a reset
	}
	_ = tcp.Close()
}

// TestConnectionsAreCountedOnce checks the count of connections that end in random states:
// each one is subtracted from the count exactly once, and none leaves a goroutine.
func TestConnectionsAreCountedOnce(t *testing.T) {
	shortTimeouts := func(c *config.Listener) {
		c.IdleTimeout, c.HeaderTimeout, c.BodyTimeout = 700*time.Millisecond, 500*time.Millisecond, 500*time.Millisecond
	}
	runPlainAndTLS(t, shortTimeouts, func(t *testing.T, s dialableServer) {
		const clients, connsPerClient = 50, 4
		seed := rand.Uint64()
		t.Logf("the seed is %d", seed)
		first := s.dial()
		first.mustServe()
		_ = first.Close()
		eventually(t, func() bool { return s.Connections() == 0 })
		before := runtime.NumGoroutine()
		dialed := make(chan *client, clients*connsPerClient)
		for range clients * connsPerClient {
			dialed <- s.dial()
		}
		close(dialed)
		var wg sync.WaitGroup
		for n := range clients {
			random := rand.New(rand.NewPCG(seed, uint64(n)))
			wg.Go(func() {
				for c := range dialed {
					c.closeInRandomState(random, c.tcpConn())
				}
			})
		}
		wg.Wait()
		eventually(t, func() bool { return s.Connections() == 0 })
		waitGoroutines(t, before+1) // the goroutine that waits for parked connections
		remaining := make([]*client, 20)
		for i := range remaining {
			remaining[i] = s.dial()
			remaining[i].mustServe()
		}
		time.Sleep(300 * time.Millisecond)
		// with TLS, the server waits for the rest of a record on each connection when it shuts down
		for _, c := range remaining {
			if _, ok := c.Conn.(*tls.Conn); ok {
				_, _ = c.tcpConn().Write([]byte{23})
			}
		}
		time.Sleep(50 * time.Millisecond)
		if err := s.Shutdown(t.Context()); err != nil {
			t.Errorf("Shutdown() error = %v, want none", err)
		}
		waitGoroutines(t, before)
		if n := s.Connections(); n != 0 {
			t.Errorf("Connections() = %d, want 0", n)
		}
	})
}

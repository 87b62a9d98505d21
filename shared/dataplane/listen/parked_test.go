package listen_test

import (
	"crypto/tls"
	"io"
	"net/http"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/dataplane/listen"
)

// dialableServer is a server, with or without TLS, and a function that connects a client to it.
type dialableServer struct {
	*listen.Server
	dial func() *client
}

// runPlainAndTLS runs a test twice: with a server for plain HTTP and with a TLS server.
func runPlainAndTLS(t *testing.T, set func(*config.Listener), test func(*testing.T, dialableServer)) {
	t.Helper()
	for name, secure := range map[string]bool{"plain": false, "TLS": true} {
		t.Run(name, func(t *testing.T) {
			server := newHTTP2Server(t, nil, echo, func(o *listen.Options) {
				if set != nil {
					set(&o.Settings)
				}
				if !secure {
					o.TLS = nil
				}
			})
			addr := server.listener.Addr().String()
			s := dialableServer{server.Server, func() *client { return dial(t, addr) }}
			if secure {
				s.dial = func() *client { return dialTLS(t, addr, &tls.Config{RootCAs: server.roots}) }
			}
			test(t, s)
		})
	}
}

// waitGoroutines waits until the process has at most limit goroutines. On Linux, parked connections have none.
func waitGoroutines(t *testing.T, limit int) {
	t.Helper()
	eventually(t, func() bool { return runtime.NumGoroutine() <= limit })
}

// TestParkedConnectionsHaveNoGoroutine checks that parked connections have
// no goroutine, serve further requests, and are parked again after that.
func TestParkedConnectionsHaveNoGoroutine(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("each parked connection has a goroutine on this system")
	}
	runPlainAndTLS(t, nil, func(t *testing.T, s dialableServer) {
		const n = 100
		first := s.dial()
		first.mustServe()
		before := runtime.NumGoroutine()
		clients := make([]*client, n)
		for i := range clients {
			clients[i] = s.dial()
		}
		for range 3 {
			for _, c := range clients {
				c.mustServe()
			}
			waitGoroutines(t, before+n/10)
			if got := s.Connections(); got != n+1 {
				t.Fatalf("Connections() = %d, want %d", got, n+1)
			}
		}
		// Send the first byte of a head. Then send the rest of that head, and a second request, in one write.
		for _, c := range clients {
			c.send("G")
		}
		for _, c := range clients {
			c.send("ET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n")
			for range 2 {
				if response, _ := c.readResponse(); response.StatusCode != http.StatusOK {
					t.Fatalf("GET / on a parked connection: status = %s, want 200", response.Status)
				}
			}
		}
	})
}

// TestParkedConnectionIsReleasedWhenClosed closes the clients' connections, and
// checks that the server releases them. Without TLS, it resets every second one.
func TestParkedConnectionIsReleasedWhenClosed(t *testing.T) {
	runPlainAndTLS(t, nil, func(t *testing.T, s dialableServer) {
		s.dial().mustServe()
		before := runtime.NumGoroutine()
		clients := make([]*client, 20)
		for i := range clients {
			clients[i] = s.dial()
			clients[i].mustServe()
		}
		time.Sleep(300 * time.Millisecond) // they are parked
		for i, c := range clients {
			if tcp, ok := c.Conn.(interface{ SetLinger(int) error }); ok && i%2 == 0 {
				_ = tcp.SetLinger(0)
			}
			_ = c.Close()
		}
		eventually(t, func() bool { return s.Connections() == 1 })
		waitGoroutines(t, before)
	})
}

// TestParkedConnectionTimesOut checks that parked connections are closed: a connection after a request,
// but not much before its idle timeout, and a connection without any request.
func TestParkedConnectionTimesOut(t *testing.T) {
	runPlainAndTLS(t, func(c *config.Listener) {
		c.IdleTimeout, c.HeaderTimeout = time.Second, 2*time.Second
	}, func(t *testing.T, s dialableServer) {
		used, unused := s.dial(), s.dial()
		used.mustServe()
		startTime := time.Now()
		used.mustEnd()
		if elapsed := time.Since(startTime); elapsed < 900*time.Millisecond {
			t.Errorf("parked connection closed after %v, want at least 900 ms", elapsed)
		}
		unused.mustEnd()
		eventually(t, func() bool { return s.Connections() == 0 })
	})
}

// TestParkedConnectionsCloseOnShutdown checks that Shutdown closes parked connections.
func TestParkedConnectionsCloseOnShutdown(t *testing.T) {
	runPlainAndTLS(t, nil, func(t *testing.T, s dialableServer) {
		clients := make([]*client, 20)
		for i := range clients {
			clients[i] = s.dial()
			clients[i].mustServe()
		}
		time.Sleep(300 * time.Millisecond) // they are parked
		if err := s.Shutdown(t.Context()); err != nil {
			t.Fatalf("Shutdown() error = %v, want none", err)
		}
		for _, c := range clients {
			if b, err := io.ReadAll(c.r); err != nil || len(b) > 0 {
				t.Fatalf("ReadAll(parked connection) = %q, %v, want nothing and no error", b, err)
			}
		}
		eventually(t, func() bool { return s.Connections() == 0 })
	})
}

// TestConnectionResumesWhileItIsParked checks that requests are served if they arrive exactly when connections are parked.
func TestConnectionResumesWhileItIsParked(t *testing.T) {
	runPlainAndTLS(t, nil, func(t *testing.T, s dialableServer) {
		clients := make([]*client, 60)
		for i := range clients {
			clients[i] = s.dial()
			clients[i].mustServe()
		}
		for range 3 {
			startTime := time.Now()
			for i, c := range clients { // send one request per millisecond, from 220 to 279 ms after startTime
				time.Sleep(time.Until(startTime.Add(time.Duration(220+i) * time.Millisecond)))
				c.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
			}
			for _, c := range clients {
				if response, _ := c.readResponse(); response.StatusCode != http.StatusOK {
					t.Fatalf("GET / while the connection is parked: status = %s, want 200", response.Status)
				}
			}
		}
	})
}

// TestClientDisconnectIsDetected checks that the server detects within 20 ms that a client
// disconnects while a handler runs, both immediately after the request and later.
func TestClientDisconnectIsDetected(t *testing.T) {
	for _, delay := range []time.Duration{0, time.Millisecond, 100 * time.Millisecond, time.Hour} {
		t.Run(delay.String(), func(t *testing.T) {
			var detectedAt atomic.Int64 // in nanoseconds since 1970
			runWithPipes(t, func(_ http.ResponseWriter, r *http.Request) {
				<-r.Context().Done()
				detectedAt.Store(time.Now().UnixNano())
			}, func(t *testing.T, p pipes) {
				c := p.dial(t).send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
				time.Sleep(delay)
				_ = c.Close()
				closedAt := time.Now()
				time.Sleep(time.Second)
				if elapsed := time.Duration(detectedAt.Load() - closedAt.UnixNano()); elapsed < 0 || elapsed > 20*time.Millisecond {
					t.Errorf("disconnect detected after %v, want 0 to 20 ms (a large negative duration: not detected)", elapsed)
				}
			})
		})
	}
}

// TestResponsesAreNotDelayed checks that the read that detects a disconnect does not delay responses.
func TestResponsesAreNotDelayed(t *testing.T) {
	for _, handlerTime := range []time.Duration{0, time.Millisecond, 25 * time.Millisecond} {
		t.Run(handlerTime.String(), func(t *testing.T) {
			runWithPipes(t, func(w http.ResponseWriter, _ *http.Request) {
				time.Sleep(handlerTime)
				_, _ = io.WriteString(w, "here")
			}, func(t *testing.T, p pipes) {
				c, startTime := p.dial(t), time.Now()
				const n = 10
				for range n {
					c.mustServe()
				}
				if elapsed := time.Since(startTime); elapsed != n*handlerTime {
					t.Errorf("%d requests of %v took %v, want %v", n, handlerTime, elapsed, n*handlerTime)
				}
				time.Sleep(time.Second) // wait for a read that a response may have left
			})
		})
	}
}

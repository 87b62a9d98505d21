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

	"github.com/gatewright/gatewright/shared/config"
)

// lead leads a connection from one state to the next at random, and leaves it in any.
func (c *client) lead(by *rand.Rand, wire *net.TCPConn) {
	for range 1 + by.IntN(4) {
		switch by.IntN(8) {
		case 0, 1, 2:
			_, _ = io.WriteString(c, get("/"))
			if response, err := http.ReadResponse(c.r, nil); err == nil {
				_, _ = io.Copy(io.Discard, response.Body)
				_ = response.Body.Close()
			}
		case 3, 4: // about the time at which it falls asleep
			time.Sleep(240*time.Millisecond + time.Duration(by.IntN(20))*time.Millisecond)
		case 5: // parts of a head, a blank, a body that does not come
			_, _ = io.WriteString(c, []string{"GET / HT", "\r\n", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 30\r\n\r\nabc"}[by.IntN(3)])
		case 6: // of TLS, a part of a record
			_, _ = wire.Write([]byte{23, 3})
		case 7:
			_ = wire.CloseWrite()
		}
	}
	if by.IntN(2) == 0 {
		_ = wire.SetLinger(0) // a reset
	}
	_ = wire.Close()
}

// TestConnectionsAreCountedOnce, whatever becomes of them: none is left among those that are served at once, none
// is given back twice, and nothing of them stays.
func TestConnectionsAreCountedOnce(t *testing.T) {
	brief := func(c *config.Listener) {
		c.IdleTimeout, c.HeaderTimeout, c.BodyTimeout = 700*time.Millisecond, 500*time.Millisecond, 500*time.Millisecond
	}
	overBoth(t, brief, func(t *testing.T, r resting) {
		const clients, lives = 50, 4
		seed := rand.Uint64()
		t.Logf("the seed is %d", seed)
		first := r.dial()
		first.served()
		_ = first.Close()
		eventually(t, func() bool { return r.Connections() == 0 })
		before := runtime.NumGoroutine()
		all := make(chan *client, clients*lives)
		for range clients * lives {
			all <- r.dial()
		}
		close(all)
		var ended sync.WaitGroup
		for n := range clients {
			by := rand.New(rand.NewPCG(seed, uint64(n)))
			ended.Go(func() {
				for c := range all {
					c.lead(by, c.below())
				}
			})
		}
		ended.Wait()
		eventually(t, func() bool { return r.Connections() == 0 })
		asleep(t, before+1) // the one that waits for those that rest
		rest := make([]*client, 20)
		for i := range rest {
			rest[i] = r.dial()
			rest[i].served()
		}
		time.Sleep(300 * time.Millisecond)
		for _, c := range rest { // by TLS one waits for the rest of a record as the server ends
			if _, ok := c.Conn.(*tls.Conn); ok {
				_, _ = c.below().Write([]byte{23})
			}
		}
		time.Sleep(50 * time.Millisecond)
		if err := r.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		asleep(t, before)
		if n := r.Connections(); n != 0 {
			t.Errorf("%d connections are left", n)
		}
	})
}

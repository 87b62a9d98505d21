package listen_test

import (
	"crypto/tls"
	"io"
	"net/http"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/listen"
)

// resting is a server whose connections rest, by TLS or not.
type resting struct {
	*listen.Server
	dial func() *client
}

// overBoth runs a test with a server by plain HTTP and with one by TLS.
func overBoth(t *testing.T, set func(*config.Listener), test func(*testing.T, resting)) {
	t.Helper()
	for name, secure := range map[string]bool{"plain": false, "TLS": true} {
		t.Run(name, func(t *testing.T) {
			its := multiplexing(t, nil, echo, func(o *listen.Options) {
				if set != nil {
					set(&o.Settings)
				}
				if !secure {
					o.TLS = nil
				}
			})
			addr := its.listener.Addr().String()
			r := resting{its.Server, func() *client { return dial(t, addr) }}
			if secure {
				r.dial = func() *client { return dialTLS(t, addr, &tls.Config{RootCAs: its.roots}) }
			}
			test(t, r)
		})
	}
}

// asleep waits until the process has no more goroutines than so many: who rests has none.
func asleep(t *testing.T, most int) {
	t.Helper()
	eventually(t, func() bool { return runtime.NumGoroutine() <= most })
}

// TestConnectionsThatRestHaveNoGoroutine, and come back again and again.
func TestConnectionsThatRestHaveNoGoroutine(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("connections that rest have a goroutine each on this system")
	}
	overBoth(t, nil, func(t *testing.T, r resting) {
		const n = 100
		first := r.dial()
		first.served()
		before := runtime.NumGoroutine()
		all := make([]*client, n)
		for i := range all {
			all[i] = r.dial()
		}
		for range 3 {
			for _, c := range all {
				c.served()
			}
			asleep(t, before+n/10)
			if got := r.Connections(); got != n+1 {
				t.Fatalf("%d connections of %d", got, n+1)
			}
		}
		// A head that comes in pieces, and two requests at once.
		for _, c := range all {
			c.send("G")
		}
		for _, c := range all {
			c.send("ET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n")
			for range 2 {
				if response, _ := c.answer(); response.StatusCode != http.StatusOK {
					t.Fatalf("got %s", response.Status)
				}
			}
		}
	})
}

// TestConnectionThatRestsIsForgottenAsItEnds: by its client's end or reset.
func TestConnectionThatRestsIsForgottenAsItEnds(t *testing.T) {
	overBoth(t, nil, func(t *testing.T, r resting) {
		r.dial().served()
		before := runtime.NumGoroutine()
		all := make([]*client, 20)
		for i := range all {
			all[i] = r.dial()
			all[i].served()
		}
		time.Sleep(300 * time.Millisecond) // they rest
		for i, c := range all {
			if tcp, ok := c.Conn.(interface{ SetLinger(int) error }); ok && i%2 == 0 {
				_ = tcp.SetLinger(0)
			}
			_ = c.Close()
		}
		eventually(t, func() bool { return r.Connections() == 1 })
		asleep(t, before)
	})
}

// TestConnectionThatRestsEndsInItsTime: an idle one, and one that never asked for anything.
func TestConnectionThatRestsEndsInItsTime(t *testing.T) {
	overBoth(t, func(c *config.Listener) { c.IdleTimeout, c.HeaderTimeout = time.Second, 2*time.Second }, func(t *testing.T, r resting) {
		used, unused := r.dial(), r.dial()
		used.served()
		began := time.Now()
		used.end()
		if took := time.Since(began); took < 900*time.Millisecond {
			t.Errorf("the idle one ended after %v", took)
		}
		unused.end()
		eventually(t, func() bool { return r.Connections() == 0 })
	})
}

// TestConnectionsThatRestEndWithTheServer.
func TestConnectionsThatRestEndWithTheServer(t *testing.T) {
	overBoth(t, nil, func(t *testing.T, r resting) {
		all := make([]*client, 20)
		for i := range all {
			all[i] = r.dial()
			all[i].served()
		}
		time.Sleep(300 * time.Millisecond) // they rest
		if err := r.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, c := range all {
			if b, err := io.ReadAll(c.r); err != nil || len(b) > 0 {
				t.Fatalf("read %q, %v", b, err)
			}
		}
		eventually(t, func() bool { return r.Connections() == 0 })
	})
}

// TestRestingConnectionsWakeWhileTheyFallAsleep: requests that come in the very moments in which connections go to
// rest are answered.
func TestRestingConnectionsWakeWhileTheyFallAsleep(t *testing.T) {
	overBoth(t, nil, func(t *testing.T, r resting) {
		all := make([]*client, 60)
		for i := range all {
			all[i] = r.dial()
			all[i].served()
		}
		for range 3 {
			began := time.Now()
			for i, c := range all { // from 220 to 280 ms on, one each ms
				time.Sleep(time.Until(began.Add(time.Duration(220+i) * time.Millisecond)))
				c.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
			}
			for _, c := range all {
				if response, _ := c.answer(); response.StatusCode != http.StatusOK {
					t.Fatalf("got %s", response.Status)
				}
			}
		}
	})
}

// TestClientThatGoesIsNoticed while its request is answered, in the first moment and later.
func TestClientThatGoesIsNoticed(t *testing.T) {
	for _, after := range []time.Duration{0, time.Millisecond, 100 * time.Millisecond, time.Hour} {
		t.Run(after.String(), func(t *testing.T) {
			var noticed atomic.Int64 // in nanoseconds since 1970
			inTime(t, func(_ http.ResponseWriter, r *http.Request) {
				<-r.Context().Done()
				noticed.Store(time.Now().UnixNano())
			}, func(t *testing.T, p pipes) {
				c := p.dial(t).send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
				time.Sleep(after)
				_ = c.Close()
				gone := time.Now()
				time.Sleep(time.Second)
				if took := time.Duration(noticed.Load() - gone.UnixNano()); took < 0 || took > 20*time.Millisecond {
					t.Errorf("noticed %v after it", took)
				}
			})
		})
	}
}

// TestAnswersFollowAtOnce: that a client may go is looked at beside the requests, and holds up none.
func TestAnswersFollowAtOnce(t *testing.T) {
	for _, takes := range []time.Duration{0, time.Millisecond, 25 * time.Millisecond} {
		t.Run(takes.String(), func(t *testing.T) {
			inTime(t, func(w http.ResponseWriter, _ *http.Request) {
				time.Sleep(takes)
				_, _ = io.WriteString(w, "here")
			}, func(t *testing.T, p pipes) {
				c, began := p.dial(t), time.Now()
				const n = 10
				for range n {
					c.served()
				}
				if took := time.Since(began); took != n*takes {
					t.Errorf("%d requests of %v took %v", n, takes, took)
				}
				time.Sleep(time.Second) // until nobody looks any more
			})
		})
	}
}

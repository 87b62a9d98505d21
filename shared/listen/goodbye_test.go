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

	"github.com/gatewright/gatewright/shared/listen"
)

// filling is a listener that can fill the system's buffers of its connections, as a client does that
// takes nothing and has asked for just as much.
type filling struct {
	net.Listener
	mu  sync.Mutex
	all []net.Conn
}

func (f *filling) Accept() (net.Conn, error) {
	c, err := f.Listener.Accept()
	if err == nil {
		if tcp, ok := c.(interface{ SetWriteBuffer(int) error }); ok {
			_ = tcp.SetWriteBuffer(16 << 10) // the system gives one that is full more room by and by, unless its size is asked for
		}
		f.mu.Lock()
		f.all = append(f.all, c)
		f.mu.Unlock()
	}
	return c, err
}

func (f *filling) fill() {
	f.mu.Lock()
	defer f.mu.Unlock()
	// A kernel that takes no more of a large piece may have room for a goodbye.
	for _, size := range []int{64 << 10, 1} {
		for _, c := range f.all {
			for err := error(nil); err == nil; {
				_ = c.SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
				_, err = c.Write(make([]byte, size))
			}
			_ = c.SetWriteDeadline(time.Time{})
		}
	}
}

// TestServerEndsBesideClientsThatTakeNothing: TLS says goodbye to each, and no end waits for one after another.
func TestServerEndsBesideClientsThatTakeNothing(t *testing.T) {
	rest := func([]*client) { time.Sleep(400 * time.Millisecond) }
	states := map[string]struct {
		protocol string
		reach    func([]*client)
	}{
		"idle":    {"http/1.1", func([]*client) {}},
		"resting": {"http/1.1", rest},
		"woken by a part of a record": {"http/1.1", func(all []*client) {
			rest(all)
			for _, c := range all {
				_, _ = c.below().Write([]byte{23, 3})
			}
			time.Sleep(50 * time.Millisecond)
		}},
		"HTTP/2": {"h2", rest},
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for state, s := range states {
		t.Run(state, func(t *testing.T) {
			l, err := listen.On(t.Context(), "127.0.0.1:0", "the test", "NOTHING")
			if err != nil {
				t.Fatal(err)
			}
			f := &filling{Listener: l}
			server := multiplexing(t, f, echo, nil)
			all := make([]*client, 5)
			for i := range all {
				all[i] = dialTLS(t, l.Addr().String(), &tls.Config{RootCAs: server.roots, NextProtos: []string{s.protocol}})
				_ = all[i].below().SetReadBuffer(4 << 10)
				if s.protocol == "h2" {
					all[i].send(http2.ClientPreface + "\x00\x00\x00\x04\x00\x00\x00\x00\x00")
				} else {
					all[i].served()
				}
			}
			s.reach(all)
			f.fill()
			began := time.Now()
			if server.Shutdown(over) != nil {
				_ = server.Close()
			}
			if took := time.Since(began); took > 4*time.Second { // one goodbye has a second
				t.Errorf("it ends after %v", took)
			}
			eventually(t, func() bool { return server.Connections() == 0 })
		})
	}
}

// below is the client's connection below TLS, or itself.
func (c *client) below() *net.TCPConn {
	if over, ok := c.Conn.(*tls.Conn); ok {
		return over.NetConn().(*net.TCPConn)
	}
	return c.Conn.(*net.TCPConn)
}

// TestRefusedClientThatTakesNoGoodbyeIsGivenUp: it has sent more than anybody reads, and has as little time to
// take the goodbye as others, however long answers may take.
func TestRefusedClientThatTakesNoGoodbyeIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := make(pipes)
		s := multiplexing(t, p, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }, func(o *listen.Options) {
			o.Settings.SendTimeout = 10 * time.Minute
		})
		c := p.dial(t)
		c.Conn = tls.Client(c.Conn, &tls.Config{RootCAs: s.roots, ServerName: "localhost", NextProtos: []string{"http/1.1"}})
		c.r.Reset(c.Conn)
		c.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n")
		if response, _ := c.answer(); response.StatusCode != http.StatusForbidden {
			t.Errorf("answered %s", response.Status)
		}
		time.Sleep(2 * time.Second)
		if n := s.Connections(); n != 0 {
			t.Errorf("%d connections are left", n)
		}
	})
}

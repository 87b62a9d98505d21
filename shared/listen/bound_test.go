package listen_test

import (
	"bufio"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/listen"
	"github.com/gatewright/gatewright/shared/socket"
)

// elsewhere is a listener whose connections come from other addresses.
type elsewhere struct {
	net.Listener
	mu   sync.Mutex
	from []string // of the connections to come
}

func (l *elsewhere) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	from := l.from[0]
	l.from = l.from[1:]
	return &visitor{c, net.TCPAddrFromAddrPort(netip.MustParseAddrPort(from))}, nil
}

type visitor struct {
	net.Conn
	from net.Addr
}

func (v *visitor) RemoteAddr() net.Addr { return v.from }

func (l *elsewhere) dial(t *testing.T, from string) *client {
	t.Helper()
	l.mu.Lock()
	l.from = append(l.from, from)
	l.mu.Unlock()
	return dial(t, l.Addr().String())
}

func listenElsewhere(t *testing.T) *elsewhere {
	t.Helper()
	l, err := listen.On(t.Context(), "127.0.0.1:0", "the test", "NOTHING")
	if err != nil {
		t.Fatal(err)
	}
	return &elsewhere{Listener: l}
}

func (c *client) served() {
	c.t.Helper()
	if response, _ := c.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").answer(); response.StatusCode != http.StatusOK {
		c.t.Errorf("got %s", response.Status)
	}
}

// TestConnectionsOfAnAddressAreBounded: one above the bound is a 503, others are
// served, and one that has ended makes room.
func TestConnectionsOfAnAddressAreBounded(t *testing.T) {
	for name, tc := range map[string]struct {
		same, other string
		bounded     bool
	}{
		"IPv4":     {"192.0.2.1:1", "192.0.2.2:1", true},
		"IPv6":     {"[2001:db8:0:1::1]:1", "[2001:db8:0:2::1]:1", true},
		"loopback": {"127.0.0.1:1", "[::1]:1", false},
		"trusted":  {"198.51.100.7:1", "198.51.100.8:1", false},
	} {
		t.Run(name, func(t *testing.T) {
			l := listenElsewhere(t)
			start(t, l, echo, func(c *config.Listener) { c.ConnectionsPerAddress = 2 })
			first := l.dial(t, tc.same)
			first.served()
			l.dial(t, tc.same).served()
			if !tc.bounded {
				l.dial(t, tc.same).served()
				return
			}
			l.dial(t, tc.same).refused(http.StatusServiceUnavailable)
			l.dial(t, tc.other).served()
			_ = first.Close()
			for range 1000 { // it is told of the end a little later
				if response, _ := l.dial(t, tc.same).send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").answer(); response.StatusCode == http.StatusOK {
					return
				}
			}
			t.Error("a connection that has ended makes no room")
		})
	}
}

// TestANetworkOfIPv6IsOneAddress: a client has as many addresses as it likes.
func TestANetworkOfIPv6IsOneAddress(t *testing.T) {
	l := listenElsewhere(t)
	start(t, l, echo, func(c *config.Listener) { c.ConnectionsPerAddress = 1 })
	l.dial(t, "[2001:db8::1]:1").served()
	l.dial(t, "[2001:db8::2]:1").refused(http.StatusServiceUnavailable)
}

func TestConnectionsInAllAreBounded(t *testing.T) {
	l := listenElsewhere(t)
	start(t, l, echo, func(c *config.Listener) { c.Connections = 3 })
	for _, from := range []string{"192.0.2.1:1", "127.0.0.1:1", "198.51.100.7:1"} {
		l.dial(t, from).served()
	}
	l.dial(t, "192.0.2.2:1").refused(http.StatusServiceUnavailable)
}

// TestListenersOfAProcessShareItsDescriptors: clients of many addresses, at several listeners, have no more connections
// than the process has descriptors for. A flood of one listener leaves some connections to the others.
func TestListenersOfAProcessShareItsDescriptors(t *testing.T) {
	const most = 16 // of which each listener keeps 2
	budget := listen.NewBudget(most)
	flooded, other := listenElsewhere(t), listenElsewhere(t)
	for _, l := range []net.Listener{flooded, other} {
		server := listen.New(listen.Options{
			Handler: http.HandlerFunc(echo), Settings: config.DefaultListener(), Budget: budget,
			IDs: ids.NewSource(rand.Reader, time.Now), Log: slog.New(slog.DiscardHandler),
		})
		go func() { _ = server.Serve(l) }()
		t.Cleanup(func() { _ = server.Close() })
	}
	for n := range most - 2 {
		flooded.dial(t, fmt.Sprintf("192.0.2.%d:1", n)).served()
	}
	flooded.dial(t, "198.51.100.1:1").refused(http.StatusServiceUnavailable)
	for n := range 2 {
		other.dial(t, fmt.Sprintf("203.0.113.%d:1", n)).served()
	}
	other.dial(t, "203.0.113.9:1").refused(http.StatusServiceUnavailable)
	flooded.dial(t, "198.51.100.2:1").refused(http.StatusServiceUnavailable)
}

// TestWaitingConnectionsCostLittle: 1,000 that are idle and 100 whose bodies stall
// have a goroutine each (two, while their handler runs), bounded memory, and keep
// nobody from being served.
func TestWaitingConnectionsCostLittle(t *testing.T) {
	const idle, stalled = 1000, 100
	if files := socket.Descriptors(); files < 4*(idle+stalled) {
		t.Skipf("%d files may be open", files)
	}
	addr := serve(t, echo)
	memory := func() (uint64, int) {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc + m.StackInuse, runtime.NumGoroutine()
	}
	dial(t, addr).served()
	before, goroutines := memory()
	clients := make([]*client, 0, idle+stalled)
	open := func() *client {
		c := dial(t, addr)
		clients = append(clients, c)
		return c
	}
	// each waits until connections have come to rest and stacks have shrunk.
	each := func(n int, most uint64) {
		t.Helper()
		var used uint64
		for range 200 {
			after, _ := memory()
			if used = (max(after, before) - before) / uint64(n); used <= most {
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
		t.Errorf("%d bytes a connection", used)
	}
	for range idle {
		c := open()
		c.served()
		c.r = nil // the client's own memory
	}
	idleBytes := uint64(4 << 10) // net/http alone holds 20 KB
	if runtime.GOOS != "linux" {
		idleBytes = 12 << 10 // each has a goroutine
	}
	if overStandard(t) {
		idleBytes = 24 << 10 // net/http keeps them
	}
	each(idle, idleBytes)
	before, _ = memory()
	for range stalled {
		c := open()
		c.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\nExpect: 100-continue\r\n\r\n")
		if _, err := io.ReadFull(c.r, make([]byte, len("HTTP/1.1 100 Continue\r\n\r\n"))); err != nil {
			t.Fatal(err)
		}
		c.r = nil
	}
	each(stalled, 32<<10)
	if _, running := memory(); running-goroutines > idle+2*stalled {
		t.Errorf("%d goroutines", running-goroutines)
	}
	dial(t, addr).served()
	for _, c := range clients[:idle] { // those that rest come back
		c.r = bufio.NewReaderSize(c, 256)
		c.served()
	}
}

// halfOpen is a connection of which the server can end its own side, as of TCP.
type halfOpen struct {
	visitor
	closed *atomic.Int32
}

func (*halfOpen) CloseWrite() error { return nil }

func (h *halfOpen) Close() error {
	h.closed.Add(1)
	return h.visitor.Close()
}

// TestRefusedConnectionsShareDescriptors: refused connections whose clients do not close them are few, over all listeners of the
// process. The others are closed at once.
func TestRefusedConnectionsShareDescriptors(t *testing.T) {
	const most, waiting, refused = 64, 2, 10
	synctest.Test(t, func(t *testing.T) {
		budget, closed := listen.NewBudget(most), new(atomic.Int32)
		for range 2 {
			p, settings := make(pipes), defaults(t)
			settings.ConnectionsPerAddress = 1
			server := listen.New(listen.Options{
				Handler: http.HandlerFunc(echo), Settings: settings, Budget: budget,
				IDs: ids.NewSource(rand.Reader, time.Now), Log: slog.New(slog.DiscardHandler),
			})
			go func() { _ = server.Serve(p) }()
			t.Cleanup(func() { _ = server.Close() })
			p.dialFrom(t, "192.0.2.1:1").served()
			for range refused {
				ours, theirs := net.Pipe()
				t.Cleanup(func() { _ = ours.Close() })
				go func() { _, _ = io.Copy(io.Discard, ours) }()
				p <- &halfOpen{visitor{theirs, net.TCPAddrFromAddrPort(netip.MustParseAddrPort("192.0.2.1:2"))}, closed}
			}
		}
		synctest.Wait()
		if open := 2*refused - closed.Load(); open != waiting {
			t.Errorf("refused connections that are open = %d, want %d", open, waiting)
		}
		time.Sleep(10 * time.Second)
		if open := 2*refused - closed.Load(); open != 0 {
			t.Errorf("refused connections that are open after 10 s = %d, want 0", open)
		}
	})
}

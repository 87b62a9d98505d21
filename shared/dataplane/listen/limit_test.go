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

	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/base/socket"
	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/dataplane/listen"
)

// addressedListener is a listener whose connections have the remote addresses that a test has set.
type addressedListener struct {
	net.Listener
	mu   sync.Mutex
	from []string // remote addresses of the next connections
}

func (l *addressedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	from := l.from[0]
	l.from = l.from[1:]
	return &addressedConn{c, net.TCPAddrFromAddrPort(netip.MustParseAddrPort(from))}, nil
}

// addressedConn is a connection with the remote address from.
type addressedConn struct {
	net.Conn
	from net.Addr
}

func (c *addressedConn) RemoteAddr() net.Addr { return c.from }

// dial opens a connection that has the remote address from on the server's side.
func (l *addressedListener) dial(t *testing.T, from string) *client {
	t.Helper()
	l.mu.Lock()
	l.from = append(l.from, from)
	l.mu.Unlock()
	return dial(t, l.Addr().String())
}

// newAddressedListener returns an addressedListener on this machine.
func newAddressedListener(t *testing.T) *addressedListener {
	t.Helper()
	l, err := listen.Open(t.Context(), "127.0.0.1:0", "the test", "NOTHING")
	if err != nil {
		t.Fatal(err)
	}
	return &addressedListener{Listener: l}
}

// mustServe sends a GET, and checks that the response is a 200.
func (c *client) mustServe() {
	c.t.Helper()
	if response, _ := c.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").readResponse(); response.StatusCode != http.StatusOK {
		c.t.Errorf("GET /: status = %s, want 200", response.Status)
	}
}

// TestConnectionsPerAddressAreLimited checks that a connection above the limit gets a 503, that
// other addresses are served, and that another connection is accepted after one has ended.
// It also checks that this limit does not apply to loopback addresses and trusted proxies.
func TestConnectionsPerAddressAreLimited(t *testing.T) {
	for name, tc := range map[string]struct {
		same, other string
		limited     bool
	}{
		"IPv4":     {"192.0.2.1:1", "192.0.2.2:1", true},
		"IPv6":     {"[2001:db8:0:1::1]:1", "[2001:db8:0:2::1]:1", true},
		"loopback": {"127.0.0.1:1", "[::1]:1", false},
		"proxy":    {"198.51.100.7:1", "198.51.100.8:1", false}, // a trusted proxy, see startLogging
	} {
		t.Run(name, func(t *testing.T) {
			l := newAddressedListener(t)
			start(t, l, echo, func(c *config.Listener) { c.ConnectionsPerAddress = 2 })
			first := l.dial(t, tc.same)
			first.mustServe()
			l.dial(t, tc.same).mustServe()
			if !tc.limited {
				l.dial(t, tc.same).mustServe()
				return
			}
			l.dial(t, tc.same).wantRefusal(http.StatusServiceUnavailable)
			l.dial(t, tc.other).mustServe()
			_ = first.Close()
			for range 1000 { // the server detects the end a bit later
				c := l.dial(t, tc.same).send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
				if response, _ := c.readResponse(); response.StatusCode == http.StatusOK {
					return
				}
			}
			t.Error("no new connection of the address is accepted after one has ended, want one")
		})
	}
}

// TestIPv6NetworkCountsAsOneAddress checks that two addresses of an IPv6 network
// share a limit, because a client can use any address of its network.
func TestIPv6NetworkCountsAsOneAddress(t *testing.T) {
	l := newAddressedListener(t)
	start(t, l, echo, func(c *config.Listener) { c.ConnectionsPerAddress = 1 })
	l.dial(t, "[2001:db8::1]:1").mustServe()
	l.dial(t, "[2001:db8::2]:1").wantRefusal(http.StatusServiceUnavailable)
}

// TestTotalConnectionsAreLimited checks that the total limit applies to all addresses, also to loopback addresses and
// trusted proxies.
func TestTotalConnectionsAreLimited(t *testing.T) {
	l := newAddressedListener(t)
	start(t, l, echo, func(c *config.Listener) { c.Connections = 3 })
	for _, from := range []string{"192.0.2.1:1", "127.0.0.1:1", "198.51.100.7:1"} {
		l.dial(t, from).mustServe()
	}
	l.dial(t, "192.0.2.2:1").wantRefusal(http.StatusServiceUnavailable)
}

// TestListenersShareABudget checks that all listeners together accept no more connections than their Budget
// allows, even from many addresses. A flood of connections to one listener leaves some connections to the other.
func TestListenersShareABudget(t *testing.T) {
	const maxConnections = 16 // each listener reserves 2 of them
	budget := listen.NewBudget(maxConnections)
	flooded, other := newAddressedListener(t), newAddressedListener(t)
	for _, l := range []net.Listener{flooded, other} {
		server := listen.New(listen.Options{
			Handler: http.HandlerFunc(echo), Settings: defaults(t), Budget: budget,
			IDs: ids.NewSource(rand.Reader, time.Now), Log: slog.New(slog.DiscardHandler),
		})
		go func() { _ = server.Serve(l) }()
		t.Cleanup(func() { _ = server.Close() })
	}
	for n := range maxConnections - 2 {
		flooded.dial(t, fmt.Sprintf("192.0.2.%d:1", n)).mustServe()
	}
	flooded.dial(t, "198.51.100.1:1").wantRefusal(http.StatusServiceUnavailable)
	for n := range 2 {
		other.dial(t, fmt.Sprintf("203.0.113.%d:1", n)).mustServe()
	}
	other.dial(t, "203.0.113.9:1").wantRefusal(http.StatusServiceUnavailable)
	flooded.dial(t, "198.51.100.2:1").wantRefusal(http.StatusServiceUnavailable)
}

// TestWaitingConnectionsUseLittleMemory checks the memory and goroutines of 1,000 idle connections
// and 100 connections with stalled bodies, and that other clients are served meanwhile.
func TestWaitingConnectionsUseLittleMemory(t *testing.T) {
	const idle, stalled = 1000, 100
	if descriptors := socket.MaxDescriptors(); descriptors < 4*(idle+stalled) {
		t.Skipf("the process can open only %d descriptors, want %d", descriptors, 4*(idle+stalled))
	}
	addr := serve(t, echo)
	memory := func() (uint64, int) {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc + m.StackInuse, runtime.NumGoroutine()
	}
	dial(t, addr).mustServe()
	before, goroutines := memory()
	clients := make([]*client, 0, idle+stalled)
	open := func() *client {
		c := dial(t, addr)
		clients = append(clients, c)
		return c
	}
	// wantMemory checks that each of n connections uses at most limit bytes. Before
	// it fails, it waits for connections to be parked and for stacks to shrink.
	wantMemory := func(n int, limit uint64) {
		t.Helper()
		var used uint64
		for range 200 {
			after, _ := memory()
			if used = (max(after, before) - before) / uint64(n); used <= limit {
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
		t.Errorf("memory of each of %d connections = %d bytes, want at most %d", n, used, limit)
	}
	for range idle {
		c := open()
		c.mustServe()
		c.r = nil // release the client's own memory
	}
	idleBytes := uint64(4 << 10) // net/http alone needs 20 KB
	if runtime.GOOS != "linux" {
		idleBytes = 12 << 10 // each connection has a goroutine
	}
	if isStandardRun(t) {
		idleBytes = 24 << 10 // net/http keeps the connections
	}
	wantMemory(idle, idleBytes)
	before, _ = memory()
	for range stalled {
		c := open()
		c.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\nExpect: 100-continue\r\n\r\n")
		if _, err := io.ReadFull(c.r, make([]byte, len("HTTP/1.1 100 Continue\r\n\r\n"))); err != nil {
			t.Fatalf("reading 100 Continue: error = %v, want none", err)
		}
		c.r = nil
	}
	wantMemory(stalled, 32<<10)
	if _, running := memory(); running-goroutines > idle+2*stalled {
		t.Errorf("new goroutines = %d, want at most %d", running-goroutines, idle+2*stalled)
	}
	dial(t, addr).mustServe()
	for _, c := range clients[:idle] { // the idle connections serve further requests
		c.r = bufio.NewReaderSize(c, 256)
		c.mustServe()
	}
}

// halfClosableConn is a connection that has CloseWrite, like TCP, and counts the calls of Close.
type halfClosableConn struct {
	addressedConn
	closed *atomic.Int32
}

func (*halfClosableConn) CloseWrite() error { return nil }

func (h *halfClosableConn) Close() error {
	h.closed.Add(1)
	return h.addressedConn.Close()
}

// TestRefusedConnectionsAreLimited checks that only a few refused connections of all listeners
// wait until their clients have read the refusal. The others must be closed immediately.
func TestRefusedConnectionsAreLimited(t *testing.T) {
	const maxConnections, waiting, refused = 64, 2, 10
	synctest.Test(t, func(t *testing.T) {
		budget, closed := listen.NewBudget(maxConnections), new(atomic.Int32)
		for range 2 {
			p, settings := make(pipes), defaults(t)
			settings.ConnectionsPerAddress = 1
			server := listen.New(listen.Options{
				Handler: http.HandlerFunc(echo), Settings: settings, Budget: budget,
				IDs: ids.NewSource(rand.Reader, time.Now), Log: slog.New(slog.DiscardHandler),
			})
			go func() { _ = server.Serve(p) }()
			t.Cleanup(func() { _ = server.Close() })
			p.dialFrom(t, "192.0.2.1:1").mustServe()
			for range refused {
				clientEnd, serverEnd := net.Pipe()
				t.Cleanup(func() { _ = clientEnd.Close() })
				go func() { _, _ = io.Copy(io.Discard, clientEnd) }()
				p <- &halfClosableConn{
					addressedConn{serverEnd, net.TCPAddrFromAddrPort(netip.MustParseAddrPort("192.0.2.1:2"))},
					closed,
				}
			}
		}
		synctest.Wait()
		if open := 2*refused - closed.Load(); open != waiting {
			t.Errorf("refused connections that wait for their clients = %d, want %d", open, waiting)
		}
		time.Sleep(10 * time.Second)
		if open := 2*refused - closed.Load(); open != 0 {
			t.Errorf("refused connections that are open after 10 s = %d, want 0", open)
		}
	})
}

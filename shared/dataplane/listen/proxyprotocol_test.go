package listen_test

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pires/go-proxyproto"

	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/dataplane/listen"
)

// trustTestProxies sets ProxyProtocol, and trusts this machine's addresses as those of proxies.
func trustTestProxies(c *config.Listener) {
	c.ProxyProtocol = true
	c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
}

// writeRemoteAddr responds with the address that a request came from.
func writeRemoteAddr(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.RemoteAddr) }

// proxyHeader returns a PROXY header for a client.
func proxyHeader(t *testing.T, version byte, client string, changes ...func(*proxyproto.Header)) string {
	t.Helper()
	from := net.TCPAddrFromAddrPort(netip.MustParseAddrPort(client))
	to := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 443}
	if from.IP.To4() == nil {
		to.IP = net.ParseIP("2001:db8::1")
	}
	h := proxyproto.HeaderProxyFromAddrs(version, from, to)
	for _, change := range changes {
		change(h)
	}
	raw, err := h.Format()
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// noFamily is the beginning of a version 2 header for a client without an address. The length must follow.
const noFamily = "\r\n\r\n\x00\r\nQUIT\n\x21\x00"

const simpleGet = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"

// TestProxyHeaderSetsTheClientAddress checks the remote address of each request
// on a connection with a PROXY header, for both versions of the protocol.
func TestProxyHeaderSetsTheClientAddress(t *testing.T) {
	for name, tc := range map[string]struct{ header, want string }{
		"version 2":         {proxyHeader(t, 2, "203.0.113.9:5"), "203.0.113.9:5"},
		"version 2 of IPv6": {proxyHeader(t, 2, "[2001:db8::9]:5"), "[2001:db8::9]:5"},
		"version 1":         {proxyHeader(t, 1, "203.0.113.9:5"), "203.0.113.9:5"},
		"version 2 with further values": {proxyHeader(t, 2, "203.0.113.9:5", func(h *proxyproto.Header) {
			_ = h.SetTLVs([]proxyproto.TLV{{Type: 4, Value: make([]byte, 3000)}})
		}), "203.0.113.9:5"},
		"version 2 of the proxy itself": {proxyHeader(t, 2, "203.0.113.9:5", func(h *proxyproto.Header) {
			h.Command = proxyproto.LOCAL
		}), "127.0.0.1:"},
		"version 1 of an unknown client":                  {"PROXY UNKNOWN\r\n", "127.0.0.1:"},
		"version 2 without a family":                      {noFamily + "\x00\x00", "127.0.0.1:"},
		"version 2 without a family, with further values": {noFamily + "\x00\x04\x04\x00\x01x", "127.0.0.1:"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newAddressedListener(t).Listener
			start(t, l, writeRemoteAddr, trustTestProxies)
			c := dial(t, l.Addr().String()).send(tc.header + simpleGet)
			for range 2 {
				if response, body := c.readResponse(); response.StatusCode != http.StatusOK || !strings.HasPrefix(body, tc.want) {
					t.Errorf("GET /: status = %s, remote address = %s, want 200 %s", response.Status, body, tc.want)
				}
				time.Sleep(300 * time.Millisecond) // until the connection is parked
				c.send(simpleGet)
			}
		})
	}
}

// TestProxyWithoutHeaderIsClosed checks that a proxy's connection without a valid PROXY
// header is closed. Otherwise other bytes would be served as a request of the proxy itself.
func TestProxyWithoutHeaderIsClosed(t *testing.T) {
	header := proxyHeader(t, 2, "203.0.113.9:5")
	for name, raw := range map[string]string{
		"no header":                           simpleGet,
		"another signature":                   strings.Replace(header, "QUIT", "QUIZ", 1) + simpleGet,
		"no family, truncated":                noFamily + "\x00",
		"no family and an unknown command":    noFamily[:12] + "\x22\x00\x00\x00" + simpleGet,
		"an unknown version":                  header[:12] + "\x31" + header[13:] + simpleGet,
		"a truncated address":                 header[:15] + "\x04" + header[16:] + simpleGet,
		"beyond the maximum size":             header[:14] + "\xff\xff" + strings.Repeat("x", 1<<16) + simpleGet,
		"version 1 without an end":            "PROXY TCP4 " + strings.Repeat("1", 200) + simpleGet,
		"version 1 with a malformed client":   "PROXY TCP4 nobody 192.0.2.1 5 443\r\n" + simpleGet,
		"a POST, which begins like version 1": "POST / HTTP/1.1\r\nHost: a\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			var logged logRecorder
			l := newAddressedListener(t).Listener
			settings := defaults(t)
			trustTestProxies(&settings)
			startLogging(t, l, http.HandlerFunc(writeRemoteAddr), slog.New(slog.NewJSONHandler(&logged, nil)), settings)
			c := dial(t, l.Addr().String())
			_ = c.SetDeadline(time.Now().Add(time.Minute)) // the server closes after five seconds, which can be deadline.Long
			_, _ = io.WriteString(c, raw)
			if response, err := io.ReadAll(c.r); len(response) > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("connection without a PROXY header: response = %q, %v, want none and EOF", response, err)
			}
			logged.mu.Lock()
			defer logged.mu.Unlock()
			if len(logged.entries) != 1 || logged.entries[0]["proxy"] != "127.0.0.1" || logged.entries[0]["level"] != "WARN" {
				t.Errorf("connection without a PROXY header: log lines = %v, want one WARN with proxy 127.0.0.1", logged.entries)
			}
		})
	}
}

// TestTCPHealthCheckIsNotLogged checks that a proxy's connection that ends without a
// byte is not logged. Load balancers normally connect and disconnect every few seconds.
// A connection that ends within a PROXY header is logged.
func TestTCPHealthCheckIsNotLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged logRecorder
		p := make(pipes)
		settings := defaults(t)
		trustTestProxies(&settings)
		settings.TrustedProxies = append(settings.TrustedProxies, netip.MustParsePrefix("192.0.2.0/24"))
		startLogging(t, &clientListener{p, "192.0.2.1:1"}, http.HandlerFunc(writeRemoteAddr),
			slog.New(slog.NewJSONHandler(&logged, nil)), settings)
		for sent, want := range map[string]int{"": 0, "P": 1, "PROXY TCP4": 1} {
			logged.mu.Lock()
			logged.entries = nil
			logged.mu.Unlock()
			c := p.dial(t)
			_, _ = io.WriteString(c, sent)
			_ = c.Close()
			synctest.Wait()
			logged.mu.Lock()
			if len(logged.entries) != want {
				t.Errorf("log lines after %q = %v, want %d", sent, logged.entries, want)
			}
			logged.mu.Unlock()
		}
	})
}

// TestSlowProxyIsClosed checks that a proxy with an incomplete header is disconnected
// after 5 s, even if it continues to send, and that other clients are served.
func TestSlowProxyIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := make(pipes)
		settings := defaults(t)
		trustTestProxies(&settings)
		settings.TrustedProxies = append(settings.TrustedProxies, netip.MustParsePrefix("192.0.2.0/24"))
		startLogging(t, &clientListener{p, "192.0.2.1:1"}, http.HandlerFunc(writeRemoteAddr), slog.New(slog.DiscardHandler),
			settings)
		slow, header := p.dial(t), proxyHeader(t, 2, "203.0.113.9:5")
		startTime := time.Now()
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			for i := range header {
				if _, err := io.WriteString(slow, header[i:i+1]); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		}()
		quick := p.dial(t)
		quick.send(header + simpleGet)
		if _, body := quick.readResponse(); body != "203.0.113.9:5" {
			t.Errorf("remote address of another client = %s, want 203.0.113.9:5", body)
		}
		if _, err := io.ReadAll(slow.r); err != nil || time.Since(startTime) != 5*time.Second {
			t.Errorf("connection closed after %s with %v, want 5 s and no error", time.Since(startTime), err)
		}
		<-closed
	})
}

// clientListener is a listener whose connections have the remote address addr.
type clientListener struct {
	net.Listener
	addr string
}

func (l *clientListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &addressedConn{c, net.TCPAddrFromAddrPort(netip.MustParseAddrPort(l.addr))}, nil
}

// TestProxyHeaderOfUntrustedClientIsRefused checks that a header of an untrusted client is refused like any malformed
// request, and that the requests of such a client without a header have the address that it connects from.
func TestProxyHeaderOfUntrustedClientIsRefused(t *testing.T) {
	for _, version := range []byte{1, 2} {
		l := newAddressedListener(t)
		start(t, l, writeRemoteAddr, trustTestProxies)
		l.dial(t, "203.0.113.66:7").send(proxyHeader(t, version, "203.0.113.9:5") + simpleGet).wantRefusal(
			http.StatusBadRequest)
		if _, body := l.dial(t, "203.0.113.66:7").send(simpleGet).readResponse(); body != "203.0.113.66:7" {
			t.Errorf("remote address of a client without a PROXY header = %s, want 203.0.113.66:7", body)
		}
	}
}

// TestProxyHeaderRequiresTheSetting checks that no PROXY header is accepted without the setting ProxyProtocol.
func TestProxyHeaderRequiresTheSetting(t *testing.T) {
	l := newAddressedListener(t).Listener
	start(t, l, writeRemoteAddr, trustTestProxies, func(c *config.Listener) { c.ProxyProtocol = false })
	dial(t, l.Addr().String()).send(proxyHeader(t, 2, "203.0.113.9:5") + simpleGet).wantRefusal(http.StatusBadRequest)
}

// TestConnectionsAreLimitedPerProxiedClient checks that the limit per
// address applies to each client behind a proxy, and not to the proxy.
func TestConnectionsAreLimitedPerProxiedClient(t *testing.T) {
	l := newAddressedListener(t).Listener
	start(t, l, writeRemoteAddr, trustTestProxies, func(c *config.Listener) { c.ConnectionsPerAddress = 1 })
	dialAs := func(client string) *client {
		return dial(t, l.Addr().String()).send(proxyHeader(t, 2, client) + simpleGet)
	}
	first := dialAs("203.0.113.9:5")
	if response, _ := first.readResponse(); response.StatusCode != http.StatusOK {
		t.Errorf("GET / of the first client: status = %s, want 200", response.Status)
	}
	dialAs("203.0.113.9:6").wantRefusal(http.StatusServiceUnavailable)
	if response, _ := dialAs("203.0.113.10:5").readResponse(); response.StatusCode != http.StatusOK {
		t.Errorf("GET / of another client: status = %s, want 200", response.Status)
	}
	_ = first.Close()
	for range 1000 { // the server detects the end a bit later
		if response, _ := dialAs("203.0.113.9:7").readResponse(); response.StatusCode == http.StatusOK {
			return
		}
	}
	t.Error("new connection after the client's first has ended: refused 1000 times, want it accepted")
}

// TestTLSStartsAfterTheProxyHeader checks that a TLS handshake can follow a PROXY header.
func TestTLSStartsAfterTheProxyHeader(t *testing.T) {
	addr, roots := newTLSServer(t, writeRemoteAddr, nil, trustTestProxies)
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if _, err := io.WriteString(c, proxyHeader(t, 2, "203.0.113.9:5")); err != nil {
		t.Fatalf("Write(PROXY header) error = %v, want none", err)
	}
	secure := tls.Client(c, &tls.Config{RootCAs: roots, ServerName: "localhost"})
	if _, err := io.WriteString(secure, simpleGet); err != nil {
		t.Fatalf("Write(GET / over TLS) error = %v, want none", err)
	}
	response, err := http.ReadResponse(bufio.NewReader(secure), nil)
	if err != nil {
		t.Fatalf("ReadResponse(GET / over TLS after a PROXY header) error = %v, want none", err)
	}
	defer func() { _ = response.Body.Close() }()
	if body, _ := io.ReadAll(response.Body); string(body) != "203.0.113.9:5" {
		t.Errorf("remote address = %s, want 203.0.113.9:5", body)
	}
}

// TestDialLocal checks that a connection of DialLocal is served, even if this machine's addresses belong to trusted proxies.
func TestDialLocal(t *testing.T) {
	for name, change := range map[string]func(*config.Listener){
		"no proxy":                func(*config.Listener) {},
		"a proxy on this machine": trustTestProxies,
		"a proxy elsewhere": func(c *config.Listener) {
			trustTestProxies(c)
			c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}
		},
		"a proxy that speaks HTTP": func(c *config.Listener) { trustTestProxies(c); c.ProxyProtocol = false },
	} {
		t.Run(name, func(t *testing.T) {
			settings := defaults(t)
			change(&settings)
			l := newAddressedListener(t).Listener
			start(t, l, writeRemoteAddr, change)
			c, err := listen.DialLocal(t.Context(), l.Addr().String(), settings)
			if err != nil {
				t.Fatalf("DialLocal() error = %v, want none", err)
			}
			defer func() { _ = c.Close() }()
			if _, err := io.WriteString(c, simpleGet); err != nil {
				t.Fatalf("Write(GET / over a connection of DialLocal) error = %v, want none", err)
			}
			response, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Fatalf("ReadResponse(GET / over a connection of DialLocal) error = %v, want none", err)
			}
			defer func() { _ = response.Body.Close() }()
			if body, _ := io.ReadAll(response.Body); string(body) != c.LocalAddr().String() {
				t.Errorf("remote address = %s, want %s", body, c.LocalAddr())
			}
		})
	}
}

// TestHTTP2StartsAfterTheProxyHeader checks that HTTP/2 works after
// a PROXY header, and that its requests have the client's address.
func TestHTTP2StartsAfterTheProxyHeader(t *testing.T) {
	s := newHTTP2Server(t, nil, writeRemoteAddr, func(o *listen.Options) {
		trustTestProxies(&o.Settings)
	})
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", s.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, proxyHeader(t, 2, "203.0.113.9:5")); err != nil {
		t.Fatal(err)
	}
	f := s.handshakeFrames(t, c)
	if got := f.waitResult(f.request(false, getFields("/")...)); got.status != "200" || got.body != "203.0.113.9:5" {
		t.Errorf("GET /: result = %+v, want 200 with 203.0.113.9:5", got)
	}
}

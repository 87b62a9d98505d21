package listen_test

import (
	"bufio"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pires/go-proxyproto"

	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/listen"
)

// proxied has the test's own addresses, and those of listenElsewhere, be trusted proxies'
// that speak the PROXY protocol.
func proxied(c *config.Listener) {
	c.ProxyProtocol = true
	c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
}

// whoIs answers the address that a request came from.
func whoIs(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.RemoteAddr) }

// introduced is a PROXY header of a client.
func introduced(t *testing.T, version byte, client string, more ...func(*proxyproto.Header)) string {
	t.Helper()
	from := net.TCPAddrFromAddrPort(netip.MustParseAddrPort(client))
	to := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 443}
	if from.IP.To4() == nil {
		to.IP = net.ParseIP("2001:db8::1")
	}
	h := proxyproto.HeaderProxyFromAddrs(version, from, to)
	for _, change := range more {
		change(h)
	}
	raw, err := h.Format()
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// noFamily is a header of version 2 whose client has no address, up to its length.
const noFamily = "\r\n\r\n\x00\r\nQUIT\n\x21\x00"

const asked = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"

// TestClientOfAProxyIsWhoItSays in either version of the protocol, and on every request of
// the connection.
func TestClientOfAProxyIsWhoItSays(t *testing.T) {
	for name, tc := range map[string]struct{ header, want string }{
		"version 2":           {introduced(t, 2, "203.0.113.9:5"), "203.0.113.9:5"},
		"version 2 of IPv6":   {introduced(t, 2, "[2001:db8::9]:5"), "[2001:db8::9]:5"},
		"version 1":           {introduced(t, 1, "203.0.113.9:5"), "203.0.113.9:5"},
		"with further values": {introduced(t, 2, "203.0.113.9:5", func(h *proxyproto.Header) { _ = h.SetTLVs([]proxyproto.TLV{{Type: 4, Value: make([]byte, 3000)}}) }), "203.0.113.9:5"},
		"of the proxy itself": {introduced(t, 2, "203.0.113.9:5", func(h *proxyproto.Header) { h.Command = proxyproto.LOCAL }), "127.0.0.1:"},
		"of an unknown":       {"PROXY UNKNOWN\r\n", "127.0.0.1:"},
		"of no family":        {noFamily + "\x00\x00", "127.0.0.1:"},
		"of no family, more":  {noFamily + "\x00\x04\x04\x00\x01x", "127.0.0.1:"},
	} {
		t.Run(name, func(t *testing.T) {
			l := listenElsewhere(t).Listener
			start(t, l, whoIs, proxied)
			c := dial(t, l.Addr().String()).send(tc.header + asked)
			for range 2 {
				if response, body := c.answer(); response.StatusCode != http.StatusOK || !strings.HasPrefix(body, tc.want) {
					t.Errorf("%s: %s, want %s", response.Status, body, tc.want)
				}
				time.Sleep(300 * time.Millisecond) // after which it rests
				c.send(asked)
			}
		})
	}
}

// TestProxyWithoutAHeaderIsClosed: what begins otherwise would be served as the proxy's own.
func TestProxyWithoutAHeaderIsClosed(t *testing.T) {
	whole := introduced(t, 2, "203.0.113.9:5")
	for name, raw := range map[string]string{
		"none":                 asked,
		"another signature":    strings.Replace(whole, "QUIT", "QUIZ", 1) + asked,
		"no family, cut off":   noFamily + "\x00",
		"no family or command": noFamily[:12] + "\x22\x00\x00\x00" + asked,
		"of no version":        whole[:12] + "\x31" + whole[13:] + asked,
		"an address cut off":   whole[:15] + "\x04" + whole[16:] + asked,
		"longer than any":      whole[:14] + "\xff\xff" + strings.Repeat("x", 1<<16) + asked,
		"a text of no end":     "PROXY TCP4 " + strings.Repeat("1", 200) + asked,
		"a text of no client":  "PROXY TCP4 nobody 192.0.2.1 5 443\r\n" + asked,
		"a POST":               "POST / HTTP/1.1\r\nHost: a\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			var told lines
			l := listenElsewhere(t).Listener
			bounds := defaults(t)
			proxied(&bounds)
			startLogging(t, l, http.HandlerFunc(whoIs), slog.New(slog.NewJSONHandler(&told, nil)), bounds)
			c := dial(t, l.Addr().String())
			_ = c.SetDeadline(time.Now().Add(time.Minute)) // the server closes after five seconds, which may be deadline.Long
			_, _ = io.WriteString(c, raw)
			if answered, _ := io.ReadAll(c.r); len(answered) > 0 {
				t.Errorf("it is answered %q", answered)
			}
			told.mu.Lock()
			defer told.mu.Unlock()
			if len(told.all) != 1 || told.all[0]["proxy"] != "127.0.0.1" || told.all[0]["level"] != "WARN" {
				t.Errorf("it has the lines %v", told.all)
			}
		})
	}
}

// TestCheckByTCPHasNoLine: a balancer that connects and goes does so every few seconds, and is set up right.
func TestCheckByTCPHasNoLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told lines
		p := make(pipes)
		bounds := defaults(t)
		proxied(&bounds)
		bounds.TrustedProxies = append(bounds.TrustedProxies, netip.MustParsePrefix("192.0.2.0/24"))
		startLogging(t, &from{p, "192.0.2.1:1"}, http.HandlerFunc(whoIs), slog.New(slog.NewJSONHandler(&told, nil)), bounds)
		for sent, want := range map[string]int{"": 0, "P": 1, "PROXY TCP4": 1} {
			told.mu.Lock()
			told.all = nil
			told.mu.Unlock()
			c := p.dial(t)
			_, _ = io.WriteString(c, sent)
			_ = c.Close()
			synctest.Wait()
			told.mu.Lock()
			if len(told.all) != want {
				t.Errorf("after %q it has the lines %v", sent, told.all)
			}
			told.mu.Unlock()
		}
	})
}

// TestSlowProxyIsClosed after 5 s, however it goes on, and keeps nobody from being served.
func TestSlowProxyIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := make(pipes)
		bounds := defaults(t)
		proxied(&bounds)
		bounds.TrustedProxies = append(bounds.TrustedProxies, netip.MustParsePrefix("192.0.2.0/24"))
		startLogging(t, &from{p, "192.0.2.1:1"}, http.HandlerFunc(whoIs), slog.New(slog.DiscardHandler), bounds)
		slow, whole := p.dial(t), introduced(t, 2, "203.0.113.9:5")
		begun := time.Now()
		gaveUp := make(chan struct{})
		go func() {
			defer close(gaveUp)
			for i := range whole {
				if _, err := io.WriteString(slow, whole[i:i+1]); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		}()
		quick := p.dial(t)
		quick.send(whole + asked)
		if _, body := quick.answer(); body != "203.0.113.9:5" {
			t.Error(body)
		}
		if _, err := io.ReadAll(slow.r); err != nil || time.Since(begun) != 5*time.Second {
			t.Errorf("it ends after %s, %v", time.Since(begun), err)
		}
		<-gaveUp
	})
}

// from is a listener whose connections come from one address.
type from struct {
	net.Listener
	addr string
}

func (l *from) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &visitor{c, net.TCPAddrFromAddrPort(netip.MustParseAddrPort(l.addr))}, nil
}

// TestStrangersHeaderIsARequest that is refused as any other of no known form: who is no
// trusted proxy has the address that it connects from.
func TestStrangersHeaderIsARequest(t *testing.T) {
	for _, version := range []byte{1, 2} {
		l := listenElsewhere(t)
		start(t, l, whoIs, proxied)
		l.dial(t, "203.0.113.66:7").send(introduced(t, version, "203.0.113.9:5") + asked).refused(http.StatusBadRequest)
		if _, body := l.dial(t, "203.0.113.66:7").send(asked).answer(); body != "203.0.113.66:7" {
			t.Errorf("a stranger without one comes from %s", body)
		}
	}
}

// TestHeaderOfAProxyNeedsTheSetting: else it is a stranger's, whoever sends it.
func TestHeaderOfAProxyNeedsTheSetting(t *testing.T) {
	l := listenElsewhere(t).Listener
	start(t, l, whoIs, proxied, func(c *config.Listener) { c.ProxyProtocol = false })
	dial(t, l.Addr().String()).send(introduced(t, 2, "203.0.113.9:5") + asked).refused(http.StatusBadRequest)
}

// TestConnectionsOfAProxysClientAreBounded, and the proxy's are not.
func TestConnectionsOfAProxysClientAreBounded(t *testing.T) {
	l := listenElsewhere(t).Listener
	start(t, l, whoIs, proxied, func(c *config.Listener) { c.ConnectionsPerAddress = 1 })
	of := func(client string) *client { return dial(t, l.Addr().String()).send(introduced(t, 2, client) + asked) }
	first := of("203.0.113.9:5")
	if response, _ := first.answer(); response.StatusCode != http.StatusOK {
		t.Error(response.Status)
	}
	of("203.0.113.9:6").refused(http.StatusServiceUnavailable)
	if response, _ := of("203.0.113.10:5").answer(); response.StatusCode != http.StatusOK {
		t.Error(response.Status)
	}
	_ = first.Close()
	for range 1000 { // it is told of the end a little later
		if response, _ := of("203.0.113.9:7").answer(); response.StatusCode == http.StatusOK {
			return
		}
	}
	t.Error("a connection that has ended makes no room")
}

// TestTLSBeginsBehindTheHeader.
func TestTLSBeginsBehindTheHeader(t *testing.T) {
	addr, roots := secured(t, whoIs, nil, proxied)
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if _, err := io.WriteString(c, introduced(t, 2, "203.0.113.9:5")); err != nil {
		t.Fatal(err)
	}
	secure := tls.Client(c, &tls.Config{RootCAs: roots, ServerName: "localhost"})
	if _, err := io.WriteString(secure, asked); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(secure), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if body, _ := io.ReadAll(response.Body); string(body) != "203.0.113.9:5" {
		t.Errorf("%s", body)
	}
}

// TestThisMachineReachesItsOwnListeners also where its own addresses are a proxy's: a start would wait for ever.
func TestThisMachineReachesItsOwnListeners(t *testing.T) {
	for name, change := range map[string]func(*config.Listener){
		"no proxy":                func(*config.Listener) {},
		"a proxy on this machine": proxied,
		"a proxy elsewhere": func(c *config.Listener) {
			proxied(c)
			c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}
		},
		"a proxy that speaks HTTP": func(c *config.Listener) { proxied(c); c.ProxyProtocol = false },
	} {
		t.Run(name, func(t *testing.T) {
			settings := defaults(t)
			change(&settings)
			l := listenElsewhere(t).Listener
			start(t, l, whoIs, change)
			c, err := listen.DialOwn(t.Context(), l.Addr().String(), settings)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = c.Close() }()
			if _, err := io.WriteString(c, asked); err != nil {
				t.Fatal(err)
			}
			response, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = response.Body.Close() }()
			if body, _ := io.ReadAll(response.Body); string(body) != c.LocalAddr().String() {
				t.Errorf("it comes from %s, want %s", body, c.LocalAddr())
			}
		})
	}
}

// TestHTTP2BeginsBehindTheHeader, and its requests are those of the client that it names.
func TestHTTP2BeginsBehindTheHeader(t *testing.T) {
	s := multiplexing(t, nil, whoIs, func(o *listen.Options) {
		proxied(&o.Settings)
	})
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", s.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, introduced(t, 2, "203.0.113.9:5")); err != nil {
		t.Fatal(err)
	}
	f := s.framesOver(t, c)
	if got := f.answer(f.request(false, usual("/")...)); got.status != "200" || got.body != "203.0.113.9:5" {
		t.Errorf("got %+v", got)
	}
}

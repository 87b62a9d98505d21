package main

import (
	"bufio"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/gatewright/gatewright/shared/tunnel"
)

// TestWhatIsNoRelayIsToldInSentences connects to what is no relay, or none for us. What it
// prints has no byte that such a server has sent.
func TestWhatIsNoRelayIsToldInSentences(t *testing.T) {
	const switched = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "
	closed := listen(t, nil)
	_ = closed.Close()
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	host := func(s *httptest.Server) string { return s.Listener.Addr().String() }
	for _, c := range []struct {
		name, relay string
		want        string
	}{
		{"nobody", "http://" + closed.Addr().String(), "warning: nothing listens at"},
		{"a name of none", "https://relay.invalid", "relay.invalid"},
		{"another server", plain.URL, "answers 404 Not Found: check that it is a relay's address"},
		{"plain for TLS", "https://" + host(plain), "does not speak TLS: check the port"},
		{"TLS for plain", "http://" + host(secure), "answers 400 Bad Request"},
		{"an authority of its own", secure.URL, "of an authority that this machine does not trust; if it is one of yours, name its certificate with --ca-file"},
		{"garbage", answering(t, "\x1b]0;gotcha\x07\r\n\r\n"), "is no relay, or a proxy in between"},
		{"another protocol", answering(t, switched+"\x1b[31mh2c\r\n\r\n"), "is no relay, or a proxy in between"},
		{"garbage after the switch", answering(t, switched+tunnel.Protocol+"\r\n\r\n"+strings.Repeat("gotcha\x1b", 100)), "is no relay, or a proxy in between"},
		{"an end", answering(t, ""), "ends the connection without an answer"},
		{"too many", answering(t, "HTTP/1.1 429 gotcha\r\nContent-Length: 0\r\n\r\n"), "as many connections of the tunnel as it may have (429)"},
		{"too busy", answering(t, "HTTP/1.1 503 \x1b[31mgotcha\r\nContent-Length: 0\r\n\r\n"), "takes no agents just now (503)"},
		{"a proxy's refusal", answering(t, "HTTP/1.1 403 gotcha\r\nContent-Length: 0\r\n\r\n"), "answers 403 Forbidden: check that it is a relay's address; where a proxy is in between"},
		{"a redirect", answering(t, "HTTP/1.1 302 gotcha\r\nLocation: http://192.0.2.1/\r\nContent-Length: 0\r\n\r\n"), "answers 302 Found"},
	} {
		for _, flag := range []string{"--websocket=false", "--websocket"} {
			t.Run(c.name+" "+flag, func(t *testing.T) {
				if flag == "--websocket" && strings.Contains(c.name, "after the switch") {
					t.Skip("a WebSocket's answer has a key of the agent's in it")
				}
				t.Parallel()
				p := start(t, []string{"TUNNEL_TOKEN=" + token}, "tunnel", "connect", "--relay", c.relay, flag)
				p.until("; trying again in ")
				p.signal(syscall.SIGTERM)
				p.ends(0, c.want)
				if strings.ContainsAny(p.printed(), "\x1b\x07") || strings.Contains(p.printed(), "gotcha") {
					t.Errorf("it prints what the server has sent: %q", p.printed())
				}
				if strings.Contains(p.printed(), "connected:") {
					t.Errorf("it says that it is connected:\n%s", p.printed())
				}
			})
		}
	}
	for _, flag := range []string{"--websocket=false", "--websocket"} {
		refusing := answering(t, "HTTP/1.1 401 gotcha\r\nContent-Length: 0\r\n\r\n")
		p := start(t, []string{"TUNNEL_TOKEN=" + token}, "tunnel", "connect", "--relay", refusing, flag)
		p.ends(3, "error: the relay refuses the token")
		if strings.Contains(p.printed(), "trying again") || strings.Contains(p.printed(), "stay") {
			t.Errorf("it speaks of connections that never were there:\n%s", p.printed())
		}
	}
}

// TestMachineWithoutAuthoritiesHasThoseOfTheBuild: it looks at the certificate of a stranger, and can tell whose it is not.
func TestMachineWithoutAuthoritiesHasThoseOfTheBuild(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the environment says which authorities there are on Linux alone")
	}
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	none := t.TempDir()
	p := start(t, []string{"TUNNEL_TOKEN=" + token, "SSL_CERT_FILE=" + none, "SSL_CERT_DIR=" + none}, "tunnel", "connect", "--relay", secure.URL)
	p.until("; trying again in ")
	p.signal(syscall.SIGTERM)
	p.ends(0, "of an authority that this machine does not trust")
}

// TestSilentRelayIsLeft stops it while it waits for a relay that says nothing.
func TestSilentRelayIsLeft(t *testing.T) {
	accepted := make(chan struct{}, 10)
	l := listen(t, func(net.Conn) {
		accepted <- struct{}{}
		select {}
	})
	p := start(t, []string{"TUNNEL_TOKEN=" + token}, "tunnel", "connect", "--relay", "http://"+l.Addr().String())
	<-accepted
	p.signal(syscall.SIGTERM)
	p.ends(0, "stopped")
}

// listen accepts connections, and has each served on its own.
func listen(t *testing.T, serve func(net.Conn)) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go serve(c)
		}
	}()
	return l
}

// answering is the address of a server that answers each request with a text, and reads what
// comes then.
func answering(t *testing.T, text string) string {
	t.Helper()
	return "http://" + listen(t, func(c net.Conn) {
		defer func() { _ = c.Close() }()
		r := bufio.NewReader(c)
		if _, err := http.ReadRequest(r); err != nil {
			return
		}
		if _, err := io.WriteString(c, text); err == nil && text != "" {
			_, _ = io.Copy(io.Discard, r)
		}
	}).Addr().String()
}

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

	"github.com/gatewright/gatewright/shared/format/tunnel"
)

// TestRelayErrorIsExplained connects to servers that are no relay, and to incompatible relays. The output must not
// contain control characters from a server.
func TestRelayErrorIsExplained(t *testing.T) {
	const switchResponse = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "
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
		{"closed port", "http://127.0.0.1:1", "warning: nothing listens at"},
		{"unknown host", "https://relay.invalid", "relay.invalid"},
		{"another server", plain.URL, "answers 404 Not Found: check that it is a relay's address"},
		{"plain HTTP server for TLS", "https://" + host(plain), "does not speak TLS: check the port"},
		{"TLS server for plain HTTP", "http://" + host(secure), "answers 400 Bad Request"},
		{"unknown authority", secure.URL, "of an authority that this machine does not trust; if it is one of yours, " +
			"name its certificate with --ca-file"},
		{"garbage", newTextServer(t, "\x1b]0;gotcha\x07\r\n\r\n"), "is no relay, or a proxy in between"},
		{"another protocol", newTextServer(t, switchResponse+"\x1b[31mh2c\r\n\r\n"), "is no relay, or a proxy in between"},
		{
			"garbage after the upgrade",
			newTextServer(t, switchResponse+tunnel.Protocol+"\r\n\r\n"+strings.Repeat("gotcha\x1b", 100)),
			"is no relay, or a proxy in between",
		},
		{"closed connection", newTextServer(t, ""), "ends the connection without an answer"},
		{
			"too many connections", newTextServer(t, "HTTP/1.1 429 gotcha\r\nContent-Length: 0\r\n\r\n"),
			"as many connections of the tunnel as it may have (429)",
		},
		{
			"busy relay", newTextServer(t, "HTTP/1.1 503 \x1b[31mgotcha\r\nContent-Length: 0\r\n\r\n"),
			"takes no agents just now (503)",
		},
		{
			"refusal of a proxy", newTextServer(t, "HTTP/1.1 403 gotcha\r\nContent-Length: 0\r\n\r\n"),
			"answers 403 Forbidden: check that it is a relay's address; where a proxy is in between",
		},
		{
			"a redirect", newTextServer(t, "HTTP/1.1 302 gotcha\r\nLocation: http://192.0.2.1/\r\nContent-Length: 0\r\n\r\n"),
			"answers 302 Found",
		},
	} {
		for _, flag := range []string{"--websocket=false", "--websocket"} {
			t.Run(c.name+" "+flag, func(t *testing.T) {
				t.Parallel()
				p := start(t, []string{"TUNNEL_TOKEN=" + token}, "tunnel", "connect", "--relay", c.relay, flag)
				p.waitFor("; trying again in ")
				p.signal(syscall.SIGTERM)
				p.expectExit(0, c.want)
				if strings.ContainsAny(p.outputText(), "\x1b\x07") || strings.Contains(p.outputText(), "gotcha") {
					t.Errorf("output = %q, want no text that the server sends", p.outputText())
				}
				if strings.Contains(p.outputText(), "connected:") {
					t.Errorf("output =\n%s\nwant no \"connected:\"", p.outputText())
				}
			})
		}
	}
	for _, flag := range []string{"--websocket=false", "--websocket"} {
		refusingRelay := newTextServer(t, "HTTP/1.1 401 gotcha\r\nContent-Length: 0\r\n\r\n")
		p := start(t, []string{"TUNNEL_TOKEN=" + token}, "tunnel", "connect", "--relay", refusingRelay, flag)
		p.expectExit(3, "error: the relay refuses the token")
		if strings.Contains(p.outputText(), "trying again") || strings.Contains(p.outputText(), "stay") {
			t.Errorf("output after a refusal =\n%s\nwant nothing about connections", p.outputText())
		}
	}
}

// TestEmbeddedRootsAreFallback checks that the binary uses its own root certificates on a machine that has none. It
// must still refuse the certificate of an untrusted authority: without any root certificates, the error would be
// another one.
func TestEmbeddedRootsAreFallback(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("environment variables can remove the system's root certificates only on Linux")
	}
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	none := t.TempDir()
	p := start(t, []string{"TUNNEL_TOKEN=" + token, "SSL_CERT_FILE=" + none, "SSL_CERT_DIR=" + none}, "tunnel", "connect",
		"--relay", secure.URL)
	p.waitFor("; trying again in ")
	p.signal(syscall.SIGTERM)
	p.expectExit(0, "of an authority that this machine does not trust")
}

// TestSignalStopsAgentWithUnresponsiveRelay checks that a signal stops the agent while it waits for a relay that sends
// nothing.
func TestSignalStopsAgentWithUnresponsiveRelay(t *testing.T) {
	accepted := make(chan struct{}, 10)
	l := listen(t, func(net.Conn) {
		accepted <- struct{}{}
		select {}
	})
	p := start(t, []string{"TUNNEL_TOKEN=" + token}, "tunnel", "connect", "--relay", "http://"+l.Addr().String())
	<-accepted
	p.signal(syscall.SIGTERM)
	p.expectExit(0, "stopped")
}

// listen accepts connections and serves each in its own goroutine.
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

// newTextServer returns the address of a server that responds to each request with a text, and then reads until the
// client closes the connection.
func newTextServer(t *testing.T, text string) string {
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

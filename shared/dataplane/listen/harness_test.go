package listen_test

import (
	"bufio"
	"crypto/rand"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/dataplane/listen"
	"github.com/gatewright/gatewright/shared/management/api"
	"github.com/gatewright/gatewright/shared/testing/deadline"
)

// defaults returns the settings for a test's servers. In a subtest of TestStandard, they have StandardHTTP.
func defaults(t *testing.T) config.Listener {
	t.Helper()
	settings := config.DefaultListener()
	settings.StandardHTTP = isStandardRun(t)
	return settings
}

// serve starts a server and returns its address. The server has the default settings
// with these changes. Without changes, its timeouts are too long for a test to reach.
func serve(t *testing.T, h http.HandlerFunc, changes ...func(*config.Listener)) string {
	t.Helper()
	l, err := listen.Open(t.Context(), "127.0.0.1:0", "the test", "NOTHING")
	if err != nil {
		t.Fatal(err)
	}
	start(t, l, h, changes...)
	return l.Addr().String()
}

// start starts a server at l, with the default settings and these changes.
func start(t *testing.T, l net.Listener, h http.HandlerFunc, changes ...func(*config.Listener)) {
	t.Helper()
	settings := defaults(t)
	for _, set := range changes {
		set(&settings)
	}
	startLogging(t, l, h, slog.New(slog.DiscardHandler), settings)
}

// startLogging starts a server with a log. The server trusts the proxies of 198.51.100.0/24.
func startLogging(t *testing.T, l net.Listener, h http.Handler, log *slog.Logger, settings config.Listener) {
	t.Helper()
	settings.TrustedProxies = append(settings.TrustedProxies, netip.MustParsePrefix("198.51.100.0/24"))
	server := listen.New(listen.Options{
		Handler: h, Settings: settings, IDs: ids.NewSource(rand.Reader, time.Now), Log: log,
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l)
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-done
	})
}

// client is a raw connection to a server.
type client struct {
	net.Conn
	t *testing.T
	r *bufio.Reader
}

// dial opens a connection to addr. Its reads and writes fail after deadline.Long.
func dial(t *testing.T, addr string) *client {
	t.Helper()
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	_ = c.SetDeadline(time.Now().Add(deadline.Timeout())) // so that a test fails instead of waiting forever
	return newClient(t, c)
}

func newClient(t *testing.T, c net.Conn) *client {
	t.Helper()
	t.Cleanup(func() { _ = c.Close() })
	return &client{c, t, bufio.NewReader(c)}
}

// send writes raw to the connection.
func (c *client) send(raw string) *client {
	c.t.Helper()
	if _, err := io.WriteString(c, raw); err != nil {
		c.t.Fatalf("Write(%.60q) error = %v, want none", raw, err)
	}
	return c
}

// readResponse reads one response.
func (c *client) readResponse() (*http.Response, string) {
	c.t.Helper()
	response, err := http.ReadResponse(c.r, nil)
	if err != nil {
		c.t.Fatalf("ReadResponse() error = %v, want a response", err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		c.t.Fatalf("ReadAll(body of the response, status %s) error = %v, want none", response.Status, err)
	}
	return response, string(body)
}

// wantRefusal checks that the next response is a problem with this status, and that the connection then ends.
func (c *client) wantRefusal(status int) {
	c.t.Helper()
	response, body := c.readResponse()
	if response.StatusCode != status || response.Header.Get("Content-Type") != "application/problem+json" {
		c.t.Fatalf("refusal: status = %s, Content-Type = %s, body = %s, want %d application/problem+json",
			response.Status, response.Header.Get("Content-Type"), body, status)
	}
	var p api.Problem
	if err := json.Unmarshal([]byte(body), &p); err != nil {
		c.t.Fatalf("Unmarshal(problem %s) error = %v, want none", body, err)
	}
	if p.Status != status || p.Title == "" || p.Detail == "" || !strings.HasSuffix(p.Type, response.Status[:3]) {
		c.t.Errorf("problem = %+v, want status %d with its type, title and detail", p, status)
	}
	if p.Trace == nil || p.Trace.RequestID == "" || p.Trace.RequestID != response.Header.Get("X-Request-Id") {
		c.t.Errorf("trace of the problem = %+v, want the request ID of the header, %q",
			p.Trace, response.Header.Get("X-Request-Id"))
	} else if _, err := time.Parse("2006-01-02T15:04:05.000Z", p.Trace.Timestamp); err != nil {
		c.t.Errorf("timestamp of the problem = %q, want UTC with milliseconds", p.Trace.Timestamp)
	}
	if !response.Close {
		c.t.Error("response without Connection: close, want this field")
	}
	c.mustEnd()
}

// mustEnd checks that the server sends nothing more, and ends the connection without a reset.
func (c *client) mustEnd() {
	c.t.Helper()
	if b, err := c.r.ReadByte(); err != io.EOF {
		c.t.Errorf("ReadByte() after the response = %q, %v, want EOF", b, err)
	}
}

// echo responds with the method, host, path and body of the request.
func echo(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	_, _ = io.WriteString(w, r.Method+" "+r.Host+" "+r.RequestURI+" "+string(body))
}

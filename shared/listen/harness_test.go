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

	"github.com/gatewright/gatewright/internal/deadline"
	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/listen"
)

// defaults are the settings of the test's servers. In a test of TestStandard net/http reads requests itself.
func defaults(t *testing.T) config.Listener {
	t.Helper()
	bounds := config.DefaultListener()
	bounds.StandardHTTP = overStandard(t)
	return bounds
}

// serve starts a server, with waits that no test reaches unless it says so.
func serve(t *testing.T, h http.HandlerFunc, settings ...func(*config.Listener)) string {
	t.Helper()
	l, err := listen.On(t.Context(), "127.0.0.1:0", "the test", "NOTHING")
	if err != nil {
		t.Fatal(err)
	}
	start(t, l, h, settings...)
	return l.Addr().String()
}

func start(t *testing.T, l net.Listener, h http.HandlerFunc, settings ...func(*config.Listener)) {
	t.Helper()
	bounds := defaults(t)
	for _, set := range settings {
		set(&bounds)
	}
	startLogging(t, l, h, slog.New(slog.DiscardHandler), bounds)
}

func startLogging(t *testing.T, l net.Listener, h http.Handler, log *slog.Logger, bounds config.Listener) {
	t.Helper()
	bounds.TrustedProxies = append(bounds.TrustedProxies, netip.MustParsePrefix("198.51.100.0/24"))
	server := listen.New(listen.Options{
		Handler: h, Settings: bounds, IDs: ids.NewSource(rand.Reader, time.Now), Log: log,
	})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(l)
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-ended
	})
}

// client is a raw connection.
type client struct {
	net.Conn
	t *testing.T
	r *bufio.Reader
}

func dial(t *testing.T, addr string) *client {
	t.Helper()
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	_ = c.SetDeadline(time.Now().Add(deadline.Long())) // a test fails rather than waits
	return newClient(t, c)
}

func newClient(t *testing.T, c net.Conn) *client {
	t.Helper()
	t.Cleanup(func() { _ = c.Close() })
	return &client{c, t, bufio.NewReader(c)}
}

func (c *client) send(raw string) *client {
	c.t.Helper()
	if _, err := io.WriteString(c, raw); err != nil {
		c.t.Fatal(err)
	}
	return c
}

// answer reads one response.
func (c *client) answer() (*http.Response, string) {
	c.t.Helper()
	response, err := http.ReadResponse(c.r, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return response, string(body)
}

// refused reads a problem, and then the connection's end.
func (c *client) refused(status int) {
	c.t.Helper()
	response, body := c.answer()
	if response.StatusCode != status || response.Header.Get("Content-Type") != "application/problem+json" {
		c.t.Fatalf("%s, %s: %s", response.Status, response.Header.Get("Content-Type"), body)
	}
	var p api.Problem
	if err := json.Unmarshal([]byte(body), &p); err != nil {
		c.t.Fatal(err)
	}
	if p.Status != status || p.Title == "" || p.Detail == "" || !strings.HasSuffix(p.Type, response.Status[:3]) {
		c.t.Errorf("problem %+v", p)
	}
	if p.Trace == nil || p.Trace.RequestID == "" || p.Trace.RequestID != response.Header.Get("X-Request-Id") {
		c.t.Errorf("the problem's trace is %+v, the header says %q", p.Trace, response.Header.Get("X-Request-Id"))
	} else if _, err := time.Parse("2006-01-02T15:04:05.000Z", p.Trace.Timestamp); err != nil {
		c.t.Errorf("timestamp: %v", err)
	}
	if !response.Close {
		c.t.Error("the connection is not said to close")
	}
	c.end()
}

// end reads the connection's end: no reset.
func (c *client) end() {
	c.t.Helper()
	if b, err := c.r.ReadByte(); err != io.EOF {
		c.t.Errorf("after the answer: byte %q, error %v", b, err)
	}
}

// echo answers what it was asked, and the body.
func echo(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	_, _ = io.WriteString(w, r.Method+" "+r.Host+" "+r.RequestURI+" "+string(body))
}

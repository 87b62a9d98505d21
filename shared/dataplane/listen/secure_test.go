package listen_test

import (
	"bufio"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/base/pki/pkitest"
	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/dataplane/listen"
	"github.com/gatewright/gatewright/shared/testing/deadline"
)

// newTLSServer starts a TLS server for localhost that offers HTTP/1.1, unless change sets
// other protocols. It returns the server's address and the CA of its certificate.
func newTLSServer(
	t *testing.T, h http.HandlerFunc, change func(*tls.Config), changes ...func(*config.Listener),
) (addr string, roots *x509.CertPool) {
	t.Helper()
	ca := pkitest.CA(t, "CA", time.Now())
	serverConfig := &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
		Certificates: []tls.Certificate{ca.Server(t, time.Now()).TLS(t)},
	}
	if change != nil {
		change(serverConfig)
	}
	l, err := listen.Open(t.Context(), "127.0.0.1:0", "the test", "NOTHING")
	if err != nil {
		t.Fatal(err)
	}
	settings := defaults(t)
	for _, set := range changes {
		set(&settings)
	}
	server := listen.New(listen.Options{
		Handler: h, Settings: settings, IDs: ids.NewSource(rand.Reader, time.Now), Log: slog.New(slog.DiscardHandler),
		TLS: serverConfig,
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
	return l.Addr().String(), ca.Pool()
}

// dialTLS opens a TLS connection to the server for localhost at addr.
func dialTLS(t *testing.T, addr string, config *tls.Config) *client {
	t.Helper()
	config.ServerName = "localhost"
	c, err := (&tls.Dialer{Config: config}).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	_ = c.SetDeadline(time.Now().Add(deadline.Timeout()))
	return newClient(t, c)
}

// TestTLSMatchesPlainHTTP checks that a TLS connection serves requests, also after it was
// parked, and that it refuses an ambiguous request like a connection without TLS.
func TestTLSMatchesPlainHTTP(t *testing.T) {
	addr, roots := newTLSServer(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = io.WriteString(w, r.Method+" "+string(body)+" "+tls.VersionName(r.TLS.Version))
	}, nil)
	c := dialTLS(t, addr, &tls.Config{RootCAs: roots})
	for range 2 {
		c.send("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\nok")
		if response, body := c.readResponse(); response.StatusCode != http.StatusOK || body != "POST ok TLS 1.3" {
			t.Errorf("POST /: status = %s, body = %s, want 200 with TLS 1.3", response.Status, body)
		}
		time.Sleep(300 * time.Millisecond) // until the connection is parked
	}
	// The second of two pipelined requests is ambiguous: it is refused after the response to the first.
	c.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\nGET / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: " +
		"chunked\r\nContent-Length: 3\r\n\r\nabc")
	if response, _ := c.readResponse(); response.StatusCode != http.StatusOK {
		t.Errorf("GET / before an ambiguous request: status = %s, want 200", response.Status)
	}
	c.wantRefusal(400)
}

func TestTLSLongResponsesAndBodies(t *testing.T) {
	long := strings.Repeat("0123456789abcdef", 1<<16)
	addr, roots := newTLSServer(t, func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		if n != int64(len(long)) {
			w.WriteHeader(http.StatusBadRequest)
		}
		_, _ = io.WriteString(w, long)
	}, nil)
	transport := &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: roots, ServerName: "localhost"},
		ForceAttemptHTTP2: true,
	}
	defer transport.CloseIdleConnections()
	for range 3 {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+addr, strings.NewReader(long))
		if err != nil {
			t.Fatal(err)
		}
		response, err := transport.RoundTrip(r)
		if err != nil {
			t.Fatalf("RoundTrip(POST /) error = %v, want none", err)
		}
		body, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil || string(body) != long || response.StatusCode != http.StatusOK || response.ProtoMajor != 1 {
			t.Fatalf("POST / = %s %s, %d bytes (as written: %t), %v, want HTTP/1.1 200 with the %d bytes written",
				response.Proto, response.Status, len(body), string(body) == long, err, len(long))
		}
	}
}

// TestTLSSlowClientIsServed checks that a slow client receives a whole response. It would fail
// if write deadlines applied to the TLS connection, which can't be used after a write has timed out.
func TestTLSSlowClientIsServed(t *testing.T) {
	const size = 8 << 20
	addr, roots := newTLSServer(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(make([]byte, size))
	}, nil, func(l *config.Listener) { l.SendTimeout = 2 * time.Second })
	c := dialTLS(t, addr, &tls.Config{RootCAs: roots})
	c.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
	response, err := http.ReadResponse(c.r, nil)
	if err != nil {
		t.Fatalf("ReadResponse(GET /) error = %v, want none", err)
	}
	defer func() { _ = response.Body.Close() }()
	total := 0
	buffer := make([]byte, size/30)
	for total < size {
		time.Sleep(100 * time.Millisecond) // in total 3 s, which is longer than SendTimeout
		n, err := io.ReadFull(response.Body, buffer[:min(len(buffer), size-total)])
		if total += n; err != nil {
			t.Fatalf("reading the response slowly: error after %d bytes = %v, want none", total, err)
		}
	}
}

// TestTLSClientThatDoesNotReadIsClosed checks that the write of a response fails if the client does not read it.
func TestTLSClientThatDoesNotReadIsClosed(t *testing.T) {
	handlerErr := make(chan error, 1)
	addr, roots := newTLSServer(t, func(w http.ResponseWriter, _ *http.Request) {
		_, err := w.Write(make([]byte, 64<<20))
		handlerErr <- err
	}, nil, func(l *config.Listener) { l.SendTimeout = 200 * time.Millisecond })
	c := dialTLS(t, addr, &tls.Config{RootCAs: roots})
	c.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
	select {
	case err := <-handlerErr:
		if err == nil {
			t.Error("writing 64 MB to a client that does not read: error = nil, want an error")
		}
	case <-time.After(deadline.Timeout()):
		t.Errorf("writing 64 MB to a client that does not read: no result after %v, want an error", deadline.Timeout())
	}
}

// TestStalledHandshakeTimesOut checks that a connection is closed without a response if its handshake does not begin,
// or is not complete, within HeaderTimeout.
func TestStalledHandshakeTimesOut(t *testing.T) {
	addr, _ := newTLSServer(t, func(http.ResponseWriter, *http.Request) {}, nil,
		func(l *config.Listener) { l.HeaderTimeout = 100 * time.Millisecond })
	for _, sent := range []string{"", "\x16\x03\x01\x02\x00\x01"} {
		c := dial(t, addr).send(sent)
		if b, err := io.ReadAll(c); len(b) > 0 || err != nil {
			t.Errorf("handshake with %q: response = %q, %v, want the connection closed without a response", sent, b, err)
		}
	}
}

func TestPlainRequestToTLSIsRefused(t *testing.T) {
	addr, _ := newTLSServer(t, func(http.ResponseWriter, *http.Request) {}, nil)
	dial(t, addr).send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").wantRefusal(400)
}

func TestOtherProtocolsCloseAfterTheHandshake(t *testing.T) {
	addr, roots := newTLSServer(t, func(http.ResponseWriter, *http.Request) {
		t.Error("the handler got a request of another protocol, want none")
	},
		func(c *tls.Config) { c.NextProtos = []string{"http/1.1", "h2", "acme-tls/1"} })
	for _, protocol := range []string{"acme-tls/1"} {
		c := dialTLS(t, addr, &tls.Config{RootCAs: roots, NextProtos: []string{protocol}})
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
		if b, err := bufio.NewReader(c).ReadByte(); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("request over %s: first byte = %q, %v, want none, and the connection closed", protocol, b, err)
		}
	}
}

func TestTLSTooManyConnectionsAreClosed(t *testing.T) {
	addr, roots := newTLSServer(t, func(http.ResponseWriter, *http.Request) {}, nil, func(l *config.Listener) {
		l.Connections = 1
	})
	dialTLS(t, addr, &tls.Config{RootCAs: roots})
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	_ = c.SetDeadline(time.Now().Add(deadline.Timeout()))
	if b, err := io.ReadAll(newClient(t, c)); len(b) > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("connection over the limit: response = %q, %v, want none, and the connection closed", b, err)
	}
}

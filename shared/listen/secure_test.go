package listen_test

import (
	"bufio"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/internal/deadline"
	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/listen"
	"github.com/gatewright/gatewright/shared/pki/pkitest"
)

// secured starts a server that speaks TLS as localhost, and gives its address and the
// CA of its certificate.
func secured(t *testing.T, h http.HandlerFunc, change func(*tls.Config), settings ...func(*config.Listener)) (addr string, roots *x509.CertPool) {
	t.Helper()
	ca := pkitest.CA(t, "CA", time.Now())
	its := &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}, Certificates: []tls.Certificate{ca.Server(t, time.Now()).TLS(t)},
	}
	if change != nil {
		change(its)
	}
	l, err := listen.On(t.Context(), "127.0.0.1:0", "the test", "NOTHING")
	if err != nil {
		t.Fatal(err)
	}
	bounds := defaults(t)
	for _, set := range settings {
		set(&bounds)
	}
	server := listen.New(listen.Options{
		Handler: h, Settings: bounds, IDs: ids.NewSource(rand.Reader, time.Now), Log: slog.New(slog.DiscardHandler), TLS: its,
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
	return l.Addr().String(), ca.Pool()
}

func dialTLS(t *testing.T, addr string, config *tls.Config) *client {
	t.Helper()
	config.ServerName = "localhost"
	c, err := (&tls.Dialer{Config: config}).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	_ = c.SetDeadline(time.Now().Add(deadline.Long()))
	return newClient(t, c)
}

func TestTLSIsServedAsPlainHTTPIs(t *testing.T) {
	addr, roots := secured(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = io.WriteString(w, r.Method+" "+string(body)+" "+tls.VersionName(r.TLS.Version))
	}, nil)
	c := dialTLS(t, addr, &tls.Config{RootCAs: roots})
	for range 2 {
		c.send("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\nok")
		if response, body := c.answer(); response.StatusCode != http.StatusOK || body != "POST ok TLS 1.3" {
			t.Errorf("%s: %s", response.Status, body)
		}
		time.Sleep(300 * time.Millisecond) // after which it rests
	}
	// What two programs could read in two ways is refused here too, and pipelined
	// requests wait for one another.
	c.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\nGET / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\nabc")
	if response, _ := c.answer(); response.StatusCode != http.StatusOK {
		t.Error(response.Status)
	}
	c.refused(400)
}

func TestTLSLongAnswersAndBodiesPass(t *testing.T) {
	long := strings.Repeat("0123456789abcdef", 1<<16)
	addr, roots := secured(t, func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		if n != int64(len(long)) {
			w.WriteHeader(http.StatusBadRequest)
		}
		_, _ = io.WriteString(w, long)
	}, nil)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "localhost"}, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	for range 3 {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+addr, strings.NewReader(long))
		if err != nil {
			t.Fatal(err)
		}
		response, err := transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil || string(body) != long || response.StatusCode != http.StatusOK || response.ProtoMajor != 1 {
			t.Fatalf("%s %s, %d bytes, %v", response.Proto, response.Status, len(body), err)
		}
	}
}

// TestTLSSlowClientIsServed: a write deadline would break TLS, so that patience stands
// below it.
func TestTLSSlowClientIsServed(t *testing.T) {
	const size = 8 << 20
	addr, roots := secured(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(make([]byte, size))
	}, nil, func(l *config.Listener) { l.SendTimeout = 2 * time.Second })
	c := dialTLS(t, addr, &tls.Config{RootCAs: roots})
	c.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
	response, err := http.ReadResponse(c.r, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	total := 0
	buffer := make([]byte, size/30)
	for total < size {
		time.Sleep(100 * time.Millisecond) // longer than a look
		n, err := io.ReadFull(response.Body, buffer[:min(len(buffer), size-total)])
		if total += n; err != nil {
			t.Fatalf("after %d bytes: %v", total, err)
		}
	}
}

func TestTLSClientThatTakesNothingIsEnded(t *testing.T) {
	ended := make(chan error, 1)
	addr, roots := secured(t, func(w http.ResponseWriter, _ *http.Request) {
		_, err := w.Write(make([]byte, 64<<20))
		ended <- err
	}, nil, func(l *config.Listener) { l.SendTimeout = 200 * time.Millisecond })
	c := dialTLS(t, addr, &tls.Config{RootCAs: roots})
	c.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
	select {
	case err := <-ended:
		if err == nil {
			t.Error("64 MB were taken")
		}
	case <-time.After(deadline.Long()):
		t.Error("it waits")
	}
}

func TestHandshakeThatComesToNoEndIsEnded(t *testing.T) {
	addr, _ := secured(t, func(http.ResponseWriter, *http.Request) {}, nil,
		func(l *config.Listener) { l.HeaderTimeout = 100 * time.Millisecond })
	for _, sent := range []string{"", "\x16\x03\x01\x02\x00\x01"} {
		c := dial(t, addr).send(sent)
		if b, err := io.ReadAll(c); len(b) > 0 || err != nil {
			t.Errorf("%q is answered %q, %v", sent, b, err)
		}
	}
}

func TestPlainRequestToTLSIsToldSo(t *testing.T) {
	addr, _ := secured(t, func(http.ResponseWriter, *http.Request) {}, nil)
	dial(t, addr).send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").refused(400)
}

func TestOtherProtocolsEndWithTheHandshake(t *testing.T) {
	addr, roots := secured(t, func(http.ResponseWriter, *http.Request) { t.Error("it is served") },
		func(c *tls.Config) { c.NextProtos = []string{"http/1.1", "h2", "acme-tls/1"} })
	for _, protocol := range []string{"acme-tls/1"} {
		c := dialTLS(t, addr, &tls.Config{RootCAs: roots, NextProtos: []string{protocol}})
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
		if b, _ := bufio.NewReader(c).ReadByte(); b != 0 {
			t.Errorf("%s is answered", protocol)
		}
	}
}

func TestTLSTooManyConnectionsAreClosed(t *testing.T) {
	addr, roots := secured(t, func(http.ResponseWriter, *http.Request) {}, nil, func(l *config.Listener) { l.Connections = 1 })
	dialTLS(t, addr, &tls.Config{RootCAs: roots})
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	_ = c.SetDeadline(time.Now().Add(deadline.Long()))
	if b, _ := io.ReadAll(newClient(t, c)); len(b) > 0 {
		t.Errorf("answered %q", b)
	}
}

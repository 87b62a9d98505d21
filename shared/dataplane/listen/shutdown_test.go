package listen_test

import (
	"crypto/rand"
	"crypto/tls"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/dataplane/listen"
	"github.com/gatewright/gatewright/shared/testing/deadline"
)

// shutdownServer is a server that a test shuts down, with connections over pipes.
type shutdownServer struct {
	*listen.Server
	pipes
	t    *testing.T
	done chan struct{} // closed when Shutdown has returned
}

// runShutdown runs a test in a synctest bubble with a server that responds "ok". The query of a request is
// a duration: /silent waits for this time before the response, and /slow between the two letters. The
// test must call shutdown. After the test, runShutdown checks that Serve returns and no connection is left.
func runShutdown(t *testing.T, test func(*shutdownServer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &shutdownServer{pipes: make(pipes), t: t, done: make(chan struct{})}
		s.Server = listen.New(listen.Options{
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Length", "2")
				wait, _ := time.ParseDuration(r.URL.RawQuery)
				if r.URL.Path == "/silent" {
					time.Sleep(wait)
				}
				_, _ = io.WriteString(w, "o")
				_ = http.NewResponseController(w).Flush()
				if r.URL.Path == "/slow" {
					time.Sleep(wait)
				}
				_, _ = io.WriteString(w, "k")
			}),
			Settings: defaults(t), IDs: ids.NewSource(rand.Reader, time.Now), Log: slog.New(slog.DiscardHandler),
		})
		served := make(chan error, 1)
		go func() { served <- s.Serve(s.pipes) }()
		test(s)
		<-s.done
		if err := <-served; err != http.ErrServerClosed { //nolint:errorlint // exactly this error
			t.Errorf("Serve() = %v, want %v", err, http.ErrServerClosed)
		}
		if n := s.Connections(); n != 0 {
			t.Errorf("Connections() = %d, want 0", n)
		}
	})
}

// shutdown starts Shutdown in another goroutine, and returns when Shutdown waits or has returned.
func (s *shutdownServer) shutdown() {
	go func() {
		defer close(s.done)
		if err := s.Shutdown(s.t.Context()); err != nil {
			s.t.Errorf("Shutdown() error = %v, want none", err)
		}
	}()
	synctest.Wait()
}

// isDone reports whether Shutdown has returned.
func (s *shutdownServer) isDone() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// getRequest returns a GET request for a path, without a body.
func getRequest(path string) string { return "GET " + path + " HTTP/1.1\r\nHost: a\r\n\r\n" }

// readOK reads the response "ok".
func (c *client) readOK() {
	c.t.Helper()
	c.closesAfterOK()
}

// closesAfterOK reads the response "ok", and reports whether it has Connection: close.
func (c *client) closesAfterOK() bool {
	c.t.Helper()
	response, body := c.readResponse()
	if response.StatusCode != http.StatusOK || body != "ok" {
		c.t.Fatalf("response: status = %s, body = %q, want 200 ok", response.Status, body)
	}
	return response.Close
}

// TestRequestDuringShutdownIsServed checks that a request is served during Shutdown if the head of the
// connection's previous response was written before the announcement, and so has no Connection: close.
func TestRequestDuringShutdownIsServed(t *testing.T) {
	for name, idle := range map[string]time.Duration{
		"no idle time":   0,
		"an idle second": time.Second,
	} {
		t.Run(name, func(t *testing.T) {
			runShutdown(t, func(s *shutdownServer) {
				c := s.dial(s.t).send(getRequest("/slow?14s"))
				time.Sleep(time.Second)
				s.AnnounceShutdown()
				time.Sleep(15*time.Second - idle)
				if c.closesAfterOK() {
					t.Error("Close of the first response = true, want false: its head was written before AnnounceShutdown()")
				}
				time.Sleep(idle)
				s.shutdown() // 15 s after the announcement
				c.send(getRequest("/"))
				if !c.closesAfterOK() {
					t.Error("Close of the next response = false, want true")
				}
				c.mustEnd()
			})
		})
	}
}

// TestConnectionServesAnotherRequestAfterAnnouncement checks that a
// connection whose response has ended during Shutdown serves another request.
func TestConnectionServesAnotherRequestAfterAnnouncement(t *testing.T) {
	runShutdown(t, func(s *shutdownServer) {
		c := s.dial(s.t).send(getRequest("/slow?30s"))
		time.Sleep(time.Second)
		s.AnnounceShutdown()
		time.Sleep(15 * time.Second)
		s.shutdown()
		if c.closesAfterOK() {
			t.Error("Close of the first response = true, want false: its head was written before AnnounceShutdown()")
		}
		time.Sleep(14 * time.Second)
		if !c.send(getRequest("/")).closesAfterOK() {
			t.Error("Close of the next response = false, want true")
		}
		c.mustEnd()
	})
}

// TestIdleConnectionClosesDuringShutdown checks that Shutdown closes a connection when
// it has been idle for the time between the announcement and Shutdown, and not before.
func TestIdleConnectionClosesDuringShutdown(t *testing.T) {
	runShutdown(t, func(s *shutdownServer) {
		old := s.dial(s.t).send(getRequest("/"))
		old.readOK()
		c := s.dial(s.t).send(getRequest("/slow?5s"))
		time.Sleep(time.Second)
		s.AnnounceShutdown()
		c.readOK() // takes 5 s, because the handler waits until the client reads
		time.Sleep(11 * time.Second)
		startTime := time.Now()
		s.shutdown()
		if s.isDone() {
			t.Error("Shutdown() returned while a request may be in flight, want it to wait")
		}
		// The connection was idle for 11 s, and the announcement was 16 s ago.
		if elapsed := c.untilClosed(); elapsed < 5*time.Second || elapsed > 5*time.Second+100*time.Millisecond {
			t.Errorf("idle connection closed after %v, want 5 to 5.1 s", elapsed)
		}
		old.mustEnd()
		<-s.done
		if elapsed := time.Since(startTime); elapsed > 6*time.Second {
			t.Errorf("Shutdown() took %v, want at most 6 s", elapsed)
		}
	})
}

// TestShutdownDoesNotWaitForDisconnectedClients checks that Shutdown
// does not wait for requests of clients that have disconnected.
func TestShutdownDoesNotWaitForDisconnectedClients(t *testing.T) {
	runShutdown(t, func(s *shutdownServer) {
		c := s.dial(s.t).send(getRequest("/slow?14s"))
		time.Sleep(time.Second)
		s.AnnounceShutdown()
		time.Sleep(15 * time.Second)
		c.readOK()
		_ = c.Close()
		startTime := time.Now()
		s.shutdown()
		<-s.done
		if elapsed := time.Since(startTime); elapsed > time.Second {
			t.Errorf("Shutdown() took %v, want at most 1 s", elapsed)
		}
	})
}

// TestResponseAfterAnnouncementClosesTheConnection checks that a response after AnnounceShutdown closes
// its connection, even if the request began before, and even if the handler writes nothing.
func TestResponseAfterAnnouncementClosesTheConnection(t *testing.T) {
	runShutdown(t, func(s *shutdownServer) {
		c := s.dial(s.t).send(getRequest("/silent?5s"))
		time.Sleep(time.Second)
		s.AnnounceShutdown()
		if !c.closesAfterOK() {
			t.Error("Close of the response after AnnounceShutdown() = false, want true")
		}
		c.mustEnd()
		s.shutdown()
	})
	synctest.Test(t, func(t *testing.T) {
		p, started, release := make(pipes), make(chan struct{}), make(chan struct{})
		s := listen.New(listen.Options{
			Handler:  http.HandlerFunc(func(http.ResponseWriter, *http.Request) { close(started); <-release }),
			Settings: defaults(t), IDs: ids.NewSource(rand.Reader, time.Now), Log: slog.New(slog.DiscardHandler),
		})
		served := make(chan error, 1)
		go func() { served <- s.Serve(p) }()
		c := p.dial(t).send(getRequest("/"))
		<-started
		s.AnnounceShutdown()
		close(release)
		if response, _ := c.readResponse(); !response.Close || response.StatusCode != http.StatusOK {
			t.Errorf("response without a body: status = %s, Close = %t, want 200 and true", response.Status, response.Close)
		}
		_ = s.Shutdown(t.Context())
		<-served
	})
}

// TestShutdownWaitsForStartedHeads checks that a request is served if the first bytes of its head have arrived before Shutdown.
func TestShutdownWaitsForStartedHeads(t *testing.T) {
	runShutdown(t, func(s *shutdownServer) {
		s.AnnounceShutdown()
		c := s.dial(s.t)
		time.Sleep(15 * time.Second)
		c.send("GET / HT")
		synctest.Wait()
		s.shutdown()
		time.Sleep(3 * time.Second)
		c.send("TP/1.1\r\nHost: a\r\n\r\n")
		if !c.closesAfterOK() {
			t.Error("Close of the response = false, want true")
		}
	})
}

// TestNewConnectionIsServedDuringShutdown checks that a connection
// that was opened just before Shutdown can send its first request.
func TestNewConnectionIsServedDuringShutdown(t *testing.T) {
	runShutdown(t, func(s *shutdownServer) {
		s.AnnounceShutdown()
		time.Sleep(15 * time.Second)
		c := s.dial(s.t)
		synctest.Wait()
		s.shutdown()
		time.Sleep(800 * time.Millisecond) // until the connection is parked
		if !c.send(getRequest("/")).closesAfterOK() {
			t.Error("Close of the response = false, want true")
		}
	})
}

// TestUnannouncedShutdownIsNotDelayed checks that Shutdown without AnnounceShutdown closes idle connections immediately.
func TestUnannouncedShutdownIsNotDelayed(t *testing.T) {
	runShutdown(t, func(s *shutdownServer) {
		c := s.dial(s.t).send(getRequest("/"))
		c.readOK()
		startTime := time.Now()
		s.shutdown()
		<-s.done
		if elapsed := time.Since(startTime); elapsed > time.Second {
			t.Errorf("Shutdown() took %v, want at most 1 s", elapsed)
		}
		c.mustEnd()
	})
}

// waitGoAway reads frames until a GOAWAY arrives, and returns the number of its last stream.
func (f *frameClient) waitGoAway() uint32 {
	f.t.Helper()
	for got := range f.received {
		if got.kind == http2.FrameGoAway {
			if got.code != http2.ErrCodeNo {
				f.t.Errorf("GOAWAY code = %v, want NO_ERROR", got.code)
			}
			return got.stream
		}
		f.record(got)
	}
	f.t.Fatal("the connection ended without GOAWAY, want one")
	return 0
}

// respondSlowly responds with the request's body. At /slow, it waits for 30 s and adds 32 KiB.
func respondSlowly(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if r.URL.Path == "/slow" {
		time.Sleep(30 * time.Second)
		_, _ = io.WriteString(w, strings.Repeat("x", 1<<15))
	}
	_, _ = w.Write(body)
}

// TestHTTP2ShutdownRefusesNoRequest checks that requests that arrive after the first GOAWAY
// are served, and that the second GOAWAY has the number of the last accepted stream.
func TestHTTP2ShutdownRefusesNoRequest(t *testing.T) {
	runHTTP2(t, respondSlowly, func(t *testing.T, s *tlsServer, p pipes) {
		f := p.dialFrames(t, s)
		slow := f.request(false, getFields("/slow")...)
		partial := f.request(true, postFields("/")...)
		f.must(f.WriteData(partial, false, []byte("be")))
		synctest.Wait()
		s.AnnounceShutdown()
		if last := f.waitGoAway(); last != math.MaxInt32 {
			t.Errorf("first GOAWAY: last stream = %d, want %d", last, math.MaxInt32)
		}
		f.must(f.WriteData(partial, true, []byte("gun")))
		if got := f.waitResult(partial); got.status != "200" || got.body != "begun" {
			t.Errorf("request that was in flight: result = %+v, want 200 begun", got)
		}
		late := f.request(true, postFields("/")...) // as if it was on the network when the GOAWAY was sent
		f.must(f.WriteData(late, true, []byte("crossed")))
		if got := f.waitResult(late); got.status != "200" || got.body != "crossed" {
			t.Errorf("request after the first GOAWAY: result = %+v, want 200 crossed", got)
		}
		time.Sleep(15 * time.Second)
		done := make(chan error, 1)
		go func() { done <- s.Shutdown(t.Context()) }()
		if last := f.waitGoAway(); last != late {
			t.Errorf("second GOAWAY: last stream = %d, want %d", last, late)
		}
		if got := f.waitResult(slow); got.status != "200" || len(got.body) != 1<<15 || got.reset {
			t.Errorf("slow request: result = %+v, want 200 with %d bytes and no reset", got, 1<<15)
		}
		f.waitClosed()
		if err := <-done; err != nil || s.Connections() != 0 {
			t.Errorf("Shutdown() = %v, connections = %d, want no error and 0", err, s.Connections())
		}
	})
}

// TestHTTP2LateConnectionGetsGoAwayWithItsResponse checks that a connection that begins after AnnounceShutdown gets
// exactly one GOAWAY, after its first request. If the GOAWAY came earlier, the client would connect again and again.
func TestHTTP2LateConnectionGetsGoAwayWithItsResponse(t *testing.T) {
	runHTTP2(t, respondSlowly, func(t *testing.T, s *tlsServer, p pipes) {
		s.AnnounceShutdown()
		f := p.dialFrames(t, s)
		time.Sleep(time.Second)
		if len(f.received) > 0 {
			t.Errorf("frame before the first request = %+v, want none", <-f.received)
		}
		for range 3 {
			f.request(false, getFields("/")...)
		}
		synctest.Wait()
		goAways := 0
		for len(f.received) > 0 {
			if got := <-f.received; got.kind == http2.FrameGoAway {
				if goAways++; got.stream != math.MaxInt32 {
					t.Errorf("GOAWAY: last stream = %d, want %d", got.stream, math.MaxInt32)
				}
			} else {
				f.record(got)
			}
		}
		for id := uint32(1); id <= 5; id += 2 {
			if got := f.results[id]; got == nil || got.status != "200" {
				t.Errorf("stream %d: result = %+v, want status 200", id, got)
			}
		}
		if goAways != 1 {
			t.Errorf("GOAWAY frames = %d, want 1", goAways)
		}
	})
}

// TestHTTP2UnannouncedShutdownDrains checks that Shutdown without AnnounceShutdown
// sends a GOAWAY with the last accepted stream, and serves requests in flight.
func TestHTTP2UnannouncedShutdownDrains(t *testing.T) {
	runHTTP2(t, respondSlowly, func(t *testing.T, s *tlsServer, p pipes) {
		f := p.dialFrames(t, s)
		slow := f.request(false, getFields("/slow")...)
		synctest.Wait()
		go func() { _ = s.Shutdown(t.Context()) }()
		if last := f.waitGoAway(); last != slow {
			t.Errorf("GOAWAY: last stream = %d, want %d", last, slow)
		}
		if got := f.waitResult(slow); got.status != "200" || len(got.body) != 1<<15 || got.reset {
			t.Errorf("slow request: result = %+v, want 200 with %d bytes and no reset", got, 1<<15)
		}
		f.waitClosed()
		synctest.Wait()
		if n := s.Connections(); n != 0 {
			t.Errorf("Connections() = %d, want 0", n)
		}
	})
}

// TestHTTP2GoClientLosesNoRequest sends POST requests that Go's client can't repeat, and checks that none
// fails when a shutdown is announced. Each connection has at most one request at a time: Go's transport
// can lose concurrent requests on a connection, which a server can't prevent.
func TestHTTP2GoClientLosesNoRequest(t *testing.T) {
	s := newHTTP2Server(t, nil, respondSlowly, nil)
	results := make(chan error)
	const clients, perClient = 8, 50
	for range clients {
		transport := s.transport(t)
		go func() {
			for range perClient {
				r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+s.listener.Addr().String(),
					io.MultiReader(strings.NewReader("body")))
				if err == nil {
					var out *http.Response
					if out, err = transport.RoundTrip(r); err == nil {
						_, err = io.Copy(io.Discard, out.Body)
						_ = out.Body.Close()
					}
				}
				results <- err
			}
		}()
	}
	for n := range clients * perClient {
		if n == clients*perClient/4 {
			s.AnnounceShutdown()
		}
		if err := <-results; err != nil {
			t.Errorf("request %d: error = %v, want none", n, err)
		}
	}
}

// TestHTTP2NeedsAnAdequateCipher checks that a client with a cipher suite that RFC 9113
// prohibits (section 9.2.2) receives a GOAWAY, and a client with another cipher suite SETTINGS.
func TestHTTP2NeedsAnAdequateCipher(t *testing.T) {
	s := newHTTP2Server(t, nil, respondSlowly, nil)
	for cipher, adequate := range map[uint16]bool{
		tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA:    false,
		tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256: true,
	} {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", s.listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(deadline.Timeout()))
		tlsConn := tls.Client(c, &tls.Config{
			RootCAs: s.roots, ServerName: "localhost", NextProtos: []string{"h2"},
			MinVersion: tls.VersionTLS12, MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{cipher},
		})
		t.Cleanup(func() { _ = c.Close() })
		if err := tlsConn.HandshakeContext(t.Context()); err != nil {
			t.Fatalf("%s: HandshakeContext() error = %v, want none", tls.CipherSuiteName(cipher), err)
		}
		if adequate {
			_, _ = io.WriteString(tlsConn, http2.ClientPreface)
		}
		first, err := http2.NewFramer(io.Discard, tlsConn).ReadFrame()
		if err != nil {
			t.Fatalf("%s: ReadFrame() error = %v, want none", tls.CipherSuiteName(cipher), err)
		}
		if _, ok := first.(*http2.SettingsFrame); ok != adequate {
			t.Errorf("%s: first frame = %v, is SETTINGS = %t, want %t", tls.CipherSuiteName(cipher), first, ok, adequate)
		}
		if goAway, ok := first.(*http2.GoAwayFrame); !adequate && (!ok || goAway.ErrCode != http2.ErrCodeInadequateSecurity) {
			t.Errorf("%s: first frame = %v, want GOAWAY with INADEQUATE_SECURITY", tls.CipherSuiteName(cipher), first)
		}
	}
}

// TestServeAfterShutdownServesNothing checks that Serve after Shutdown closes the listener and returns.
func TestServeAfterShutdownServesNothing(t *testing.T) {
	s := listen.New(listen.Options{
		Handler: http.HandlerFunc(respondSlowly), Settings: defaults(t), IDs: ids.NewSource(rand.Reader, time.Now),
		Log: slog.New(slog.DiscardHandler),
	})
	s.AnnounceShutdown()
	if err := s.Shutdown(t.Context()); err != nil {
		t.Fatalf("Shutdown() before Serve(): error = %v, want none", err)
	}
	l, err := listen.Open(t.Context(), "127.0.0.1:0", "the test", "NOTHING")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(l); err != http.ErrServerClosed { //nolint:errorlint // exactly this error
		t.Errorf("Serve() after Shutdown() = %v, want %v", err, http.ErrServerClosed)
	}
	if _, err := l.Accept(); err == nil {
		t.Error("Accept() error = nil, want an error, since Serve closes the listener")
	}
}

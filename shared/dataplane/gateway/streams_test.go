package gateway_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	sharedlimits "github.com/gatewright/gatewright/shared/core/limits"
	"github.com/gatewright/gatewright/shared/dataplane/gateway"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/upstream"
	"github.com/gatewright/gatewright/shared/testing/deadline"
)

// newStreamServer starts an upstream whose responses do not end. Each path has another kind of stream, and requests with
// Upgrade get a WebSocket. Only the responses of /fast and /ranges end immediately. The server counts its requests in
// received.
func newStreamServer(t *testing.T, received *atomic.Int64) *httptest.Server {
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		received.Add(1)
		if r.URL.Path == "/fast" {
			return
		}
		if r.Header.Get("Upgrade") != "" {
			conn, buffered, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Errorf("Hijack() at the upstream: error = %v, want nil", err)
				return
			}
			defer func() { _ = conn.Close() }()
			_, _ = buffered.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
			_ = buffered.Flush()
			_, _ = buffered.ReadByte()
			return
		}
		if r.URL.Path == "/ranges" {
			w.Header().Set("Content-Type", "multipart/byteranges; boundary=x")
			w.Header().Set("Content-Length", "4")
			w.WriteHeader(http.StatusPartialContent)
			_, _ = io.WriteString(w, "some")
			return
		}
		w.Header().Set("Content-Type", map[string]string{
			"/parts": "multipart/x-mixed-replace; boundary=x", "/long": "text/plain",
			"/events": "text/event-stream; charset=utf-8", "/spelling": "Text/Event-Stream ; charset=utf-8; charset=utf-8",
		}[r.URL.Path])
		if r.Method == http.MethodHead {
			return
		}
		_, _ = io.WriteString(w, "data: one\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	t.Cleanup(backend.Close)
	return backend
}

// openStream sends a request with header fields, and returns the status and the first line of the response's body, ""
// for status 101. For status 429, line begins with the value of Retry-After and a space. end closes the connection.
func openStream(t *testing.T, h *fixture, path string, fields ...string) (status int, line string, end func()) {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(h.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_, _ = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: shop.test\r\n%s\r\n", path,
		strings.Join(append(fields, ""), "\r\n"))
	r, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("GET %s: error = %v, want a response", path, err)
	}
	if r.StatusCode != http.StatusSwitchingProtocols {
		line, _ = bufio.NewReader(r.Body).ReadString('\n')
	}
	if r.StatusCode == http.StatusTooManyRequests {
		line = r.Header.Get("Retry-After") + " " + line
	}
	return r.StatusCode, line, func() { _ = conn.Close() }
}

// TestStreamsLeaveCapacityForRequests opens a WebSocket, an event stream and a multipart response, which together are
// as many streams as the account can have. Then another stream must be refused. If only a stream can be the response to
// the request, the gateway must not call the upstream. Ordinary requests are served. Requests that count as streams are
// served when the others have ended.
func TestStreamsLeaveCapacityForRequests(t *testing.T) {
	var received atomic.Int64
	backend := newStreamServer(t, &received)
	a := artifact()
	for _, path := range []string{"/socket", "/events", "/parts", "/fast"} {
		a.Routes = append(a.Routes, route("GET "+path, rewrite(backend.URL+path)))
	}
	h := newFixture(t, a, func(c *gateway.Config, _ *upstream.Options) { c.Streams = gateway.NewProcessStreams(3) })
	webSocket, events := []string{"Connection: Upgrade", "Upgrade: websocket"}, []string{"Accept: text/event-stream"}
	var closers []func()
	for path, fields := range map[string][]string{"/socket": webSocket, "/events": nil, "/parts": nil} {
		status, line, end := openStream(t, h, path, fields...)
		if status != http.StatusSwitchingProtocols && line != "data: one\n" {
			t.Fatalf("GET %s: status = %d, first line = %q, want 101 or data: one", path, status, line)
		}
		closers = append(closers, end)
	}
	before := received.Load()
	for _, c := range []struct {
		path         string
		fields       []string
		wantReceived int64
	}{{"/socket", webSocket, 0}, {"/events", events, 0}, {"/events", nil, 1}, {"/parts", nil, 1}} {
		status, line, _ := openStream(t, h, c.path, c.fields...)
		if status != http.StatusTooManyRequests || !strings.HasPrefix(line, "1 ") ||
			!strings.Contains(line, "The account has 3 streams under way at one gateway process, and its limit "+
				"gateway-streams is 3.") {
			t.Errorf("GET %s with %v: status = %d, Retry-After and body = %q, want 429, 1 and a problem with the limit",
				c.path, c.fields, status, line)
		}
		if got := received.Load() - before; got != c.wantReceived {
			t.Errorf("GET %s with %v: requests at the upstream = %d, want %d", c.path, c.fields, got, c.wantReceived)
		}
		before = received.Load()
	}
	for range 10 {
		if status, _, _ := openStream(t, h, "/fast"); status != http.StatusOK {
			t.Fatalf("GET /fast: status = %d, want 200", status)
		}
	}
	for _, end := range closers {
		end()
	}
	for range 4 {
		attempts, status := 0, 0
		// Wait until the gateway has detected that the clients have disconnected. A request
		// that accepts only events counts as a stream until the head of its response arrives.
		for ; status != http.StatusOK && attempts < 500; attempts++ {
			var end func()
			status, _, end = openStream(t, h, "/fast", events...)
			end()
			time.Sleep(time.Duration(attempts) * time.Millisecond / 10)
		}
		if status != http.StatusOK {
			t.Fatalf("GET /fast with Accept: text/event-stream after all streams have ended: status = %d, want 200", status)
		}
	}
}

// TestStreamLimitRefusesOnlyStreams checks which requests are refused when an
// account has reached its limit of streams, and that all other requests are served.
func TestStreamLimitRefusesOnlyStreams(t *testing.T) {
	const (
		before = iota // refused before a call of the upstream
		after         // refused after the upstream's response
		never         // served
	)
	var received atomic.Int64
	backend := newStreamServer(t, &received)
	a := artifact()
	for _, path := range []string{
		"GET /socket", "HEAD /events", "GET /events", "GET /spelling", "GET /parts", "GET /ranges",
		"GET /fast", "POST /fast",
	} {
		_, target, _ := strings.Cut(path, " ")
		a.Routes = append(a.Routes, route(path, rewrite(backend.URL+target)))
	}
	h := newFixture(t, a, func(c *gateway.Config, _ *upstream.Options) { c.Streams = gateway.NewProcessStreams(1) })
	if status, line, _ := openStream(t, h, "/events"); status != http.StatusOK || line != "data: one\n" {
		t.Fatalf("GET /events, first stream: status = %d, first line = %s, want 200 and data: one", status, line)
	}
	for request, refused := range map[string]int{
		"GET /socket HTTP/1.1\nConnection: Upgrade\nUpgrade: websocket":                                      before,
		"GET /socket HTTP/1.1\nconnection: keep-alive, uPGRADE\nupgrade: foo\nUPGRADE: WebSocket":            before,
		"GET /fast HTTP/1.1\nConnection: Upgrade, HTTP2-Settings\nUpgrade: h2c\nHTTP2-Settings: AAMAAABkAAR": never,
		"GET /fast HTTP/1.1\nConnection: Upgrade\nUpgrade: foo":                                              never,
		"GET /fast HTTP/1.1\nUpgrade: websocket":                                                             never,
		"GET /fast HTTP/1.0\nConnection: Upgrade\nUpgrade: websocket":                                        never,
		"POST /fast HTTP/1.1\nConnection: Upgrade\nUpgrade: websocket\nContent-Length: 0":                    never,
		"GET /events HTTP/1.1\nAccept: text/event-stream":                                                    before,
		"GET /events HTTP/1.1\nAccept: Text/Event-Stream ; q=1, text/event-stream":                           before,
		"GET /events HTTP/1.1\nAccept: text/event-stream, */*;q=0.1":                                         after,
		"GET /fast HTTP/1.1\nAccept: text/event-stream, application/json":                                    never,
		"GET /fast HTTP/1.1\nAccept: text/event-stream\nAccept: application/json":                            never,
		"GET /events HTTP/1.1":   after,
		"GET /spelling HTTP/1.1": after,
		"HEAD /events HTTP/1.1":  never,
		"GET /parts HTTP/1.1":    after,
		"GET /ranges HTTP/1.1":   never,
	} {
		received.Store(0)
		r, _ := sendRaw(t, h.URL, strings.ReplaceAll(request+"\nHost: shop.test\n\n", "\n", "\r\n"))
		method, _, _ := strings.Cut(request, " ")
		response, err := http.ReadResponse(r, &http.Request{Method: method})
		if err != nil {
			t.Fatalf("%s: error = %v, want a response", request, err)
		}
		if isRefused := response.StatusCode == http.StatusTooManyRequests; isRefused != (refused != never) ||
			(received.Load() == 0) != (refused == before) {
			t.Errorf("%s: status = %d, requests at the upstream = %d, want a refusal: %t, before the upstream: %t",
				request, response.StatusCode, received.Load(), refused != never, refused == before)
		}
	}
}

// TestStreamsAreCountedPerAccount checks that the streams of all hosts of
// an account count for one limit, and that accounts have separate limits.
func TestStreamsAreCountedPerAccount(t *testing.T) {
	var received atomic.Int64
	a := artifact(route("GET /events", forward(newStreamServer(t, &received).URL)))
	h := newFixture(t, a, func(c *gateway.Config, _ *upstream.Options) { c.Streams = gateway.NewProcessStreams(2) })
	sameAccount, otherAccount := *a, *a
	sameAccount.Identity.Deployment = "depot-main-1234567"
	otherAccount.Identity.AccountID, otherAccount.Identity.Deployment = "a2", "other-main-1234567"
	h.deployments["depot.test"] = &gateway.Deployment{Digest: "two", Artifact: &sameAccount}
	h.deployments["other.test"] = &gateway.Deployment{Digest: "three", Artifact: &otherAccount}
	for i, c := range []struct {
		host string
		want int
	}{
		{"shop.test", http.StatusOK},
		{"SHOP.test:80", http.StatusOK},
		{"depot.test", http.StatusTooManyRequests},
		{"shop.test", http.StatusTooManyRequests},
		{"other.test", http.StatusOK},
		{"other.test", http.StatusOK},
		{"other.test", http.StatusTooManyRequests},
	} {
		if r := h.do(t, http.MethodGet, "/events", host(c.host)); r.StatusCode != c.want {
			t.Errorf("GET /events at %s, request with index %d: status = %d, want %d", c.host, i, r.StatusCode, c.want)
		}
	}
}

// TestRefusedStreamHasPolicyHeaders checks that the refusal of a stream has the fields of the route's
// policies like any other response. The gateway refuses a stream before it calls the upstream if the
// client accepts only server-sent events, and otherwise after the upstream's response.
func TestRefusedStreamHasPolicyHeaders(t *testing.T) {
	var received atomic.Int64
	a := artifact(route("GET /events", forward(newStreamServer(t, &received).URL), "limit"))
	declare(a, "limit", "rate-limit-inbound", map[string]any{
		"rateLimitBy": "all", "requestsAllowed": 9,
		"timeWindowMinutes": 1,
	})
	h := newFixture(t, a, func(c *gateway.Config, _ *upstream.Options) {
		c.Streams = &streamRecorder{refusal: sharedlimits.FunctionStreams.Refusal(3, 3, time.Second)}
	})
	for _, modifiers := range [][]func(*http.Request){nil, {header("Accept", "text/event-stream")}} {
		r := h.do(t, http.MethodGet, "/events", modifiers...)
		if r.StatusCode != http.StatusTooManyRequests || r.Header.Get("RateLimit") == "" ||
			r.Header.Get("RateLimit-Policy") == "" {
			t.Errorf("GET /events with Accept: text/event-stream: %t: status = %d, header = %v, want 429 with RateLimit and "+
				"RateLimit-Policy", len(modifiers) > 0, r.StatusCode, r.Header)
		}
	}
}

// failingWriter is a response writer whose Write fails or panics.
type failingWriter struct {
	*httptest.ResponseRecorder
	panics bool
}

func (w failingWriter) Write(p []byte) (int, error) {
	if w.panics {
		panic("in the middle")
	}
	return 0, io.ErrClosedPipe
}

// TestEachStreamEndsOnce checks that as many streams end as have started: if the client disconnects at any moment, if
// the upstream's response breaks off, if the response can't be written, and after a panic.
func TestEachStreamEndsOnce(t *testing.T) {
	var received atomic.Int64
	backend := newStreamServer(t, &received)
	truncating := rawUpstream(t, func(r *bufio.Reader, conn net.Conn) {
		if _, err := http.ReadRequest(r); err == nil {
			writef(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nda")
		}
	})
	a := artifact(route("GET /truncated", forward(truncating)))
	for _, path := range []string{"/socket", "/events", "/parts", "/fast"} {
		a.Routes = append(a.Routes, route("GET "+path, rewrite(backend.URL+path)))
	}
	streams := &streamRecorder{}
	h := newFixture(t, a, func(c *gateway.Config, _ *upstream.Options) { c.Streams = streams })
	requests := []string{
		"GET /socket HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket", "GET /events HTTP/1.1", "GET /events HTTP/1.0",
		"GET /parts HTTP/1.1",
		"GET /events HTTP/1.1\r\nAccept: text/event-stream", "GET /fast HTTP/1.1\r\nAccept: text/event-stream",
		"GET /truncated HTTP/1.1",
	}
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			for i := range 100 {
				r, conn := sendRaw(t, h.URL, requests[(worker+i)%len(requests)]+"\r\nHost: shop.test\r\n\r\n")
				tcp := conn.(*net.TCPConn)
				switch i % 5 {
				case 0: // disconnect before the response
				case 1:
					_, _ = r.ReadByte()
				case 2:
					_, _ = r.ReadByte()
					_ = tcp.SetLinger(0)
				case 3:
					_ = tcp.SetLinger(0)
				case 4:
					_, _ = http.ReadResponse(r, nil)
					_ = tcp.CloseWrite()
				}
				_ = conn.Close()
			}
		})
	}
	for _, panics := range []bool{false, true} {
		for _, path := range []string{"/events", "/parts", "/truncated"} {
			func() {
				defer func() { _ = recover() }()
				h.gateway.ServeHTTP(failingWriter{httptest.NewRecorder(), panics},
					httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://shop.test"+path, http.NoBody))
			}()
		}
	}
	wg.Wait()
	h.gateway.EndUpgrades(t.Context())
	h.Close()
	// EndUpgrades and Close do not wait until the handlers of hijacked connections have returned.
	for range 6000 {
		if streams.started.Load() == streams.finished.Load() {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if started, finished := streams.started.Load(), streams.finished.Load(); started != finished || started < 100 {
		t.Errorf("streams started = %d, finished = %d, want at least 100, all of them finished", started, finished)
	}
}

// TestHalfClosedConnectionIsNotAStream checks that a connection that has switched to another protocol
// stops counting as a stream if one side has closed it and the other side does nothing.
func TestHalfClosedConnectionIsNotAStream(t *testing.T) {
	runDirectAndTunneled(t, func(t *testing.T, connect connector) {
		handlers := make(chan func(net.Conn), 1)
		backend := rawUpstream(t, func(r *bufio.Reader, conn net.Conn) {
			if _, err := http.ReadRequest(r); err == nil {
				writef(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
				(<-handlers)(conn)
			}
		})
		base, upstreamSetting := connect(backend)
		streams := &streamRecorder{ended: make(chan struct{}, 1)}
		a := artifact(route("GET /socket", forward(base)))
		h := newFixture(t, a, upstreamSetting, func(c *gateway.Config, _ *upstream.Options) {
			c.Streams, c.HalfClosedTimeout = streams, 20*time.Millisecond
		})
		done := make(chan struct{})
		defer close(done)
		for name, tc := range map[string]struct{ client, upstream func(net.Conn) }{
			"the client":   {func(c net.Conn) { _ = c.Close() }, func(net.Conn) { <-done }},
			"the upstream": {func(net.Conn) {}, func(c net.Conn) { _ = c.Close() }},
		} {
			handlers <- tc.upstream
			r, conn := sendRaw(t, h.URL, "GET /socket HTTP/1.1\r\nHost: shop.test\r\nConnection: Upgrade\r\nUpgrade: "+
				"websocket\r\n\r\n")
			readSwitch(t, r)
			tc.client(conn)
			select {
			case <-streams.ended:
			case <-time.After(deadline.Timeout()):
				t.Fatalf("%s has closed the connection: it still counts as a stream, want the count ended", name)
			}
		}
	})
}

// streamRecorder implements Streams. It counts streams, and can refuse them or fail.
type streamRecorder struct {
	started, finished atomic.Int64
	refusal           *fault.Fault
	err               error
	ended             chan struct{} // receives a value for each ended stream, nil for none
}

func (s *streamRecorder) Begin(context.Context, string) (func(), *fault.Fault, error) {
	if s.err != nil || s.refusal != nil {
		return nil, s.refusal, s.err
	}
	s.started.Add(1)
	return func() {
		s.finished.Add(1)
		if s.ended != nil {
			s.ended <- struct{}{}
		}
	}, nil, nil
}

// TestLongResponseIsAStream checks that a response that takes longer than
// StreamThreshold is counted once as a stream. It must end if the account has reached
// its limit, and continue if the count is unknown. Short responses are not counted.
func TestLongResponseIsAStream(t *testing.T) {
	for _, c := range []struct {
		name    string
		refusal *fault.Fault
		err     error
	}{
		{"a free stream", nil, nil},
		{"no free stream", sharedlimits.FunctionStreams.Refusal(3, 3, time.Second), nil},
		{"unavailable table", nil, errors.New("the table cannot be read")},
		{"busy table", nil, fmt.Errorf("take a slot: %w", fault.New(fault.Throttled, "The service is busy."))},
	} {
		t.Run(c.name, func(t *testing.T) {
			var received atomic.Int64
			backend := newStreamServer(t, &received)
			streams := &streamRecorder{refusal: c.refusal, err: c.err}
			h := newFixture(t, artifact(route("GET /long", rewrite(backend.URL+"/long")),
				route("GET /fast", rewrite(backend.URL+"/fast"))), func(c *gateway.Config, _ *upstream.Options) {
				c.Streams, c.StreamThreshold = streams, 50*time.Millisecond
			})
			if status, _, end := openStream(t, h, "/fast"); status != http.StatusOK || streams.started.Load() != 0 {
				t.Errorf("GET /fast: status = %d, streams = %d, want 200 and 0", status, streams.started.Load())
			} else {
				end()
			}
			r := h.do(t, http.MethodGet, "/long")
			done := make(chan error, 1)
			go func() {
				_, err := io.Copy(io.Discard, r.Body)
				done <- err
			}()
			if c.refusal != nil {
				select {
				case err := <-done:
					if err == nil {
						t.Error("Copy(response that was refused a stream) error = nil, want an error")
					}
				case <-time.After(deadline.Timeout()):
					t.Errorf("the refused response has not ended after %s, want it ended at the threshold of 50ms", deadline.Timeout())
				}
				return
			}
			for attempts := 0; streams.started.Load() == 0 && c.err == nil && attempts < 5000; attempts++ {
				time.Sleep(time.Millisecond)
			}
			select {
			case err := <-done:
				t.Fatalf("the long response ended: %v, want it to continue", err)
			case <-time.After(150 * time.Millisecond):
			}
			_ = r.Body.Close()
			<-done
			h.Close()
			if started, finished := streams.started.Load(), streams.finished.Load(); c.err == nil &&
				(started != 1 || finished != 1) {
				t.Errorf("streams started = %d, ended = %d, want 1 and 1", started, finished)
			}
		})
	}
}

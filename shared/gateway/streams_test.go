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

	"github.com/gatewright/gatewright/internal/deadline"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/gateway"
	"github.com/gatewright/gatewright/shared/gateway/upstream"
	sharedlimits "github.com/gatewright/gatewright/shared/limits"
)

// streamer is an upstream of what stays, and counts who has asked it.
func streamer(t *testing.T, asked *atomic.Int64) *httptest.Server {
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.URL.Path == "/fast" {
			return
		}
		if r.Header.Get("Upgrade") != "" {
			conn, buffered, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
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
			"/events": "text/event-stream; charset=utf-8", "/odd": "Text/Event-Stream ; charset=utf-8; charset=utf-8",
		}[r.URL.Path])
		if r.Method == http.MethodHead {
			return
		}
		_, _ = io.WriteString(w, "data: one\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	t.Cleanup(up.Close)
	return up
}

// begin sends a request and gives the status of the answer, its body up to the first line, and what ends it.
func begin(t *testing.T, h *house, path string, fields ...string) (status int, line string, end func()) {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(h.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_, _ = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: shop.test\r\n%s\r\n", path, strings.Join(append(fields, ""), "\r\n"))
	r, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	if r.StatusCode != http.StatusSwitchingProtocols {
		line, _ = bufio.NewReader(r.Body).ReadString('\n')
	}
	if r.StatusCode == http.StatusTooManyRequests {
		line = r.Header.Get("Retry-After") + " " + line
	}
	return r.StatusCode, line, func() { _ = conn.Close() }
}

// TestStreamsLeaveRoomForRequests: as many WebSockets, streams of events and answers in parts as an account may have, and one more is
// refused, one that is announced without its upstream being asked; ordinary requests go on, and so does a stream
// as soon as another has ended.
func TestStreamsLeaveRoomForRequests(t *testing.T) {
	var asked atomic.Int64
	up := streamer(t, &asked)
	a := artifact()
	for _, path := range []string{"/socket", "/events", "/parts", "/fast"} {
		a.Routes = append(a.Routes, route("GET "+path, rewrite(up.URL+path)))
	}
	h := newHouse(t, a, func(c *gateway.Config, _ *upstream.Options) { c.Streams = gateway.ProcessStreams(3) })
	webSocket, events := []string{"Connection: Upgrade", "Upgrade: websocket"}, []string{"Accept: text/event-stream"}
	var ends []func()
	for path, fields := range map[string][]string{"/socket": webSocket, "/events": nil, "/parts": nil} {
		status, line, end := begin(t, h, path, fields...)
		if status != http.StatusSwitchingProtocols && line != "data: one\n" {
			t.Fatalf("%s is answered %d, %q", path, status, line)
		}
		ends = append(ends, end)
	}
	before := asked.Load()
	for _, c := range []struct {
		path   string
		fields []string
		asks   int64
	}{{"/socket", webSocket, 0}, {"/events", events, 0}, {"/events", nil, 1}, {"/parts", nil, 1}} {
		status, line, _ := begin(t, h, c.path, c.fields...)
		if status != http.StatusTooManyRequests || !strings.HasPrefix(line, "1 ") ||
			!strings.Contains(line, "The account has 3 streams under way at one gateway process, and its limit gateway-streams is 3.") {
			t.Errorf("%s with %v is answered %d, %q", c.path, c.fields, status, line)
		}
		if got := asked.Load() - before; got != c.asks {
			t.Errorf("%s with %v: the upstream was asked %d times", c.path, c.fields, got)
		}
		before = asked.Load()
	}
	for range 10 {
		// What is announced and no stream is counted no longer than its head takes.
		if status, _, _ := begin(t, h, "/fast"); status != http.StatusOK {
			t.Fatalf("an ordinary request is answered %d", status)
		}
	}
	for _, end := range ends {
		end()
	}
	for range 4 {
		tries, status := 0, 0
		for ; status != http.StatusOK && tries < 500; tries++ { // until the gateway has seen that the clients have gone
			var end func()
			status, _, end = begin(t, h, "/fast", events...)
			end()
			time.Sleep(time.Duration(tries) * time.Millisecond / 10)
		}
		if status != http.StatusOK {
			t.Fatalf("after they have ended: %d", status)
		}
	}
}

// TestOnlyStreamsAreRefusedForStreams: an account with as many as it may have goes on with whatever is none, in whatever words it is asked for.
func TestOnlyStreamsAreRefusedForStreams(t *testing.T) {
	const (
		before = iota // refused, and no upstream was asked
		after         // refused when the upstream has answered
		no            // answered
	)
	var asked atomic.Int64
	up := streamer(t, &asked)
	a := artifact()
	for _, path := range []string{"GET /socket", "HEAD /events", "GET /events", "GET /odd", "GET /parts", "GET /ranges", "GET /fast", "POST /fast"} {
		_, to, _ := strings.Cut(path, " ")
		a.Routes = append(a.Routes, route(path, rewrite(up.URL+to)))
	}
	h := newHouse(t, a, func(c *gateway.Config, _ *upstream.Options) { c.Streams = gateway.ProcessStreams(1) })
	if status, line, _ := begin(t, h, "/events"); status != http.StatusOK || line != "data: one\n" {
		t.Fatalf("the first is answered %d, %s", status, line)
	}
	for request, refused := range map[string]int{
		"GET /socket HTTP/1.1\nConnection: Upgrade\nUpgrade: websocket":                                      before,
		"GET /socket HTTP/1.1\nconnection: keep-alive, uPGRADE\nupgrade: foo\nUPGRADE: WebSocket":            before,
		"GET /fast HTTP/1.1\nConnection: Upgrade, HTTP2-Settings\nUpgrade: h2c\nHTTP2-Settings: AAMAAABkAAR": no,
		"GET /fast HTTP/1.1\nConnection: Upgrade\nUpgrade: foo":                                              no,
		"GET /fast HTTP/1.1\nUpgrade: websocket":                                                             no,
		"GET /fast HTTP/1.0\nConnection: Upgrade\nUpgrade: websocket":                                        no,
		"POST /fast HTTP/1.1\nConnection: Upgrade\nUpgrade: websocket\nContent-Length: 0":                    no,
		"GET /events HTTP/1.1\nAccept: text/event-stream":                                                    before,
		"GET /events HTTP/1.1\nAccept: Text/Event-Stream ; q=1, text/event-stream":                           before,
		"GET /events HTTP/1.1\nAccept: text/event-stream, */*;q=0.1":                                         after,
		"GET /fast HTTP/1.1\nAccept: text/event-stream, application/json":                                    no,
		"GET /fast HTTP/1.1\nAccept: text/event-stream\nAccept: application/json":                            no,
		"GET /events HTTP/1.1":  after,
		"GET /odd HTTP/1.1":     after,
		"HEAD /events HTTP/1.1": no,
		"GET /parts HTTP/1.1":   after,
		"GET /ranges HTTP/1.1":  no,
	} {
		asked.Store(0)
		r, _ := raw(t, h.URL, strings.ReplaceAll(request+"\nHost: shop.test\n\n", "\n", "\r\n"))
		method, _, _ := strings.Cut(request, " ")
		response, err := http.ReadResponse(r, &http.Request{Method: method})
		if err != nil {
			t.Fatalf("%s: %v", request, err)
		}
		if was := response.StatusCode == http.StatusTooManyRequests; was != (refused != no) || (asked.Load() == 0) != (refused == before) {
			t.Errorf("%s: answered %d, and the upstream was asked %d times", request, response.StatusCode, asked.Load())
		}
	}
}

// TestStreamsOfAnAccountAreItsOwn: those of all its hosts together, and of nobody else.
func TestStreamsOfAnAccountAreItsOwn(t *testing.T) {
	var asked atomic.Int64
	a := artifact(route("GET /events", forward(streamer(t, &asked).URL)))
	h := newHouse(t, a, func(c *gateway.Config, _ *upstream.Options) { c.Streams = gateway.ProcessStreams(2) })
	another, other := *a, *a
	another.Identity.Deployment = "depot-main-1234567"
	other.Identity.AccountID, other.Identity.Deployment = "a2", "other-main-1234567"
	h.deployments["depot.test"] = &gateway.Deployment{Digest: "two", Artifact: &another}
	h.deployments["other.test"] = &gateway.Deployment{Digest: "three", Artifact: &other}
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
			t.Errorf("stream %d, of %s, is answered %d", i, c.host, r.StatusCode)
		}
	}
}

// TestRefusedStreamTellsWhatPoliciesTell, as any other answer of its route does, before its upstream is asked and after.
func TestRefusedStreamTellsWhatPoliciesTell(t *testing.T) {
	var asked atomic.Int64
	a := artifact(route("GET /events", forward(streamer(t, &asked).URL), "limit"))
	declare(a, "limit", "rate-limit-inbound", map[string]any{"rateLimitBy": "all", "requestsAllowed": 9, "timeWindowMinutes": 1})
	h := newHouse(t, a, func(c *gateway.Config, _ *upstream.Options) {
		c.Streams = &slotsOf{refusal: sharedlimits.FunctionStreams.Refusal(3, 3, time.Second)}
	})
	for _, set := range [][]func(*http.Request){nil, {header("Accept", "text/event-stream")}} {
		r := h.do(t, http.MethodGet, "/events", set...)
		if r.StatusCode != http.StatusTooManyRequests || r.Header.Get("RateLimit") == "" || r.Header.Get("RateLimit-Policy") == "" {
			t.Errorf("answered %d with %v", r.StatusCode, r.Header)
		}
	}
}

// breaking is a writer that panics, or fails, in the middle of an answer.
type breaking struct {
	*httptest.ResponseRecorder
	panics bool
}

func (b breaking) Write(p []byte) (int, error) {
	if b.panics {
		panic("in the middle")
	}
	return 0, io.ErrClosedPipe
}

// TestEachStreamEndsOnce, however it does: a client that leaves at any moment, an upstream that dies, an answer that
// cannot be written, a panic.
func TestEachStreamEndsOnce(t *testing.T) {
	var asked atomic.Int64
	up := streamer(t, &asked)
	dying := rawUpstream(t, func(r *bufio.Reader, conn net.Conn) {
		if _, err := http.ReadRequest(r); err == nil {
			say(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nda")
		}
	})
	a := artifact(route("GET /dying", forward(dying)))
	for _, path := range []string{"/socket", "/events", "/parts", "/fast"} {
		a.Routes = append(a.Routes, route("GET "+path, rewrite(up.URL+path)))
	}
	streams := &slotsOf{}
	h := newHouse(t, a, func(c *gateway.Config, _ *upstream.Options) { c.Streams = streams })
	requests := []string{
		"GET /socket HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket", "GET /events HTTP/1.1", "GET /events HTTP/1.0", "GET /parts HTTP/1.1",
		"GET /events HTTP/1.1\r\nAccept: text/event-stream", "GET /fast HTTP/1.1\r\nAccept: text/event-stream", "GET /dying HTTP/1.1",
	}
	var all sync.WaitGroup
	for worker := range 4 {
		all.Go(func() {
			for i := range 100 {
				r, conn := raw(t, h.URL, requests[(worker+i)%len(requests)]+"\r\nHost: shop.test\r\n\r\n")
				tcp := conn.(*net.TCPConn)
				switch i % 5 {
				case 0: // gone before it is answered
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
		for _, path := range []string{"/events", "/parts", "/dying"} {
			func() {
				defer func() { _ = recover() }()
				h.gateway.ServeHTTP(breaking{httptest.NewRecorder(), panics}, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://shop.test"+path, http.NoBody))
			}()
		}
	}
	all.Wait()
	h.gateway.EndUpgrades(t.Context())
	h.Close()
	// Neither waits until the handler of a connection that was taken over has returned.
	for range 6000 {
		if streams.begun.Load() == streams.ended.Load() {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if begun, ended := streams.begun.Load(), streams.ended.Load(); begun != ended || begun < 100 {
		t.Errorf("streams begun = %d, ended = %d, want over 100, all of them ended", begun, ended)
	}
}

// TestConnectionWithoutAPeerIsNoStream: of a connection of another protocol one side ends, and the other never notices, or never cares.
func TestConnectionWithoutAPeerIsNoStream(t *testing.T) {
	overBothWays(t, func(t *testing.T, to reach) {
		ends := make(chan func(net.Conn), 1)
		up := rawUpstream(t, func(r *bufio.Reader, conn net.Conn) {
			if _, err := http.ReadRequest(r); err == nil {
				say(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
				(<-ends)(conn)
			}
		})
		base, set := to(up)
		streams := &slotsOf{told: make(chan struct{}, 1)}
		h := newHouse(t, artifact(route("GET /socket", forward(base))), set, func(c *gateway.Config, _ *upstream.Options) {
			c.Streams, c.HalfClosedTimeout = streams, 20*time.Millisecond
		})
		over := make(chan struct{})
		defer close(over)
		for name, by := range map[string]struct{ client, upstream func(net.Conn) }{
			"the client":   {func(c net.Conn) { _ = c.Close() }, func(net.Conn) { <-over }},
			"the upstream": {func(net.Conn) {}, func(c net.Conn) { _ = c.Close() }},
		} {
			ends <- by.upstream
			r, conn := raw(t, h.URL, "GET /socket HTTP/1.1\r\nHost: shop.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
			if response, err := http.ReadResponse(r, nil); err != nil || response.StatusCode != http.StatusSwitchingProtocols {
				t.Fatalf("answered %+v, %v", response, err)
			}
			by.client(conn)
			select {
			case <-streams.told:
			case <-time.After(deadline.Long()):
				t.Fatalf("%s has ended, and the stream goes on", name)
			}
		}
	})
}

// slotsOf counts streams as a function does: by somebody who can be told to refuse, or to fail.
type slotsOf struct {
	begun, ended atomic.Int64
	refusal      *fault.Fault
	err          error
	told         chan struct{} // of each end, nil for nobody
}

func (s *slotsOf) Begin(context.Context, string) (func(), *fault.Fault, error) {
	if s.err != nil || s.refusal != nil {
		return nil, s.refusal, s.err
	}
	s.begun.Add(1)
	return func() {
		s.ended.Add(1)
		if s.told != nil {
			s.told <- struct{}{}
		}
	}, nil, nil
}

// TestLongAnswerIsAStream: one that goes on for longer than a request may is counted, once, and ended where the account has no room; one that
// nobody can count goes on. Short ones are not counted at all.
func TestLongAnswerIsAStream(t *testing.T) {
	for _, c := range []struct {
		name    string
		refusal *fault.Fault
		err     error
	}{
		{"with room", nil, nil},
		{"without", sharedlimits.FunctionStreams.Refusal(3, 3, time.Second), nil},
		{"not known", nil, errors.New("the table cannot be asked")},
		{"not known now", nil, fmt.Errorf("take a slot: %w", fault.New(fault.Throttled, "The service is busy."))},
	} {
		t.Run(c.name, func(t *testing.T) {
			var asked atomic.Int64
			up := streamer(t, &asked)
			streams := &slotsOf{refusal: c.refusal, err: c.err}
			h := newHouse(t, artifact(route("GET /long", rewrite(up.URL+"/long")), route("GET /fast", rewrite(up.URL+"/fast"))), func(c *gateway.Config, _ *upstream.Options) {
				c.Streams, c.StreamsAfter = streams, 50*time.Millisecond
			})
			if status, _, end := begin(t, h, "/fast"); status != http.StatusOK || streams.begun.Load() != 0 {
				t.Errorf("a short answer is %d, and counted %d times", status, streams.begun.Load())
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
						t.Error("an answer that was ended looks whole")
					}
				case <-time.After(deadline.Long()):
					t.Error("it goes on")
				}
				return
			}
			for tries := 0; streams.begun.Load() == 0 && c.err == nil && tries < 5000; tries++ {
				time.Sleep(time.Millisecond)
			}
			select {
			case err := <-done:
				t.Fatalf("it was ended: %v", err)
			case <-time.After(150 * time.Millisecond):
			}
			_ = r.Body.Close()
			<-done
			h.Close()
			if begun, ended := streams.begun.Load(), streams.ended.Load(); c.err == nil && (begun != 1 || ended != 1) {
				t.Errorf("begun %d times, ended %d times", begun, ended)
			}
		})
	}
}

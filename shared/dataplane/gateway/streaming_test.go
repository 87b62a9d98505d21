package gateway_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
)

func TestEventsAreForwardedImmediately(t *testing.T) {
	runDirectAndTunneled(t, func(t *testing.T, connect connector) {
		next := make(chan struct{})
		backend := serve(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for {
				if err := http.NewResponseController(w).Flush(); err != nil {
					return
				}
				select {
				case <-next:
					writef(w, "data: x\n\n")
				case <-r.Context().Done():
					return
				}
			}
		})
		base, upstreamSetting := connect(backend.URL)
		h := newFixture(t, artifact(route("GET /events", forward(base))), upstreamSetting)
		response := h.do(t, "GET", "/events") // the head arrives before any event is sent
		lines := bufio.NewReader(response.Body)
		for range 3 {
			next <- struct{}{}
			// The next event is sent only after this one was received.
			if line, err := lines.ReadString('\n'); err != nil || line != "data: x\n" {
				t.Fatalf("GET /events: next event = %q, %v, want %q", line, err, "data: x\n")
			}
			if _, err := lines.ReadString('\n'); err != nil {
				t.Fatalf("GET /events: ReadString(empty line after an event) error = %v, want nil", err)
			}
		}
	})
}

func TestBidirectionalStreaming(t *testing.T) {
	runDirectAndTunneled(t, func(t *testing.T, connect connector) {
		backend := serve(t, func(w http.ResponseWriter, r *http.Request) {
			rc := http.NewResponseController(w)
			if err := rc.EnableFullDuplex(); err != nil {
				t.Errorf("EnableFullDuplex() at the upstream: error = %v, want nil", err)
			}
			lines := bufio.NewScanner(r.Body)
			for lines.Scan() {
				writef(w, "%s!\n", lines.Text())
				if err := rc.Flush(); err != nil {
					return
				}
			}
		})
		base, upstreamSetting := connect(backend.URL)
		h := newFixture(t, artifact(route("POST /chat", forward(base))), upstreamSetting)
		bodyReader, bodyWriter := io.Pipe()
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			_, _ = io.WriteString(bodyWriter, "a\n")
		}()
		response := h.do(t, "POST", "/chat", func(r *http.Request) { r.Body, r.ContentLength = bodyReader, -1 })
		<-sent
		lines := bufio.NewReader(response.Body)
		for _, word := range []string{"a", "b", "c"} {
			if word != "a" { // a was sent before the response
				if _, err := io.WriteString(bodyWriter, word+"\n"); err != nil {
					t.Fatalf("WriteString(%q to the body of POST /chat) error = %v, want nil", word, err)
				}
			}
			if line, err := lines.ReadString('\n'); err != nil || line != word+"!\n" {
				t.Fatalf("POST /chat: line of the response = %q, %v, want %q", line, err, word+"!\n")
			}
		}
		if err := bodyWriter.Close(); err != nil {
			t.Fatal(err)
		}
		if rest, err := io.ReadAll(lines); err != nil || len(rest) != 0 {
			t.Errorf("ReadAll() after the last line = %q, %v, want nothing and no error", rest, err)
		}
	})
}

func TestTrailersAreForwarded(t *testing.T) {
	runDirectAndTunneled(t, func(t *testing.T, connect connector) {
		backend := serve(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Trailer", "X-Sum")
			all, err := io.ReadAll(r.Body)
			writef(w, "%s %v", all, err)
			w.Header().Set("X-Sum", "of "+r.Trailer.Get("X-Request-Sum"))
			w.Header().Set(http.TrailerPrefix+"X-Late", "unannounced")
		})
		base, upstreamSetting := connect(backend.URL)
		h := newFixture(t, artifact(route("POST /x", forward(base))), upstreamSetting)
		response := h.do(t, "POST", "/x", func(r *http.Request) {
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader("body")), -1
			r.Trailer = http.Header{"X-Request-Sum": {"7"}}
		})
		if got := body(t, response); got != "body <nil>" {
			t.Errorf("POST /x with trailers: body = %q, want %q", got, "body <nil>")
		}
		if got := response.Trailer.Get("X-Sum"); got != "of 7" {
			t.Errorf("POST /x: announced trailer X-Sum = %q, want %q", got, "of 7")
		}
		if got := response.Trailer.Get("X-Late"); got != "unannounced" {
			t.Errorf("POST /x: unannounced trailer X-Late = %q, want %q", got, "unannounced")
		}
	})
}

func TestTrailersOfGETResponsesAreForwarded(t *testing.T) {
	runDirectAndTunneled(t, func(t *testing.T, connect connector) {
		backend := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Trailer", "X-Sum")
			writef(w, "body")
			w.Header().Set("X-Sum", "7")
		})
		base, upstreamSetting := connect(backend.URL)
		h := newFixture(t, artifact(route("GET /x", forward(base))), upstreamSetting)
		for range 2 {
			response := h.do(t, "GET", "/x")
			if got := body(t, response); got != "body" || response.Trailer.Get("X-Sum") != "7" {
				t.Errorf("GET /x: body = %q, trailer X-Sum = %q, want body and 7", got, response.Trailer.Get("X-Sum"))
			}
		}
	})
}

// TestHTTP10ClientsGetNoTrailers checks that an HTTP/1.0 client gets
// a response without trailers, because HTTP/1.0 has no trailers.
func TestHTTP10ClientsGetNoTrailers(t *testing.T) {
	backend := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "X-Sum")
		writef(w, "body")
		w.Header().Set("X-Sum", "7")
		w.Header().Set(http.TrailerPrefix+"X-Late", "unannounced")
	})
	h := newFixture(t, artifact(route("GET /x", forward(backend.URL))))
	_, conn := sendRaw(t, h.URL, "GET /x HTTP/1.0\r\nHost: shop.test\r\n\r\n")
	all, err := io.ReadAll(conn)
	if head, body, _ := strings.Cut(string(all), "\r\n\r\n"); err != nil || body != "body" ||
		strings.Contains(head, "Trailer") || strings.Contains(head, "X-Sum") {
		t.Errorf("GET /x with HTTP/1.0 (%v), want body and no trailers:\n%s", err, all)
	}
}

// TestUpgradeNeedsHijackableConnection checks that the upstream gets an ordinary
// request if the response writer cannot be hijacked, as in a Lambda.
func TestUpgradeNeedsHijackableConnection(t *testing.T) {
	backend := serve(t, func(w http.ResponseWriter, r *http.Request) { writef(w, "upgrade: %q", r.Header.Get("Upgrade")) })
	h := newFixture(t, artifact(route("GET /x", forward(backend.URL))))
	r := httptest.NewRequestWithContext(t.Context(), "GET", "http://shop.test/x", http.NoBody)
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", "websocket")
	w := httptest.NewRecorder()
	h.gateway.ServeHTTP(w, r)
	if w.Code != http.StatusOK || w.Body.String() != `upgrade: ""` {
		t.Errorf("GET /x with Upgrade, response writer without Hijack: status = %d, body = %s, want 200 and no Upgrade at "+
			"the upstream", w.Code, w.Body.String())
	}
}

func TestWebSocketIsForwarded(t *testing.T) {
	runDirectAndTunneled(t, func(t *testing.T, connect connector) {
		backend := serve(t, func(w http.ResponseWriter, r *http.Request) {
			c, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"chat"}})
			if err != nil {
				t.Errorf("Accept() of the WebSocket: error = %v, want none", err)
				return
			}
			c.SetReadLimit(1 << 20)
			for {
				kind, message, err := c.Read(r.Context())
				if err != nil {
					return
				}
				if err := c.Write(r.Context(), kind, append([]byte("re: "), message...)); err != nil {
					return
				}
			}
		})
		base, upstreamSetting := connect(backend.URL)
		a := artifact(route("GET /socket", forward(base), "key"))
		declare(a, "key", "api-key-inbound", map[string]any{"allowUnauthenticatedRequests": true})
		h := newFixture(t, a, upstreamSetting)
		c, response, err := websocket.Dial(t.Context(), h.URL+"/socket",
			&websocket.DialOptions{Host: "shop.test", Subprotocols: []string{"chat"}})
		if err != nil {
			t.Fatalf("Dial(/socket): error = %v, want a WebSocket", err)
		}
		if response.Header.Get("X-Request-Id") == "" || c.Subprotocol() != "chat" {
			t.Errorf("WebSocket: X-Request-Id = %q, subprotocol = %q, want an ID and chat",
				response.Header.Get("X-Request-Id"), c.Subprotocol())
		}
		c.SetReadLimit(1 << 20)
		for _, message := range []string{"a", strings.Repeat("long ", 50_000)} {
			if err := c.Write(t.Context(), websocket.MessageText, []byte(message)); err != nil {
				t.Fatalf("Write() to the WebSocket: error = %v, want nil", err)
			}
			_, got, err := c.Read(t.Context())
			if err != nil || string(got) != "re: "+message {
				t.Fatalf("Read() of the WebSocket = %.20q, %v, want %.20q", got, err, "re: "+message)
			}
		}
		// Closing is a handshake, which needs both directions.
		if err := c.Close(websocket.StatusNormalClosure, "done"); err != nil {
			t.Errorf("Close() of the WebSocket: error = %v, want nil", err)
		}
	})
}

// TestSwitchToUnrequestedProtocolIsRefused checks that an upstream's switch to another protocol becomes a 502, both
// after a request without an upgrade and after a request to switch to WebSocket.
func TestSwitchToUnrequestedProtocolIsRefused(t *testing.T) {
	backend := rawUpstream(t, func(r *bufio.Reader, conn net.Conn) {
		_, _ = http.ReadRequest(r)
		writef(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\n")
	})
	h := newFixture(t, artifact(route("GET /x", forward(backend))))
	for _, modifiers := range [][]func(*http.Request){
		nil, {header("Connection", "Upgrade"), header("Upgrade", "websocket")},
	} {
		if p := problemOf(t, h.do(t, "GET", "/x", modifiers...)); p.Status != http.StatusBadGateway {
			t.Errorf("GET /x with Upgrade: websocket: %t, upstream switches to protocol other: status = %d, want 502",
				len(modifiers) > 0, p.Status)
		}
	}
}

func TestEarlyHintsReachTheClient(t *testing.T) {
	runDirectAndTunneled(t, func(t *testing.T, connect connector) {
		backend := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Link", "</style.css>; rel=preload")
			w.WriteHeader(http.StatusEarlyHints)
			w.Header().Del("Link")
			writef(w, "done")
		})
		base, upstreamSetting := connect(backend.URL)
		h := newFixture(t, artifact(route("GET /x", forward(base))), upstreamSetting)
		var hints []string
		response := h.do(t, "GET", "/x", func(r *http.Request) {
			*r = *r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
				Got1xxResponse: func(code int, header textproto.MIMEHeader) error {
					hints = append(hints, strconv.Itoa(code)+" "+header.Get("Link"))
					return nil
				},
			}))
		})
		if got := body(t, response); got != "done" || len(hints) != 1 || hints[0] != "103 </style.css>; rel=preload" {
			t.Errorf("GET /x: body = %q, hints = %q, want done and one 103 with Link", got, hints)
		}
		if response.Header.Get("Link") != "" {
			t.Errorf("GET /x with early hints: final Link = %q, want none", response.Header.Get("Link"))
		}
	})
}

func TestClientDisconnectCancelsUpstreamRequest(t *testing.T) {
	runDirectAndTunneled(t, func(t *testing.T, connect connector) {
		for _, streaming := range []bool{false, true} {
			name := map[bool]string{false: "before the response", true: "after the response's head"}[streaming]
			t.Run(name, func(t *testing.T) {
				arrived, canceled := make(chan struct{}), make(chan struct{})
				backend := serve(t, func(w http.ResponseWriter, r *http.Request) {
					if streaming {
						_ = http.NewResponseController(w).Flush()
					}
					close(arrived)
					<-r.Context().Done()
					close(canceled)
				})
				base, upstreamSetting := connect(backend.URL)
				h := newFixture(t, artifact(route("GET /x", forward(base))), upstreamSetting)
				ctx, disconnect := context.WithCancel(t.Context())
				go func() {
					<-arrived
					disconnect()
				}()
				r, err := http.NewRequestWithContext(ctx, http.MethodGet, h.URL+"/x", http.NoBody)
				if err != nil {
					t.Fatal(err)
				}
				r.Host = "shop.test"
				response, err := http.DefaultTransport.RoundTrip(r)
				if err == nil {
					_, err = io.ReadAll(response.Body)
					response.Body.Close()
				}
				if !errors.Is(err, context.Canceled) {
					t.Errorf("GET /x: error at the client = %v, want %v", err, context.Canceled)
				}
				<-canceled
				if text := h.log.String(); text != "" {
					t.Errorf("log after a client disconnected = %s, want no lines", text)
				}
			})
		}
	})
}

// TestNoGoroutineOutlivesItsRequest checks that requests that end in different ways leave no goroutines.
func TestNoGoroutineOutlivesItsRequest(t *testing.T) {
	release := make(chan struct{})
	backend := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/hang":
			select {
			case <-r.Context().Done():
			case <-release:
			}
		case "/early":
			w.WriteHeader(http.StatusForbidden) // without reading the body
		default:
			_, _ = io.Copy(w, r.Body)
		}
	})
	h := newFixture(t, artifact(route("GET /hang", forward(backend.URL)), route("POST /early", forward(backend.URL)),
		route("POST /echo", forward(backend.URL)), route("GET /dead", forward("http://127.0.0.1:1"))))
	const clients = 20
	runRequests := func() {
		var wg sync.WaitGroup
		for range clients {
			wg.Go(func() {
				ctx, cancel := context.WithCancel(t.Context())
				go cancel()
				r, err := http.NewRequestWithContext(ctx, http.MethodGet, h.URL+"/hang", http.NoBody)
				if err == nil {
					r.Host = "shop.test"
					if response, err := http.DefaultClient.Do(r); err == nil {
						response.Body.Close()
					}
				}
				for _, path := range []string{"/early", "/echo"} {
					_ = body(t, h.do(t, "POST", path, func(r *http.Request) {
						r.Body, r.ContentLength = io.NopCloser(strings.NewReader("some body")), -1
					}))
				}
				_ = body(t, h.do(t, "GET", "/dead"))
			})
		}
		wg.Wait()
	}
	before := waitGoroutines(t, runtime.NumGoroutine())
	for range 15 {
		runRequests()
	}
	close(release)
	// The gateway keeps idle connections to the backend, which have goroutines in the gateway and in the backend. There
	// are at most as many connections as concurrent clients, independent of the number of rounds. Six goroutines for each
	// client leave a margin. If each request of a kind left a goroutine, there would be 300.
	if limit := before + 6*clients; waitGoroutines(t, limit) > limit {
		buffer := make([]byte, 1<<20)
		t.Errorf("goroutines = %d, want at most %d (%d before)\n%s",
			runtime.NumGoroutine(), limit, before, buffer[:runtime.Stack(buffer, true)])
	}
}

// waitGoroutines waits until there are at most limit goroutines, but no longer than about two seconds. It returns their
// number.
func waitGoroutines(t *testing.T, limit int) int {
	t.Helper()
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	n := runtime.NumGoroutine()
	for range 200 {
		if n <= limit {
			break
		}
		time.Sleep(10 * time.Millisecond)
		n = runtime.NumGoroutine()
	}
	return n
}

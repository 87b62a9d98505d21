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

func TestEventsPassAsTheyAreSent(t *testing.T) {
	overBothWays(t, func(t *testing.T, to reach) {
		next := make(chan struct{})
		up := serve(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for {
				if err := http.NewResponseController(w).Flush(); err != nil {
					return
				}
				select {
				case <-next:
					say(w, "data: x\n\n")
				case <-r.Context().Done():
					return
				}
			}
		})
		base, set := to(up.URL)
		h := newHouse(t, artifact(route("GET /events", forward(base))), set)
		response := h.do(t, "GET", "/events") // answers before any event is sent
		lines := bufio.NewReader(response.Body)
		for range 3 {
			next <- struct{}{}
			// The next event is sent only after this one came through.
			if line, err := lines.ReadString('\n'); err != nil || line != "data: x\n" {
				t.Fatalf("got %q, %v", line, err)
			}
			if _, err := lines.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestBothDirectionsStreamAtOnce(t *testing.T) {
	overBothWays(t, func(t *testing.T, to reach) {
		up := serve(t, func(w http.ResponseWriter, r *http.Request) {
			rc := http.NewResponseController(w)
			if err := rc.EnableFullDuplex(); err != nil {
				t.Error(err)
			}
			lines := bufio.NewScanner(r.Body)
			for lines.Scan() {
				say(w, "%s!\n", lines.Text())
				if err := rc.Flush(); err != nil {
					return
				}
			}
		})
		base, set := to(up.URL)
		h := newHouse(t, artifact(route("POST /chat", forward(base))), set)
		read, write := io.Pipe()
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			_, _ = io.WriteString(write, "a\n")
		}()
		response := h.do(t, "POST", "/chat", func(r *http.Request) { r.Body, r.ContentLength = read, -1 })
		<-sent
		lines := bufio.NewReader(response.Body)
		for _, word := range []string{"a", "b", "c"} {
			if word != "a" {
				if _, err := io.WriteString(write, word+"\n"); err != nil {
					t.Fatal(err)
				}
			}
			if line, err := lines.ReadString('\n'); err != nil || line != word+"!\n" {
				t.Fatalf("got %q, %v", line, err)
			}
		}
		if err := write.Close(); err != nil {
			t.Fatal(err)
		}
		if rest, err := io.ReadAll(lines); err != nil || len(rest) != 0 {
			t.Errorf("the end: %q, %v", rest, err)
		}
	})
}

func TestTrailersPassInBothDirections(t *testing.T) {
	overBothWays(t, func(t *testing.T, to reach) {
		up := serve(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Trailer", "X-Sum")
			all, err := io.ReadAll(r.Body)
			say(w, "%s %v", all, err)
			w.Header().Set("X-Sum", "of "+r.Trailer.Get("X-Request-Sum"))
			w.Header().Set(http.TrailerPrefix+"X-Late", "unannounced")
		})
		base, set := to(up.URL)
		h := newHouse(t, artifact(route("POST /x", forward(base))), set)
		response := h.do(t, "POST", "/x", func(r *http.Request) {
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader("body")), -1
			r.Trailer = http.Header{"X-Request-Sum": {"7"}}
		})
		if got := body(t, response); got != "body <nil>" {
			t.Errorf("body %q", got)
		}
		if got := response.Trailer.Get("X-Sum"); got != "of 7" {
			t.Errorf("announced trailer %q", got)
		}
		if got := response.Trailer.Get("X-Late"); got != "unannounced" {
			t.Errorf("unannounced trailer %q", got)
		}
	})
}

func TestTrailersOfAnAnswerToAGETPass(t *testing.T) {
	overBothWays(t, func(t *testing.T, to reach) {
		up := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Trailer", "X-Sum")
			say(w, "body")
			w.Header().Set("X-Sum", "7")
		})
		base, set := to(up.URL)
		h := newHouse(t, artifact(route("GET /x", forward(base))), set)
		for range 2 {
			response := h.do(t, "GET", "/x")
			if got := body(t, response); got != "body" || response.Trailer.Get("X-Sum") != "7" {
				t.Errorf("got %q, trailer %q", got, response.Trailer.Get("X-Sum"))
			}
		}
	})
}

// TestAnOldClientHearsOfNoTrailers: HTTP/1.0 has none.
func TestAnOldClientHearsOfNoTrailers(t *testing.T) {
	up := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "X-Sum")
		say(w, "body")
		w.Header().Set("X-Sum", "7")
		w.Header().Set(http.TrailerPrefix+"X-Late", "unannounced")
	})
	h := newHouse(t, artifact(route("GET /x", forward(up.URL))))
	_, conn := raw(t, h.URL, "GET /x HTTP/1.0\r\nHost: shop.test\r\n\r\n")
	all, err := io.ReadAll(conn)
	if head, body, _ := strings.Cut(string(all), "\r\n\r\n"); err != nil || body != "body" || strings.Contains(head, "Trailer") || strings.Contains(head, "X-Sum") {
		t.Errorf("got %s (%v)", all, err)
	}
}

// TestAnUpgradeNeedsAConnection: a Lambda has none to give, so the upstream is
// asked for an ordinary response.
func TestAnUpgradeNeedsAConnection(t *testing.T) {
	up := serve(t, func(w http.ResponseWriter, r *http.Request) { say(w, "upgrade: %q", r.Header.Get("Upgrade")) })
	h := newHouse(t, artifact(route("GET /x", forward(up.URL))))
	r := httptest.NewRequestWithContext(t.Context(), "GET", "http://shop.test/x", http.NoBody)
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", "websocket")
	w := httptest.NewRecorder()
	h.gateway.ServeHTTP(w, r)
	if w.Code != http.StatusOK || w.Body.String() != `upgrade: ""` {
		t.Errorf("got %d %s", w.Code, w.Body.String())
	}
}

func TestAWebSocketPassesInBothDirections(t *testing.T) {
	overBothWays(t, func(t *testing.T, to reach) {
		up := serve(t, func(w http.ResponseWriter, r *http.Request) {
			c, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"chat"}})
			if err != nil {
				t.Errorf("accept: %v", err)
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
		base, set := to(up.URL)
		a := artifact(route("GET /socket", forward(base), "key"))
		declare(a, "key", "api-key-inbound", map[string]any{"allowUnauthenticatedRequests": true})
		h := newHouse(t, a, set)
		c, response, err := websocket.Dial(t.Context(), h.URL+"/socket", &websocket.DialOptions{Host: "shop.test", Subprotocols: []string{"chat"}})
		if err != nil {
			t.Fatal(err)
		}
		if response.Header.Get("X-Request-Id") == "" || c.Subprotocol() != "chat" {
			t.Errorf("request id %q, subprotocol %q", response.Header.Get("X-Request-Id"), c.Subprotocol())
		}
		c.SetReadLimit(1 << 20)
		for _, message := range []string{"a", strings.Repeat("long ", 50_000)} {
			if err := c.Write(t.Context(), websocket.MessageText, []byte(message)); err != nil {
				t.Fatal(err)
			}
			_, got, err := c.Read(t.Context())
			if err != nil || string(got) != "re: "+message {
				t.Fatalf("got %.20q, %v", got, err)
			}
		}
		// Closing is a handshake: it works only if both directions still do.
		if err := c.Close(websocket.StatusNormalClosure, "done"); err != nil {
			t.Errorf("close: %v", err)
		}
	})
}

func TestASwitchThatNobodyAskedForIsRefused(t *testing.T) {
	up := rawUpstream(t, func(r *bufio.Reader, conn net.Conn) {
		_, _ = http.ReadRequest(r)
		say(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\n")
	})
	h := newHouse(t, artifact(route("GET /x", forward(up))))
	for _, set := range [][]func(*http.Request){nil, {header("Connection", "Upgrade"), header("Upgrade", "websocket")}} {
		if p := problemOf(t, h.do(t, "GET", "/x", set...)); p.Status != http.StatusBadGateway {
			t.Errorf("got %d", p.Status)
		}
	}
}

func TestEarlyHintsReachTheClient(t *testing.T) {
	overBothWays(t, func(t *testing.T, to reach) {
		up := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Link", "</style.css>; rel=preload")
			w.WriteHeader(http.StatusEarlyHints)
			w.Header().Del("Link")
			say(w, "done")
		})
		base, set := to(up.URL)
		h := newHouse(t, artifact(route("GET /x", forward(base))), set)
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
			t.Errorf("body %q, hints %q", got, hints)
		}
		if response.Header.Get("Link") != "" {
			t.Error("the hint's header is in the final response")
		}
	})
}

func TestAClientThatLeavesIsNoticedUpstream(t *testing.T) {
	overBothWays(t, func(t *testing.T, to reach) {
		for _, streaming := range []bool{false, true} {
			t.Run(map[bool]string{false: "waiting", true: "streaming"}[streaming], func(t *testing.T) {
				arrived, left := make(chan struct{}), make(chan struct{})
				up := serve(t, func(w http.ResponseWriter, r *http.Request) {
					if streaming {
						_ = http.NewResponseController(w).Flush()
					}
					close(arrived)
					<-r.Context().Done()
					close(left)
				})
				base, set := to(up.URL)
				h := newHouse(t, artifact(route("GET /x", forward(base))), set)
				ctx, leave := context.WithCancel(t.Context())
				go func() {
					<-arrived
					leave()
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
					t.Errorf("the client got %v", err)
				}
				<-left
				if text := h.log.String(); text != "" {
					t.Errorf("a client that leaves is no failure: %s", text)
				}
			})
		}
	})
}

// TestNoGoroutineOutlivesItsRequest: requests that end in every way leave none.
func TestNoGoroutineOutlivesItsRequest(t *testing.T) {
	release := make(chan struct{})
	up := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/hang":
			select {
			case <-r.Context().Done():
			case <-release:
			}
		case "/early":
			w.WriteHeader(http.StatusForbidden) // with the body unread
		default:
			_, _ = io.Copy(w, r.Body)
		}
	})
	h := newHouse(t, artifact(route("GET /hang", forward(up.URL)), route("POST /early", forward(up.URL)), route("POST /echo", forward(up.URL)), route("GET /dead", forward("http://127.0.0.1:1"))))
	const clients = 20
	round := func() {
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
	before := settle(t, runtime.NumGoroutine())
	for range 15 {
		round()
	}
	close(release)
	// Connections that are kept have goroutines: two of the gateway's and one at each end that takes them. There are no more of them than clients at
	// once, which a busy machine has in any round, and however many rounds there were. One that each request of a kind left would be 300.
	if most := before + 6*clients; settle(t, most) > most {
		buffer := make([]byte, 1<<20)
		t.Errorf("%d goroutines, %d before\n%s", runtime.NumGoroutine(), before, buffer[:runtime.Stack(buffer, true)])
	}
}

// settle waits until there are at most want goroutines, or gives up.
func settle(t *testing.T, want int) int {
	t.Helper()
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	n := runtime.NumGoroutine()
	for range 200 {
		if n <= want {
			break
		}
		time.Sleep(10 * time.Millisecond)
		n = runtime.NumGoroutine()
	}
	return n
}

package tunnel_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/gatewright/gatewright/shared/format/tunnel"
)

// echo responds with a description of the request.
func echo(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	w.Header().Set("Content-Type", "text/plain")
	w.Header().Set("X-Got", fmt.Sprint(r.Header))
	_, _ = fmt.Fprintf(w, "%s %s %s", r.Method, r.RequestURI, body)
}

// TestRequestReachesItsService checks connections with the tunnel's own protocol and with WebSockets.
func TestRequestReachesItsService(t *testing.T) {
	for _, webSocket := range []bool{false, true} {
		t.Run(fmt.Sprintf("WebSocket %v", webSocket), func(t *testing.T) {
			fx := newFixture(t, http.HandlerFunc(echo))
			o := fx.options()
			o.WebSocket = webSocket
			fx.run(o)
			response, err := fx.do(http.MethodPost, "/a%2Fb/c?d=e%20f", strings.NewReader("hello"), func(r *http.Request) {
				r.Header.Set("X-Custom", "kept")
				r.Header.Set("Gatewright-Tunnel-Project", "forged")
			})
			got := readBody(t, response, err)
			if want := "POST /base/a%2Fb/c?d=e%20f hello"; got != want || response.StatusCode != http.StatusOK {
				t.Errorf("response = %s %q, want 200 %q", response.Status, got, want)
			}
			headers := response.Header.Get("X-Got")
			if !strings.Contains(headers, "X-Custom:[kept]") || strings.Contains(headers, "Gatewright-Tunnel") ||
				strings.Contains(headers, "Go-http-client") {
				t.Errorf("headers at the service = %s, want X-Custom:[kept] and no fields of the tunnel or Go's client",
					headers)
			}
			if response.Header.Get("Gatewright-Tunnel-Failure") != "" {
				t.Errorf("Gatewright-Tunnel-Failure = %q, want none", response.Header.Get("Gatewright-Tunnel-Failure"))
			}
		})
	}
}

func TestUnauthorizedCallerIsRefusedByAgent(t *testing.T) {
	fx := newFixture(t, http.HandlerFunc(echo))
	fx.run(fx.options())
	for _, c := range []struct {
		name, service string
		caller        tunnel.Caller
		want          tunnel.Failure
	}{
		{"another project", "api", tunnel.Caller{Project: "other", Environment: "production"}, tunnel.NotAllowed},
		{"another environment", "api", tunnel.Caller{Project: "shop", Environment: "preview"}, tunnel.NotAllowed},
		{"no caller", "api", tunnel.Caller{}, tunnel.NotAllowed},
		{"another service", "API", shop, tunnel.UnknownService},
		{"no service", "", shop, tunnel.UnknownService},
	} {
		t.Run(c.name, func(t *testing.T) {
			fx.get("/") // waits until the agent knows its services
			r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://x/", nil)
			_, err := fx.relay.RoundTrip(r, tunnelID, c.service, c.caller)
			if tunnelErr, ok := errors.AsType[*tunnel.Error](err); !ok || tunnelErr.Failure != c.want {
				t.Errorf("RoundTrip() error = %v, want %s", err, c.want)
			}
		})
	}
}

func TestServiceThatIsDownIsUnreachable(t *testing.T) {
	fx := newFixture(t, http.HandlerFunc(echo))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	fx.services[0].Endpoint = "http://" + l.Addr().String()
	fx.run(fx.options())
	_, err = fx.do(http.MethodGet, "/", nil)
	if tunnelErr, ok := errors.AsType[*tunnel.Error](err); !ok || tunnelErr.Failure != tunnel.Unreachable {
		t.Errorf("response error = %v, want unreachable", err)
	}
}

func TestNoAgentIsReported(t *testing.T) {
	fx := newFixture(t, http.HandlerFunc(echo))
	if _, err := fx.do(http.MethodGet, "/", nil); !errors.Is(err, tunnel.ErrNoAgent) {
		t.Errorf("response error = %v, want ErrNoAgent", err)
	}
	agent := fx.run(fx.options())
	fx.get("/")
	_ = agent.stopAndWait()
	fx.waitFor(func() bool { return len(fx.relay.ForTunnel(tunnelID)) == 0 })
	if _, err := fx.do(http.MethodGet, "/", nil); !errors.Is(err, tunnel.ErrNoAgent) {
		t.Errorf("response error after the agent ended = %v, want ErrNoAgent", err)
	}
	if n := fx.relay.Tunnels(); n != 0 {
		t.Errorf("Tunnels() without agents = %d, want 0", n)
	}
}

func TestRefusedTokenEndsTheAgent(t *testing.T) {
	for _, webSocket := range []bool{false, true} {
		fx := newFixture(t, http.HandlerFunc(echo))
		o := fx.options()
		o.WebSocket = webSocket
		o.Token = func() (string, error) { return "another", nil }
		if err := tunnel.NewAgent(o).Run(t.Context(), time.Second); !errors.Is(err, tunnel.ErrRefused) {
			t.Errorf("Run() = %v, want ErrRefused", err)
		}
	}
}

// TestRotatedTokenCannotConnect checks that existing connections still serve requests after a
// rotation, and that the agent ends when these connections have ended.
func TestRotatedTokenCannotConnect(t *testing.T) {
	fx := newFixture(t, http.HandlerFunc(echo))
	agent := fx.run(fx.options())
	fx.mu.Lock()
	fx.token = "rotated"
	fx.mu.Unlock()
	fx.get("/")
	fx.closeConns()
	fx.waitFor(func() bool { return len(fx.relay.ForTunnel(tunnelID)) == 0 })
	<-agent.done
	if !errors.Is(agent.err, tunnel.ErrRefused) {
		t.Errorf("Run() with a rotated token error = %v, want ErrRefused", agent.err)
	}
}

// TestLargeBodiesAreForwarded sends 100 MB in both directions at once.
func TestLargeBodiesAreForwarded(t *testing.T) {
	const size = 100 << 20
	fx := newFixture(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		_, _ = io.Copy(w, r.Body)
	}))
	fx.run(fx.options())
	sent, got := sha256.New(), sha256.New()
	body := io.TeeReader(io.LimitReader(&pattern{}, size), sent)
	response, err := fx.do(http.MethodPost, "/", body)
	if err != nil {
		t.Fatal(err)
	}
	n, err := io.Copy(got, response.Body)
	_ = response.Body.Close()
	if err != nil || n != size || !bytes.Equal(sent.Sum(nil), got.Sum(nil)) {
		t.Errorf("response body = %d bytes, %v, want the %d bytes of the request and no error", n, err, size)
	}
}

// pattern is an endless body. Read writes a new number at every 512th position, and leaves the other bytes unchanged.
type pattern struct{ n uint64 }

func (p *pattern) Read(b []byte) (int, error) {
	for i := 0; i < len(b); i += 512 {
		p.n++
		if len(b)-i >= 8 {
			binary.BigEndian.PutUint64(b[i:], p.n)
		}
	}
	return len(b), nil
}

func TestTrailersAreForwarded(t *testing.T) {
	fx := newFixture(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Trailer", "X-Sum")
		_, _ = io.WriteString(w, "body")
		w.Header().Set("X-Sum", r.Trailer.Get("X-Request-Sum"))
	}))
	fx.run(fx.options())
	response, err := fx.do(http.MethodPost, "/", io.MultiReader(strings.NewReader("hello")), func(r *http.Request) {
		r.Trailer = http.Header{"X-Request-Sum": {"5"}}
	})
	if got := readBody(t, response, err); got != "body" || response.Trailer.Get("X-Sum") != "5" {
		t.Errorf("response = %q with the trailer %v, want \"body\" with X-Sum 5", got, response.Trailer)
	}
}

// TestResponsesStream checks that each part of a response arrives before the next part is written.
func TestResponsesStream(t *testing.T) {
	next := make(chan struct{})
	fx := newFixture(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for i := range 3 {
			_, _ = fmt.Fprintf(w, "%d", i)
			_ = http.NewResponseController(w).Flush()
			select {
			case <-next:
			case <-r.Context().Done():
			}
		}
	}))
	fx.run(fx.options())
	response, err := fx.do(http.MethodGet, "/", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	for i := range 3 {
		var b [1]byte
		if _, err := io.ReadFull(response.Body, b[:]); err != nil || b[0] != byte('0'+i) {
			t.Fatalf("part %d = %q, %v, want %q and no error", i, b, err, byte('0'+i))
		}
		next <- struct{}{}
	}
}

// TestCancellationReachesTheService cancels requests before and after the
// head of their response, and checks that the service's context ends.
func TestCancellationReachesTheService(t *testing.T) {
	for _, head := range []bool{false, true} {
		started, done := make(chan struct{}), make(chan struct{})
		fx := newFixture(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if head {
				w.WriteHeader(http.StatusOK)
				_ = http.NewResponseController(w).Flush()
			}
			close(started)
			<-r.Context().Done()
			close(done)
		}))
		fx.run(fx.options())
		errCanceled := errors.New("gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			<-started
			cancel(errCanceled)
		}()
		response, err := fx.do(http.MethodGet, "/", nil, func(r *http.Request) { *r = *r.WithContext(ctx) })
		if err == nil {
			_, err = io.Copy(io.Discard, response.Body)
			_ = response.Body.Close()
		}
		if !errors.Is(err, errCanceled) && (!head || !errors.Is(err, context.Canceled)) {
			t.Errorf("response error = %v, want %v (only after the response head also %v)", err, errCanceled, context.Canceled)
		}
		<-done
	}
}

// TestSlowReaderAppliesBackpressure checks that the service has to wait for a slow reader while other requests are
// served.
func TestSlowReaderAppliesBackpressure(t *testing.T) {
	var written atomic.Int64
	fx := newFixture(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/small") {
			return
		}
		buffer := make([]byte, 64<<10)
		for range 1600 { // 100 MB
			n, err := w.Write(buffer)
			written.Add(int64(n))
			if err != nil {
				return
			}
		}
	}))
	fx.run(fx.options())
	response, err := fx.do(http.MethodGet, "/", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	for before := int64(-1); before != written.Load(); time.Sleep(50 * time.Millisecond) {
		before = written.Load()
	}
	const maxBytes = 40 << 20 // the capacity of sockets and windows
	if n := written.Load(); n > maxBytes {
		t.Errorf("bytes sent to a client that reads nothing = %d, want at most %d", n, maxBytes)
	}
	for range 20 {
		fx.get("/small")
	}
}

// TestWebSocketIsForwarded exchanges messages with a service over a WebSocket, and checks a service that refuses one.
func TestWebSocketIsForwarded(t *testing.T) {
	fx := newFixture(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/no") {
			http.Error(w, "no", http.StatusForbidden)
			return
		}
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer func() { _ = c.CloseNow() }()
		for {
			kind, b, err := c.Read(r.Context())
			if err != nil {
				return
			}
			_ = c.Write(r.Context(), kind, append([]byte("re: "), b...))
		}
	}))
	fx.run(fx.options())
	// A minimal gateway: it forwards the upgrade, and copies in both directions.
	client := &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		return fx.relay.RoundTrip(r.Clone(r.Context()), tunnelID, "api", shop)
	})}
	fx.get("/no") // waits until the agent knows its services
	c, _, err := websocket.Dial(t.Context(), "http://api.service/ws", &websocket.DialOptions{HTTPClient: client})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.CloseNow() }()
	for i := range 100 {
		sent := strings.Repeat(fmt.Sprint(i), 200)
		if err := c.Write(t.Context(), websocket.MessageText, []byte(sent)); err != nil {
			t.Fatal(err)
		}
		if _, b, err := c.Read(t.Context()); err != nil || string(b) != "re: "+sent {
			t.Fatalf("Read() = %q, %v, want %q and no error", b, err, "re: "+sent)
		}
	}
	if _, response, err := websocket.Dial(t.Context(), "http://api.service/no",
		&websocket.DialOptions{HTTPClient: client}); err == nil || response == nil ||
		response.StatusCode != http.StatusForbidden {
		t.Errorf("Dial(refused path) = %v, %v, want 403 and an error", response, err)
	}
}

// roundTripper is a function as an http.RoundTripper.
type roundTripper func(*http.Request) (*http.Response, error)

func (t roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

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

	"github.com/gatewright/gatewright/shared/tunnel"
)

// echo answers what it was asked.
func echo(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	w.Header().Set("Content-Type", "text/plain")
	w.Header().Set("X-Got", fmt.Sprint(r.Header))
	_, _ = fmt.Fprintf(w, "%s %s %s", r.Method, r.RequestURI, body)
}

// TestRequestReachesItsService goes both ways of dialling.
func TestRequestReachesItsService(t *testing.T) {
	for _, webSocket := range []bool{false, true} {
		t.Run(fmt.Sprintf("WebSocket %v", webSocket), func(t *testing.T) {
			w := newWorld(t, http.HandlerFunc(echo))
			o := w.options()
			o.WebSocket = webSocket
			w.run(o)
			response, err := w.ask(http.MethodPost, "/a%2Fb/c?d=e%20f", strings.NewReader("hello"), func(r *http.Request) {
				r.Header.Set("X-Custom", "kept")
				r.Header.Set("Gatewright-Tunnel-Project", "forged")
			})
			got := text(t, response, err)
			if want := "POST /base/a%2Fb/c?d=e%20f hello"; got != want || response.StatusCode != http.StatusOK {
				t.Errorf("it answers %s %q, want %q", response.Status, got, want)
			}
			headers := response.Header.Get("X-Got")
			if !strings.Contains(headers, "X-Custom:[kept]") || strings.Contains(headers, "Gatewright-Tunnel") || strings.Contains(headers, "Go-http-client") {
				t.Errorf("the service got %s", headers)
			}
			if response.Header.Get("Gatewright-Tunnel-Failure") != "" {
				t.Error("the answer has fields of the tunnel")
			}
		})
	}
}

func TestWhoMayNotAskIsRefusedByTheAgent(t *testing.T) {
	w := newWorld(t, http.HandlerFunc(echo))
	w.run(w.options())
	for _, c := range []struct {
		name, service string
		caller        tunnel.Caller
		want          tunnel.Failure
	}{
		{"another project", "api", tunnel.Caller{Project: "other", Environment: "production"}, tunnel.NotAllowed},
		{"another environment", "api", tunnel.Caller{Project: "shop", Environment: "preview"}, tunnel.NotAllowed},
		{"nobody", "api", tunnel.Caller{}, tunnel.NotAllowed},
		{"another service", "API", shop, tunnel.UnknownService},
		{"no service", "", shop, tunnel.UnknownService},
	} {
		t.Run(c.name, func(t *testing.T) {
			text(t, first(w.ask(http.MethodGet, "/", nil)), nil)
			r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://x/", nil)
			_, err := w.relay.RoundTrip(r, tunnelID, c.service, c.caller)
			if failed, ok := errors.AsType[*tunnel.Error](err); !ok || failed.Failure != c.want {
				t.Errorf("it answers %v, want %s", err, c.want)
			}
		})
	}
}

func first(response *http.Response, _ error) *http.Response { return response }

func TestServiceThatIsDown(t *testing.T) {
	w := newWorld(t, http.HandlerFunc(echo))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	w.services[0].Endpoint = "http://" + l.Addr().String()
	w.run(w.options())
	_, err = w.ask(http.MethodGet, "/", nil)
	if failed, ok := errors.AsType[*tunnel.Error](err); !ok || failed.Failure != tunnel.Unreachable {
		t.Errorf("it answers %v, want unreachable", err)
	}
}

func TestNoAgent(t *testing.T) {
	w := newWorld(t, http.HandlerFunc(echo))
	if _, err := w.ask(http.MethodGet, "/", nil); !errors.Is(err, tunnel.ErrNoAgent) {
		t.Errorf("it answers %v, want ErrNoAgent", err)
	}
	agent := w.run(w.options())
	text(t, first(w.ask(http.MethodGet, "/", nil)), nil)
	_ = agent.end()
	w.until(func() bool { return len(w.relay.Of(tunnelID)) == 0 })
	if _, err := w.ask(http.MethodGet, "/", nil); !errors.Is(err, tunnel.ErrNoAgent) {
		t.Errorf("after the agent's end it answers %v, want ErrNoAgent", err)
	}
	if n := w.relay.Tunnels(); n != 0 {
		t.Errorf("%d tunnels are remembered that nobody has", n)
	}
}

func TestRefusedTokenEndsTheAgent(t *testing.T) {
	for _, webSocket := range []bool{false, true} {
		w := newWorld(t, http.HandlerFunc(echo))
		o := w.options()
		o.WebSocket = webSocket
		o.Token = func() (string, error) { return "another", nil }
		if err := tunnel.NewAgent(o).Run(t.Context(), time.Second); !errors.Is(err, tunnel.ErrRefused) {
			t.Errorf("it ends with %v, want ErrRefused", err)
		}
	}
}

// TestRotatedTokenOpensNothingNew has live connections stay meanwhile.
func TestRotatedTokenOpensNothingNew(t *testing.T) {
	w := newWorld(t, http.HandlerFunc(echo))
	agent := w.run(w.options())
	w.mu.Lock()
	w.token = "rotated"
	w.mu.Unlock()
	text(t, first(w.ask(http.MethodGet, "/", nil)), nil)
	w.cut()
	w.until(func() bool { return len(w.relay.Of(tunnelID)) == 0 })
	<-agent.ended
	if !errors.Is(agent.err, tunnel.ErrRefused) {
		t.Errorf("the agent ends with %v, want ErrRefused", agent.err)
	}
}

// TestLargeBodiesPass goes through with 100 MB each way at once.
func TestLargeBodiesPass(t *testing.T) {
	const size = 100 << 20
	w := newWorld(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		_, _ = io.Copy(w, r.Body)
	}))
	w.run(w.options())
	sent, got := sha256.New(), sha256.New()
	body := io.TeeReader(io.LimitReader(&pattern{}, size), sent)
	response, err := w.ask(http.MethodPost, "/", body)
	if err != nil {
		t.Fatal(err)
	}
	n, err := io.Copy(got, response.Body)
	_ = response.Body.Close()
	if err != nil || n != size || !bytes.Equal(sent.Sum(nil), got.Sum(nil)) {
		t.Errorf("%d bytes came back with %v", n, err)
	}
}

// pattern is a body without an end, whose parts are alike but for their numbers.
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

func TestTrailersPass(t *testing.T) {
	w := newWorld(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Trailer", "X-Sum")
		_, _ = io.WriteString(w, "body")
		w.Header().Set("X-Sum", r.Trailer.Get("X-Request-Sum"))
	}))
	w.run(w.options())
	response, err := w.ask(http.MethodPost, "/", io.MultiReader(strings.NewReader("hello")), func(r *http.Request) {
		r.Trailer = http.Header{"X-Request-Sum": {"5"}}
	})
	if got := text(t, response, err); got != "body" || response.Trailer.Get("X-Sum") != "5" {
		t.Errorf("it answers %q with the trailer %v", got, response.Trailer)
	}
}

// TestAnswersStream expects each part before the next one is written.
func TestAnswersStream(t *testing.T) {
	next := make(chan struct{})
	w := newWorld(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for i := range 3 {
			_, _ = fmt.Fprintf(w, "%d", i)
			_ = http.NewResponseController(w).Flush()
			select {
			case <-next:
			case <-r.Context().Done():
			}
		}
	}))
	w.run(w.options())
	response, err := w.ask(http.MethodGet, "/", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	for i := range 3 {
		var b [1]byte
		if _, err := io.ReadFull(response.Body, b[:]); err != nil || b[0] != byte('0'+i) {
			t.Fatalf("part %d is %q with %v", i, b, err)
		}
		next <- struct{}{}
	}
}

// TestCancellationReachesTheService ends requests before and after their answer's head.
func TestCancellationReachesTheService(t *testing.T) {
	for _, head := range []bool{false, true} {
		began, ended := make(chan struct{}), make(chan struct{})
		w := newWorld(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if head {
				w.WriteHeader(http.StatusOK)
				_ = http.NewResponseController(w).Flush()
			}
			close(began)
			<-r.Context().Done()
			close(ended)
		}))
		w.run(w.options())
		gone := errors.New("gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			<-began
			cancel(gone)
		}()
		response, err := w.ask(http.MethodGet, "/", nil, func(r *http.Request) { *r = *r.WithContext(ctx) })
		if err == nil {
			_, err = io.Copy(io.Discard, response.Body)
			_ = response.Body.Close()
		}
		if !errors.Is(err, gone) && (!head || !errors.Is(err, context.Canceled)) {
			t.Errorf("it ends with %v", err)
		}
		<-ended
	}
}

// TestSlowReaderHoldsTheServiceBack finds the service waiting, and others served.
func TestSlowReaderHoldsTheServiceBack(t *testing.T) {
	var written atomic.Int64
	w := newWorld(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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
	w.run(w.options())
	response, err := w.ask(http.MethodGet, "/", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	for before := int64(-1); before != written.Load(); time.Sleep(50 * time.Millisecond) {
		before = written.Load()
	}
	const most = 40 << 20 // what sockets and windows hold
	if n := written.Load(); n > most {
		t.Errorf("%d bytes have left the service, though nobody has read any", n)
	}
	for range 20 {
		text(t, first(w.ask(http.MethodGet, "/small", nil)), nil)
	}
}

// TestWebSocketPasses talks to a service by WebSocket, and finds that it refuses.
func TestWebSocketPasses(t *testing.T) {
	w := newWorld(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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
	w.run(w.options())
	// A gateway, in small: it hands the upgrade on, and copies both ways.
	client := &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		return w.relay.RoundTrip(r.Clone(r.Context()), tunnelID, "api", shop)
	})}
	text(t, first(w.ask(http.MethodGet, "/no", nil)), nil)
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
			t.Fatalf("it answers %q with %v", b, err)
		}
	}
	if _, response, err := websocket.Dial(t.Context(), "http://api.service/no", &websocket.DialOptions{HTTPClient: client}); err == nil || response == nil || response.StatusCode != http.StatusForbidden {
		t.Errorf("what the service refuses is answered %v, %v", response, err)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// frame returns a WebSocket frame of a server with n bytes of payload. firstByte has the FIN bit and the opcode.
func frame(firstByte byte, n int) []byte {
	out := []byte{firstByte, byte(min(n, 126))}
	switch {
	case n > 0xffff:
		out[1] = 127
		out = binary.BigEndian.AppendUint64(out, uint64(n))
	case n > 125:
		out = binary.BigEndian.AppendUint16(out, uint16(n))
	}
	return append(out, make([]byte, n)...)
}

// closeGoingAway is a Close frame with the status 1001.
const closeGoingAway = "\x88\x02\x03\xe9"

// TestWebSocketsGetACloseFrameOnShutdown checks that the Close frame is sent between two frames, even if
// EndUpgrades is called after a part of a frame. What the client sends afterwards must reach the upstream.
func TestWebSocketsGetACloseFrameOnShutdown(t *testing.T) {
	first, last := frame(0x01, 5), frame(0x80, 70000) // the frames of one message
	for name, tc := range map[string]struct {
		before, after []byte
		want          string
		dropped       bool // whether after is sent after the Close frame of the gateway or the upstream, and is dropped
	}{
		"no frame":                      {nil, nil, closeGoingAway, true},
		"between two frames":            {frame(0x82, 200), frame(0x82, 3), string(frame(0x82, 200)) + closeGoingAway, true},
		"within a frame's head":         {last[:4], last[4:], string(last) + closeGoingAway, false},
		"within a frame's payload":      {last[:1000], last[1000:], string(last) + closeGoingAway, false},
		"between parts of a message":    {first, last, string(first) + closeGoingAway, true},
		"a close frame of the upstream": {frame(0x88, 2), nil, string(frame(0x88, 2)), true},
	} {
		t.Run(name, func(t *testing.T) {
			resume, received := make(chan struct{}), make(chan string, 1)
			backend := rawUpstream(t, func(r *bufio.Reader, conn net.Conn) {
				if _, err := http.ReadRequest(r); err != nil {
					return
				}
				writef(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
				_, _ = conn.Write(tc.before)
				<-resume
				_, _ = conn.Write(tc.after)
				all, _ := io.ReadAll(r)
				received <- string(all)
			})
			h := newFixture(t, artifact(route("GET /x", forward(backend))))
			r, conn := sendRaw(t, h.URL, "GET /x HTTP/1.1\r\nHost: shop.test\r\nConnection: Upgrade\r\nUpgrade: "+
				"websocket\r\n\r\n")
			readSwitch(t, r)
			got := make([]byte, len(tc.before))
			if _, err := io.ReadFull(r, got); err != nil {
				t.Fatal(err)
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				h.gateway.EndUpgrades(t.Context())
			}()
			if !tc.dropped {
				close(resume)
			}
			rest := make([]byte, len(tc.want)-len(got))
			if n, err := io.ReadFull(r, rest); err != nil {
				t.Fatalf("after EndUpgrades, the client got %d bytes, %v, want %d bytes", n, err, len(rest))
			}
			if got := string(got) + string(rest); got != tc.want {
				t.Errorf("upgraded connection: client got %d bytes that end with %q, want %d bytes that end with %q",
					len(got), got[max(0, len(got)-6):], len(tc.want), tc.want[max(0, len(tc.want)-6):])
			}
			if tc.dropped {
				close(resume)
			}
			writef(conn, "bye")
			if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
				t.Fatal(err)
			}
			if got := <-received; got != "bye" {
				t.Errorf("upgraded connection: upstream got %q, want %q", got, "bye")
			}
			if more, err := io.ReadAll(r); err != nil || len(more) > 0 {
				t.Errorf("ReadAll() after the close frame = %q, %v, want nothing and no error", more, err)
			}
			<-done
		})
	}
}

// TestUpgradesAreClosedAtTheShutdownDeadline checks that EndUpgrades closes an upgraded connection when its context has
// ended. It also checks that EndUpgrades returns immediately if there is no such connection.
func TestUpgradesAreClosedAtTheShutdownDeadline(t *testing.T) {
	backend := newSwitchingUpstream(t)
	h := newFixture(t,
		artifact(route("GET /x", component("urlForwardHandler",
			map[string]any{"baseUrl": backend, "upgrades": []string{"tcp/1"}}))))
	r, _ := sendRaw(t, h.URL, "GET /x HTTP/1.1\r\nHost: shop.test\r\nConnection: Upgrade\r\nUpgrade: tcp/1\r\n\r\n")
	readSwitch(t, r)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	h.gateway.EndUpgrades(ctx)
	if more, err := io.ReadAll(r); err != nil || len(more) > 0 {
		t.Errorf("ReadAll() after EndUpgrades() = %q, %v, want nothing and no error", more, err)
	}
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		newFixture(t, artifact()).gateway.EndUpgrades(t.Context())
		if time.Since(start) > 0 {
			t.Errorf("EndUpgrades() without connections took %s, want 0", time.Since(start))
		}
	})
}

// hookedWriter is a response writer that calls onHijack after its connection was hijacked,
// and onWrite after the head of a response with status 101 was written to the connection.
type hookedWriter struct {
	http.ResponseWriter
	onHijack, onWrite func()
}

func (h hookedWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	h.onHijack()
	conn = hookedConn{conn, h.onWrite}
	return conn, bufio.NewReadWriter(buffered.Reader, bufio.NewWriter(conn)), nil
}

// hookedConn is the hijacked connection of a hookedWriter.
type hookedConn struct {
	net.Conn
	onWrite func()
}

func (c hookedConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if bytes.HasPrefix(p, []byte("HTTP/1.1 101")) {
		c.onWrite()
	}
	return n, err
}

// waitContext is a context that closes waiting at the first call of Done.
type waitContext struct {
	context.Context //nolint:containedctx // waitContext implements a context
	once            sync.Once
	waiting         chan struct{}
}

func (c *waitContext) Done() <-chan struct{} {
	c.once.Do(func() { close(c.waiting) })
	return c.Context.Done()
}

// TestUpgradeDuringShutdownIsClosed checks that a connection is closed if EndUpgrades is called when the connection has
// just been hijacked, or when the head of the response has just been written. If EndUpgrades waits, the client of a
// WebSocket must receive the Close frame after the head.
func TestUpgradeDuringShutdownIsClosed(t *testing.T) {
	backend := newSwitchingUpstream(t)
	for _, atHijack := range []bool{true, false} {
		for _, c := range []struct {
			protocol, closeFrame string
			wait                 bool
		}{{"tcp/1", "", false}, {"websocket", "", false}, {"websocket", closeGoingAway, true}} {
			h := newFixture(t,
				artifact(route("GET /x", component("urlForwardHandler",
					map[string]any{"baseUrl": backend, "upgrades": []string{"tcp/1", "websocket"}}))))
			ctx, cancel := context.WithCancel(t.Context())
			if !c.wait {
				cancel()
			}
			endUpgradesIf := func(enabled bool) func() {
				return func() {
					switch {
					case enabled && c.wait:
						waiting := &waitContext{Context: ctx, waiting: make(chan struct{})}
						go h.gateway.EndUpgrades(waiting)
						<-waiting.waiting
					case enabled:
						h.gateway.EndUpgrades(ctx)
					}
				}
			}
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				h.gateway.ServeHTTP(hookedWriter{w, endUpgradesIf(atHijack), endUpgradesIf(!atHijack)}, r)
			}))
			r, _ := sendRaw(t, server.URL, "GET /x HTTP/1.1\r\nHost: shop.test\r\nConnection: Upgrade\r\nUpgrade: "+
				c.protocol+"\r\n\r\n")
			response, err := http.ReadResponse(r, nil)
			if err == nil && response.StatusCode != http.StatusSwitchingProtocols {
				t.Errorf("%+v, EndUpgrades at the hijack: %t: GET /x: status = %d, want 101", c, atHijack, response.StatusCode)
			}
			if err != nil && (c.wait || !atHijack) { // otherwise, the connection can end before the head
				t.Errorf("%+v, EndUpgrades at the hijack: %t: GET /x: error = %v, want status 101", c, atHijack, err)
			}
			closeFrame := make([]byte, len(c.closeFrame))
			if _, err := io.ReadFull(r, closeFrame); err != nil || string(closeFrame) != c.closeFrame {
				t.Errorf("%+v, EndUpgrades at the hijack: %t: data = %q, %v, want the close frame %q",
					c, atHijack, closeFrame, err, c.closeFrame)
			}
			cancel()
			if more, err := io.ReadAll(r); errors.Is(err, os.ErrDeadlineExceeded) || len(more) > 0 {
				t.Errorf("%+v, EndUpgrades at the hijack: %t: ReadAll() = %q, %v, want the end of the connection",
					c, atHijack, more, err)
			}
			server.Close()
		}
	}
}

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

// frame is one of a server's, of a length that is written in one, two or eight bytes.
func frame(first byte, n int) []byte {
	out := []byte{first, byte(min(n, 126))}
	switch {
	case n > 0xffff:
		out[1] = 127
		out = binary.BigEndian.AppendUint64(out, uint64(n))
	case n > 125:
		out = binary.BigEndian.AppendUint16(out, uint16(n))
	}
	return append(out, make([]byte, n)...)
}

const goAway = "\x88\x02\x03\xe9"

// TestWebSocketsAreTold between two frames, wherever the upstream's bytes were cut, and the
// client's answer reaches the upstream.
func TestWebSocketsAreTold(t *testing.T) {
	part, last := frame(0x01, 5), frame(0x80, 70000)
	for name, tc := range map[string]struct {
		before, after []byte
		want          string
		dropped       bool // what comes after is too late
	}{
		"who waits":                     {nil, nil, goAway, true},
		"between two frames":            {frame(0x82, 200), frame(0x82, 3), string(frame(0x82, 200)) + goAway, true},
		"in a head":                     {last[:4], last[4:], string(last) + goAway, false},
		"in a payload":                  {last[:1000], last[1000:], string(last) + goAway, false},
		"between parts of a message":    {part, last, string(part) + goAway, true},
		"whom the upstream has told so": {frame(0x88, 2), nil, string(frame(0x88, 2)), true},
	} {
		t.Run(name, func(t *testing.T) {
			told, heard := make(chan struct{}), make(chan string, 1)
			up := rawUpstream(t, func(r *bufio.Reader, conn net.Conn) {
				if _, err := http.ReadRequest(r); err != nil {
					return
				}
				say(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
				_, _ = conn.Write(tc.before)
				<-told
				_, _ = conn.Write(tc.after)
				all, _ := io.ReadAll(r)
				heard <- string(all)
			})
			h := newHouse(t, artifact(route("GET /x", forward(up))))
			r, conn := raw(t, h.URL, "GET /x HTTP/1.1\r\nHost: shop.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
			if response, err := http.ReadResponse(r, nil); err != nil || response.StatusCode != http.StatusSwitchingProtocols {
				t.Fatalf("got %+v, %v", response, err)
			}
			got := make([]byte, len(tc.before))
			if _, err := io.ReadFull(r, got); err != nil {
				t.Fatal(err)
			}
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				h.gateway.EndUpgrades(t.Context())
			}()
			if !tc.dropped {
				close(told)
			}
			rest := make([]byte, len(tc.want)-len(got))
			if _, err := io.ReadFull(r, rest); err != nil {
				t.Fatal(err)
			}
			if got := string(got) + string(rest); got != tc.want {
				t.Errorf("the client gets %d bytes that are not what it should", len(got))
			}
			if tc.dropped {
				close(told)
			}
			say(conn, "bye")
			if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
				t.Fatal(err)
			}
			if got := <-heard; got != "bye" {
				t.Errorf("the upstream hears %q", got)
			}
			if more, err := io.ReadAll(r); err != nil || len(more) > 0 {
				t.Errorf("then comes %q, %v", more, err)
			}
			<-ended
		})
	}
}

// TestUpgradesThatDoNotEndAreEnded when the time is up.
func TestUpgradesThatDoNotEndAreEnded(t *testing.T) {
	up := switching(t)
	h := newHouse(t, artifact(route("GET /x", component("urlForwardHandler", map[string]any{"baseUrl": up, "upgrades": []string{"tcp/1"}}))))
	r, _ := raw(t, h.URL, "GET /x HTTP/1.1\r\nHost: shop.test\r\nConnection: Upgrade\r\nUpgrade: tcp/1\r\n\r\n")
	if response, err := http.ReadResponse(r, nil); err != nil || response.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("got %+v, %v", response, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	h.gateway.EndUpgrades(ctx)
	if more, err := io.ReadAll(r); err != nil || len(more) > 0 {
		t.Errorf("it ends with %q, %v", more, err)
	}
	synctest.Test(t, func(t *testing.T) { // without any it ends at once
		begun := time.Now()
		newHouse(t, artifact()).gateway.EndUpgrades(t.Context())
		if time.Since(begun) > 0 {
			t.Error("nobody is waited for")
		}
	})
}

// hijacked is a response's writer that has something happen once its connection is given away, and before the
// first write to it.
type hijacked struct {
	http.ResponseWriter
	given, told func()
}

func (h hijacked) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	h.given()
	conn = toldOf{conn, h.told}
	return conn, bufio.NewReadWriter(buffered.Reader, bufio.NewWriter(conn)), nil
}

type toldOf struct {
	net.Conn
	told func()
}

func (c toldOf) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if bytes.HasPrefix(p, []byte("HTTP/1.1 101")) {
		c.told()
	}
	return n, err
}

// awaited is a context that says when somebody waits for its end.
type awaited struct {
	context.Context //nolint:containedctx // it is one
	once            sync.Once
	waits           chan struct{}
}

func (a *awaited) Done() <-chan struct{} {
	a.once.Do(func() { close(a.waits) })
	return a.Context.Done()
}

// TestUpgradeThatBeginsAsTheGatewayEndsIsEndedToo, between the moment at which its server has given the connection away and the one at which
// the client has read of it: nobody else would. A WebSocket's client is told before, and never before it knows what it has.
func TestUpgradeThatBeginsAsTheGatewayEndsIsEndedToo(t *testing.T) {
	up := switching(t)
	for _, given := range []bool{true, false} {
		for _, c := range []struct {
			protocol, told string
			wait           bool
		}{{"tcp/1", "", false}, {"websocket", "", false}, {"websocket", goAway, true}} {
			h := newHouse(t, artifact(route("GET /x", component("urlForwardHandler", map[string]any{"baseUrl": up, "upgrades": []string{"tcp/1", "websocket"}}))))
			ctx, cut := context.WithCancel(t.Context())
			if !c.wait {
				cut()
			}
			at := func(moment bool) func() {
				return func() {
					switch {
					case moment && c.wait:
						waits := &awaited{Context: ctx, waits: make(chan struct{})}
						go h.gateway.EndUpgrades(waits)
						<-waits.waits
					case moment:
						h.gateway.EndUpgrades(ctx)
					}
				}
			}
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				h.gateway.ServeHTTP(hijacked{w, at(given), at(!given)}, r)
			}))
			r, _ := raw(t, server.URL, "GET /x HTTP/1.1\r\nHost: shop.test\r\nConnection: Upgrade\r\nUpgrade: "+c.protocol+"\r\n\r\n")
			if response, err := http.ReadResponse(r, nil); err == nil && response.StatusCode != http.StatusSwitchingProtocols || err != nil && (c.wait || !given) {
				t.Errorf("%+v, given %t: %+v, %v", c, given, response, err)
			}
			told := make([]byte, len(c.told))
			if _, err := io.ReadFull(r, told); err != nil || string(told) != c.told {
				t.Errorf("%+v, given %t: it is told %q, %v", c, given, told, err)
			}
			cut()
			if more, err := io.ReadAll(r); errors.Is(err, os.ErrDeadlineExceeded) || len(more) > 0 {
				t.Errorf("%+v, given %t: it goes on with %q, %v", c, given, more, err)
			}
			server.Close()
		}
	}
}

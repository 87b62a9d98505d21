package gateway_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/http"
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

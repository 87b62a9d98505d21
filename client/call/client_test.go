package call_test

import (
	"context"
	"encoding/binary"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gatewright/gatewright/client/call"
)

func TestPlainHTTPGoesThroughNoProxy(t *testing.T) {
	t.Parallel()
	proxy := call.PlainGoesDirect(func(*http.Request) (*url.URL, error) { return url.Parse("http://proxy.example.com") })
	for address, proxied := range map[string]bool{"http://api.localhost:9000": false, "http://127.0.0.1:9000": false, "https://api.example.com": true} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		if by, err := proxy(r); err != nil || (by != nil) != proxied {
			t.Errorf("%s goes by %v, %v", address, by, err)
		}
	}
}

// TestNamesOfThisMachineLeadToIt has a DNS that says of such a name that it is another machine. It runs alone: all others have that DNS too.
func TestNamesOfThisMachineLeadToIt(t *testing.T) {
	dns, asked := lyingDNS(t)
	before := net.DefaultResolver
	defer func() { net.DefaultResolver = before }()
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", dns)
	}}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://api.localhost:9", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := call.Client().Do(r)
	if err == nil {
		_ = answer.Body.Close()
	}
	if asked.Load() == 0 {
		t.Skip("this system knows the name by itself")
	}
	if err == nil || !strings.Contains(err.Error(), "the DNS leads to another one") {
		t.Errorf("it goes to another machine: %v", err)
	}
}

// lyingDNS answers that each name is 192.0.2.1.
func lyingDNS(t *testing.T) (address string, asked *atomic.Int32) {
	t.Helper()
	asked = new(atomic.Int32)
	c, err := new(net.ListenConfig).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	go func() {
		for buffer := make([]byte, 512); ; {
			n, from, err := c.ReadFrom(buffer)
			if err != nil {
				return
			}
			asked.Add(1)
			_, _ = c.WriteTo(lie(buffer[:n]), from)
		}
	}()
	return c.LocalAddr().String(), asked
}

// lie answers a question for an address with one, and for anything else with nothing.
func lie(question []byte) []byte {
	end := 12
	for end < len(question) && question[end] != 0 {
		end += int(question[end]) + 1
	}
	end += 5 // the root, type and class
	answer := append([]byte{}, question[:end]...)
	answer[2], answer[3] = 0x81, 0x80
	binary.BigEndian.PutUint16(answer[8:], 0)
	binary.BigEndian.PutUint16(answer[10:], 0)
	if binary.BigEndian.Uint16(question[end-4:]) != 1 {
		return answer
	}
	binary.BigEndian.PutUint16(answer[6:], 1)
	return append(answer, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, 192, 0, 2, 1)
}

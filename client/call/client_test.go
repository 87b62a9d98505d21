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

func TestPlainHTTPBypassesProxy(t *testing.T) {
	t.Parallel()
	proxy := call.BypassProxyForHTTP(func(*http.Request) (*url.URL, error) {
		return url.Parse("http://proxy.example.com")
	})
	for address, proxied := range map[string]bool{
		"http://api.localhost:9000": false, "http://127.0.0.1:9000": false,
		"https://api.example.com": true,
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		if proxyURL, err := proxy(r); err != nil || (proxyURL != nil) != proxied {
			t.Errorf("proxy(%s) = %v, error = %v, want a proxy: %t", address, proxyURL, err, proxied)
		}
	}
}

// TestLoopbackNameNeverReachesOtherMachine checks that a request to a loopback name fails if the DNS resolves the name
// to another machine. The test does not run in parallel, because it changes the DNS for all tests.
func TestLoopbackNameNeverReachesOtherMachine(t *testing.T) {
	dns, queries := newMaliciousDNS(t)
	before := net.DefaultResolver
	defer func() { net.DefaultResolver = before }()
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", dns)
	}}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://api.localhost:9", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := call.NewHTTPClient().Do(r)
	if err == nil {
		_ = resp.Body.Close()
	}
	if queries.Load() == 0 {
		t.Skip("this system resolves loopback names without the DNS")
	}
	if err == nil || !strings.Contains(err.Error(), "the DNS leads to another one") {
		t.Errorf("a request to a loopback name that leads to another machine: error = %v, want a refusal", err)
	}
}

// newMaliciousDNS starts a DNS server that resolves each name to 192.0.2.1.
func newMaliciousDNS(t *testing.T) (address string, queries *atomic.Int32) {
	t.Helper()
	queries = new(atomic.Int32)
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
			queries.Add(1)
			_, _ = c.WriteTo(maliciousDNSResponse(buffer[:n]), from)
		}
	}()
	return c.LocalAddr().String(), queries
}

// maliciousDNSResponse returns the response to a question for an IPv4 address, and an empty response to any other
// question.
func maliciousDNSResponse(query []byte) []byte {
	end := 12
	for end < len(query) && query[end] != 0 {
		end += int(query[end]) + 1
	}
	end += 5 // the root label, type and class
	resp := append([]byte{}, query[:end]...)
	resp[2], resp[3] = 0x81, 0x80
	binary.BigEndian.PutUint16(resp[8:], 0)
	binary.BigEndian.PutUint16(resp[10:], 0)
	if binary.BigEndian.Uint16(query[end-4:]) != 1 {
		return resp
	}
	binary.BigEndian.PutUint16(resp[6:], 1)
	return append(resp, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, 192, 0, 2, 1)
}

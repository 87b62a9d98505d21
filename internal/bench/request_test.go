package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/gatewright/gatewright/internal/bench/fixture"
)

// listener returns a listener on a free port.
func listener(t testing.TB) net.Listener {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// plainUpstream starts an upstream for requests without a body, and returns its address. It allocates nothing for a
// request.
func plainUpstream(t testing.TB) string {
	t.Helper()
	l := listener(t)
	response := fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nDate: Sun, 01 Nov 2026 00:00:00 "+
		"GMT\r\nContent-Length: %d\r\n\r\n%s", fixture.Small, fixture.SmallBody)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = c.Close() }()
				buffer, n := make([]byte, 4096), 0
				for {
					m, err := c.Read(buffer[n:])
					if err != nil {
						return
					}
					if n += m; bytes.HasSuffix(buffer[:n], []byte("\r\n\r\n")) {
						n = 0
						if _, err := c.Write(response); err != nil {
							return
						}
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}

// newRequester returns a function that sends one request to the handler of a role and reads the response, without an allocation.
func newRequester(t testing.TB, handler http.Handler, role string) func() {
	t.Helper()
	l := listener(t)
	server := newServer(role, handler)
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	c, err := new(net.Dialer).DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	request, buffer := keyedLoad("", 0, 0).Request, make([]byte, 8192)
	return func() {
		if _, err := c.Write(request); err != nil {
			t.Fatal(err)
		}
		// The number of remaining requests in a response has one digit or two, so the responses differ in length.
		for n, size := 0, fixture.Small; n < size; {
			read, err := io.ReadAtLeast(c, buffer[n:], size-n)
			if n += read; err != nil {
				t.Fatalf("read the response: %v: %s", err, buffer[:n])
			}
			head := bytes.Index(buffer[:n], []byte("\r\n\r\n"))
			if head < 0 || !bytes.HasPrefix(buffer, []byte("HTTP/1.1 200 OK\r\n")) {
				t.Fatalf("the response is %q, want a complete head with status 200", buffer[:n])
			}
			size = head + len("\r\n\r\n") + fixture.Small
		}
	}
}

// BenchmarkRequest measures the allocations of a request, including those of net/http. The client and the upstream of
// the benchmark allocate nothing.
func BenchmarkRequest(b *testing.B) {
	address := plainUpstream(b)
	for _, role := range append([]string{roleReverse}, rungs()...) {
		b.Run(role, func(b *testing.B) {
			request := newRequester(b, startRole(b, role, address), role)
			request()
			b.ReportAllocs()
			for b.Loop() {
				request()
			}
		})
	}
}

// startRole returns the handler of a role.
func startRole(t testing.TB, role, upstream string) http.Handler {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	t.Cleanup(cancel)
	handler, end, err := newHandler(ctx, role, upstream)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(end)
	return handler
}

// TestGatewayAllocatesLessThanAReverseProxy checks that a request allocates at most 0.8 times as many objects in the
// gateway as in the ReverseProxy: 53 and 79 when this test was written. Allocations are the part of a request's
// processor time that this repository can reduce; the rest is mainly system calls and the reading and writing of
// net/http.
func TestGatewayAllocatesLessThanAReverseProxy(t *testing.T) {
	address := plainUpstream(t)
	objects := func(role string) float64 {
		request := newRequester(t, startRole(t, role, address), role)
		for range 100 { // fill the pools first
			request()
		}
		return testing.AllocsPerRun(1000, request)
	}
	reverse, gateway := objects(roleReverse), objects(rungMetrics)
	if gateway > 0.8*reverse {
		t.Errorf("allocations of a request = %.0f, and %.0f with the ReverseProxy, want at most 0.8 times as many",
			gateway, reverse)
	}
}

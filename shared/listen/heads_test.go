package listen_test

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// dialFrom connects from another address.
func (p pipes) dialFrom(t *testing.T, from string) *client {
	t.Helper()
	ours, theirs := net.Pipe()
	p <- &visitor{theirs, net.TCPAddrFromAddrPort(netip.MustParseAddrPort(from))}
	return newClient(t, ours)
}

// sendHead sends the head of a request. It returns the refusal, or nil if the server has not answered and waits for more.
func (c *client) sendHead(head string) *http.Response {
	c.t.Helper()
	answered := make(chan *http.Response, 1)
	go func() { _, _ = c.Write([]byte(head)) }()
	go func() {
		if response, err := http.ReadResponse(c.r, nil); err == nil {
			answered <- response
		}
	}()
	synctest.Wait()
	select {
	case response := <-answered:
		return response
	default:
		return nil
	}
}

// TestLargeHeadsHaveABoundTogether: clients of several addresses fill the budget of large heads. One address gets a quarter of it
// at most, others' usual requests are served meanwhile, and each head gives its bytes back.
func TestLargeHeadsHaveABoundTogether(t *testing.T) {
	const budget, size = 16 << 20, 65_000
	large := func(begin string) string { return begin + strings.Repeat("x", size-len(begin)) }
	for name, head := range map[string]string{
		"heads without an end":           large("GET / HTTP/1.1\r\nHost: a\r\nX: "),
		"whole heads, bodies are absent": large("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nX: ") + "\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			inTime(t, echo, func(t *testing.T, p pipes) {
				all := 0
				for address := range 6 {
					taken := 0
					for p.dialFrom(t, fmt.Sprintf("192.0.2.%d:1", address)).sendHead(head) == nil && taken < budget/size {
						taken++
					}
					if taken*size > budget*3/10 {
						t.Errorf("large heads of one address = %d, want a quarter of %d bytes at most", taken, budget)
					}
					if address == 0 && taken == 0 {
						t.Error("large heads of the first address = 0, want some")
					}
					all += taken
				}
				if all*size > budget*12/10 {
					t.Errorf("large heads of all addresses = %d, want %d bytes at most", all, budget)
				}
				const other = "203.0.113.1:1"
				response := p.dialFrom(t, other).sendHead(head)
				if response == nil || response.StatusCode != http.StatusServiceUnavailable || response.Header.Get("Retry-After") == "" {
					t.Errorf("GET(large head, no room) = %+v, want 503 with Retry-After", response)
				}
				usual := "GET / HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("x", 7<<10) + "\r\n\r\n"
				if response, _ := p.dialFrom(t, other).send(usual).answer(); response.StatusCode != http.StatusOK {
					t.Errorf("GET(head of 7 KiB) status = %d, want 200", response.StatusCode)
				}
				time.Sleep(30 * time.Second) // which ends the heads and the bodies
				whole := large("GET / HTTP/1.1\r\nHost: a\r\nX: ") + "\r\n\r\n"
				for n := range 100 { // more than a quarter of the budget, on connections that stay open
					if response, _ := p.dialFrom(t, other).send(whole).answer(); response.StatusCode != http.StatusOK {
						t.Fatalf("GET(large head %d, others have ended) status = %d, want 200", n, response.StatusCode)
					}
				}
			})
		})
	}
}

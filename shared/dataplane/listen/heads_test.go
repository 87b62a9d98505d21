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

// dialFrom opens a connection with the remote address from.
func (p pipes) dialFrom(t *testing.T, from string) *client {
	t.Helper()
	clientEnd, serverEnd := net.Pipe()
	p <- &addressedConn{serverEnd, net.TCPAddrFromAddrPort(netip.MustParseAddrPort(from))}
	return newClient(t, clientEnd)
}

// sendHead sends the head of a request. It returns the response, or nil if the server waits for more bytes.
func (c *client) sendHead(head string) *http.Response {
	c.t.Helper()
	responses := make(chan *http.Response, 1)
	go func() { _, _ = c.Write([]byte(head)) }()
	go func() {
		if response, err := http.ReadResponse(c.r, nil); err == nil {
			responses <- response
		}
	}()
	synctest.Wait()
	select {
	case response := <-responses:
		return response
	default:
		return nil
	}
}

// TestLargeHeadsShareABudget uses up the budget of large heads with clients of several
// addresses. It checks that each address gets about a quarter of the budget at most, that
// ordinary requests are still served, and that ended heads return their bytes to the budget.
func TestLargeHeadsShareABudget(t *testing.T) {
	const budget, size = 16 << 20, 65_000
	large := func(prefix string) string { return prefix + strings.Repeat("x", size-len(prefix)) }
	for name, head := range map[string]string{
		"heads without an end":        large("GET / HTTP/1.1\r\nHost: a\r\nX: "),
		"whole heads, missing bodies": large("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nX: ") + "\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			runWithPipes(t, echo, func(t *testing.T, p pipes) {
				total := 0
				for address := range 6 {
					accepted := 0
					for p.dialFrom(t, fmt.Sprintf("192.0.2.%d:1", address)).sendHead(head) == nil && accepted < budget/size {
						accepted++
					}
					if accepted*size > budget*3/10 {
						t.Errorf("bytes of one address's large heads = %d, want at most %d", accepted*size, budget*3/10)
					}
					if address == 0 && accepted == 0 {
						t.Error("large heads of the first address = 0, want some")
					}
					total += accepted
				}
				if total*size > budget*12/10 {
					t.Errorf("bytes of all addresses' large heads = %d, want at most %d", total*size, budget*12/10)
				}
				const other = "203.0.113.1:1"
				response := p.dialFrom(t, other).sendHead(head)
				if response == nil || response.StatusCode != http.StatusServiceUnavailable ||
					response.Header.Get("Retry-After") == "" {
					t.Errorf("response to a large head beyond the budget = %+v, want 503 with Retry-After", response)
				}
				ordinary := "GET / HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("x", 7<<10) + "\r\n\r\n"
				if response, _ := p.dialFrom(t, other).send(ordinary).readResponse(); response.StatusCode != http.StatusOK {
					t.Errorf("GET / with a head of 7 KiB: status = %d, want 200", response.StatusCode)
				}
				time.Sleep(30 * time.Second) // the timeouts end the incomplete heads and bodies
				complete := large("GET / HTTP/1.1\r\nHost: a\r\nX: ") + "\r\n\r\n"
				for n := range 100 { // more than a quarter of the budget in total, on connections that stay open
					if response, _ := p.dialFrom(t, other).send(complete).readResponse(); response.StatusCode != http.StatusOK {
						t.Fatalf("GET / with large head %d, after the others: status = %d, want 200", n, response.StatusCode)
					}
				}
			})
		})
	}
}

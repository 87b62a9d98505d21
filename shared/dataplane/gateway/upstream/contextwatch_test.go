package upstream

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// roundTripOverPipe does a round trip with play as the server, and returns the body of the response. The connection has
// no buffers: a write waits until play reads its bytes.
func roundTripOverPipe(
	ctx context.Context, t *testing.T, timeout time.Duration, play func(peer net.Conn),
) (string, error) {
	t.Helper()
	clientEnd, serverEnd := net.Pipe()
	defer func() { _, _ = clientEnd.Close(), serverEnd.Close() }()
	d := &direct{maxHeaderBytes: responseHeaderBytes}
	d.pool = pool{dial: func(context.Context, string, string) (net.Conn, error) {
		return clientEnd, nil
	}, perHost: 1, maxIdle: 1}
	defer d.pool.close()
	go play(serverEnd)
	r := &http.Request{
		Method: http.MethodGet, URL: &url.URL{Scheme: "http", Host: "up.test", Path: "/"},
		Header: http.Header{"Long": {strings.Repeat("long", 5000)}},
	}
	response, err := d.send(identity{account: "a"}, timeout, r.WithContext(ctx), nil)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	all, err := io.ReadAll(response.Body)
	return string(all), err
}

// readSilently reads everything and sends nothing.
func readSilently(peer net.Conn) { _, _ = io.Copy(io.Discard, peer) }

func TestCanceledRequestStopsWaiting(t *testing.T) {
	errDisconnected := errors.New("the caller has disconnected")
	for name, play := range map[string]func(net.Conn){
		"waiting for the response":           readSilently,
		"waiting for the request to be sent": func(net.Conn) {},
	} {
		for _, delay := range []time.Duration{0, 1, watchDelay / 2, watchDelay, watchDelay + 1, time.Second} {
			t.Run(name+" after "+delay.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ctx, cancel := context.WithCancelCause(t.Context())
					start := time.Now()
					if delay == 0 {
						cancel(errDisconnected)
					}
					defer time.AfterFunc(delay, func() { cancel(errDisconnected) }).Stop()
					_, err := roundTripOverPipe(ctx, t, time.Minute, play)
					if elapsed := time.Since(start); !errors.Is(err, errDisconnected) || elapsed > max(delay, watchDelay) {
						t.Errorf("canceled request: error = %v after %v, want %v after at most %v",
							err, elapsed, errDisconnected, max(delay, watchDelay))
					}
				})
			})
		}
	}
}

// TestSlowUpstreamIsAwaited checks that a request and its response stay intact if watchDelay ends in the middle of
// either.
func TestSlowUpstreamIsAwaited(t *testing.T) {
	// With a delay of two thirds, watchDelay ends while the request is partly read.
	for _, delay := range []time.Duration{0, watchDelay * 2 / 3, watchDelay, 3 * watchDelay, 20 * time.Second} {
		t.Run(delay.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got, err := roundTripOverPipe(t.Context(), t, 50*time.Second, func(peer net.Conn) {
					time.Sleep(delay)
					first := make([]byte, 100)
					_, _ = io.ReadFull(peer, first)
					time.Sleep(delay)
					received, err := http.ReadRequest(bufio.NewReader(io.MultiReader(strings.NewReader(string(first)), peer)))
					if err != nil || received.Header.Get("Long") != strings.Repeat("long", 5000) {
						t.Errorf("ReadRequest() = %.100v, %v, want no error and the field Long of 20,000 bytes", received, err)
					}
					for _, part := range []string{"HTTP/1.1 2", "00 OK\r\nContent-Length: 6\r\n\r\n", "who", "le"} {
						time.Sleep(delay)
						_, _ = io.WriteString(peer, part)
					}
					time.Sleep(time.Hour) // a body has no deadline
					_, _ = io.WriteString(peer, "!")
				})
				if err != nil || got != "whole!" {
					t.Errorf("request to a slow upstream: body = %q, %v, want %q", got, err, "whole!")
				}
			})
		})
	}
}

func TestLateResponseTimesOutOnTime(t *testing.T) {
	for _, timeout := range []time.Duration{time.Millisecond, watchDelay - 1, watchDelay, watchDelay + 1, time.Minute} {
		t.Run(timeout.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				_, err := roundTripOverPipe(t.Context(), t, timeout, readSilently)
				if elapsed := time.Since(start); !errors.Is(err, os.ErrDeadlineExceeded) || elapsed != timeout {
					t.Errorf("request to a server that does not respond: error = %v after %v, want %v after %v",
						err, elapsed, os.ErrDeadlineExceeded, timeout)
				}
			})
		})
	}
}

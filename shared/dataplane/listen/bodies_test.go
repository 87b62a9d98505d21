package listen_test

import (
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/base/bodies"
	"github.com/gatewright/gatewright/shared/core/config"
)

// bufferBody is a handler that reads the whole body with bodies.Read, like the product's handlers.
func bufferBody(w http.ResponseWriter, r *http.Request) {
	switch _, err := bodies.Read(r.Context(), r.Body, r.ContentLength, 12_000); {
	case errors.Is(err, bodies.ErrBusy):
		w.WriteHeader(http.StatusServiceUnavailable)
	case errors.Is(err, bodies.ErrSlow):
		w.WriteHeader(http.StatusRequestTimeout)
	case err != nil:
		w.WriteHeader(http.StatusBadRequest)
	}
}

// TestSlowBufferedBodyIsEnded checks that a body that is too slow but does not stall gets a 408, and that its
// connection ends.
func TestSlowBufferedBodyIsEnded(t *testing.T) {
	runWithPipes(t, bufferBody, func(t *testing.T, p pipes) {
		c := p.dial(t).send(post + "a")
		startTime := time.Now()
		time.Sleep(15 * time.Second)
		c.send("a")
		response, _ := c.readResponse()
		if response.StatusCode != http.StatusRequestTimeout || !response.Close {
			t.Errorf("POST(2 bytes in 20 s) status = %d, Close = %t, want 408 and true", response.StatusCode, response.Close)
		}
		if elapsed := time.Since(startTime); elapsed > 21*time.Second {
			t.Errorf("POST(2 bytes in 20 s) took %s, want at most 21 s", elapsed)
		}
		c.mustEnd()
	})
}

// TestHTTP2SlowBufferedBodyIsEnded checks that a body that is too
// slow gets a 408, and that the connection serves further requests.
func TestHTTP2SlowBufferedBodyIsEnded(t *testing.T) {
	runHTTP2(t, bufferBody, func(t *testing.T, s *tlsServer, p pipes) {
		f := p.dialFrames(t, s)
		id := f.request(true, postFields("/")...)
		synctest.Wait()
		time.Sleep(15 * time.Second)
		f.must(f.WriteData(id, false, []byte("a")))
		time.Sleep(6 * time.Second)
		if got := f.waitResult(id); got.status != "408" {
			t.Errorf("POST(1 byte in 20 s) status = %s, want 408", got.status)
		}
		id = f.request(true, postFields("/")...)
		f.must(f.WriteData(id, true, []byte("a")))
		if got := f.waitResult(id); got.status != "200" {
			t.Errorf("POST(a whole body) status = %s, want 200", got.status)
		}
	})
}

// TestSlowestBodyIsEvicted checks that the listener ends the slowest body to make room for a new body.
func TestSlowestBodyIsEvicted(t *testing.T) {
	const head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10000\r\n\r\n"
	synctest.Test(t, func(t *testing.T) {
		p := make(pipes)
		start(t, p, bufferBody, func(l *config.Listener) { l.BufferedBodyBytes = 88 << 10 }) // room for six bodies
		var clients []*client
		for i := range 6 {
			clients = append(clients, p.dial(t).send(head+string(make([]byte, min(5000+4000*i, 9000)))))
			time.Sleep(time.Second)
		}
		clients[0].send(string(make([]byte, 4900)))
		synctest.Wait() // the listener has counted these bytes, so the second body is now the slowest
		response, _ := p.dial(t).send(head + string(make([]byte, 10_000))).readResponse()
		if response.StatusCode != http.StatusOK {
			t.Errorf("POST(new body) status = %d, want 200", response.StatusCode)
		}
		response, _ = clients[1].readResponse()
		if response.StatusCode != http.StatusServiceUnavailable || !response.Close {
			t.Errorf("POST(slowest body) status = %d, Close = %t, want 503 and true", response.StatusCode, response.Close)
		}
		response, _ = clients[0].send(string(make([]byte, 100))).readResponse()
		if response.StatusCode != http.StatusOK {
			t.Errorf("POST(first body, which is no longer the slowest) status = %d, want 200", response.StatusCode)
		}
	})
}

package listen_test

import (
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/bodies"
	"github.com/gatewright/gatewright/shared/config"
)

// buffering reads the body whole, and answers as the product's handlers do.
func buffering(w http.ResponseWriter, r *http.Request) {
	switch _, err := bodies.Read(r.Context(), r.Body, r.ContentLength, 12_000); {
	case errors.Is(err, bodies.ErrBusy):
		w.WriteHeader(http.StatusServiceUnavailable)
	case errors.Is(err, bodies.ErrSlow):
		w.WriteHeader(http.StatusRequestTimeout)
	case err != nil:
		w.WriteHeader(http.StatusBadRequest)
	}
}

// TestABufferedBodyThatIsTooSlowEnds although it does not stall. Its connection ends, too.
func TestABufferedBodyThatIsTooSlowEnds(t *testing.T) {
	inTime(t, buffering, func(t *testing.T, p pipes) {
		c := p.dial(t).send(post + "a")
		began := time.Now()
		time.Sleep(15 * time.Second)
		c.send("a")
		response, _ := c.answer()
		if response.StatusCode != http.StatusRequestTimeout || !response.Close {
			t.Errorf("POST(2 bytes in 20 s) status = %d, closing %t, want 408 and true", response.StatusCode, response.Close)
		}
		if took := time.Since(began); took > 21*time.Second {
			t.Errorf("the body ended after %s, want 20 s", took)
		}
		c.end()
	})
}

// TestHTTP2BufferedBodyThatIsTooSlowEnds: the connection's other requests go on.
func TestHTTP2BufferedBodyThatIsTooSlowEnds(t *testing.T) {
	inFrames(t, buffering, func(t *testing.T, s *secure, p pipes) {
		f := p.dialFrames(t, s)
		id := f.request(true, posted("/")...)
		synctest.Wait()
		time.Sleep(15 * time.Second)
		f.must(f.WriteData(id, false, []byte("a")))
		time.Sleep(6 * time.Second)
		if got := f.answer(id); got.status != "408" {
			t.Errorf("POST(1 byte in 20 s) status = %s, want 408", got.status)
		}
		id = f.request(true, posted("/")...)
		f.must(f.WriteData(id, true, []byte("a")))
		if got := f.answer(id); got.status != "200" {
			t.Errorf("POST(a whole body) status = %s, want 200", got.status)
		}
	})
}

// TestTheSlowestBodyMakesRoom: the listener ends the slowest body and reads the new one.
func TestTheSlowestBodyMakesRoom(t *testing.T) {
	const head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10000\r\n\r\n"
	synctest.Test(t, func(t *testing.T) {
		p := make(pipes)
		start(t, p, buffering, func(l *config.Listener) { l.BufferedBodyBytes = 88 << 10 }) // six such bodies
		var all []*client
		for i := range 6 {
			all = append(all, p.dial(t).send(head+string(make([]byte, min(5000+4000*i, 9000)))))
			time.Sleep(time.Second)
		}
		all[0].send(string(make([]byte, 4900))) // which makes the second one the slowest
		response, _ := p.dial(t).send(head + string(make([]byte, 10_000))).answer()
		if response.StatusCode != http.StatusOK {
			t.Errorf("POST(new body) status = %d, want 200", response.StatusCode)
		}
		response, _ = all[1].answer()
		if response.StatusCode != http.StatusServiceUnavailable || !response.Close {
			t.Errorf("POST(slowest body) status = %d, closing %t, want 503 and true", response.StatusCode, response.Close)
		}
		response, _ = all[0].send(string(make([]byte, 100))).answer()
		if response.StatusCode != http.StatusOK {
			t.Errorf("POST(another body) status = %d, want 200", response.StatusCode)
		}
	})
}

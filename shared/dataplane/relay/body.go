package relay

import (
	"errors"
	"io"
	"net/http"
	"sync"
)

// body is a request's body across several attempts to send it. A transport closes the body of its attempt even if it
// could not dial. Other attempts may still need the request's body, so it is closed only after the last attempt. A nil
// body belongs to a request without a body.
type body struct {
	inner io.ReadCloser

	mu          sync.Mutex
	current     *attemptBody
	readStarted bool
}

// attemptBody is the body of one attempt.
type attemptBody struct {
	body   *body
	final  bool // this is the last attempt, so Close closes the request's body
	closed bool
}

func newBody(r *http.Request) *body {
	if r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	return &body{inner: r.Body}
}

// next returns the body for the next attempt. From then on, only this attempt can read the body.
func (b *body) next() io.ReadCloser {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.current = &attemptBody{body: b}
	return b.current
}

// wasRead reports whether an attempt has started to read the body, so that no other attempt can send all of it.
func (b *body) wasRead() bool {
	if b == nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.readStarted
}

// handOver leaves the body to the attempt that has a response. That attempt reads the rest and closes the body.
func (b *body) handOver() {
	if b == nil {
		return
	}
	b.mu.Lock()
	b.current.final = true
	closed := b.current.closed
	b.mu.Unlock()
	if closed {
		_ = b.inner.Close()
	}
}

// release closes the body after all attempts have failed, or if no attempt is made.
func (b *body) release() {
	if b == nil {
		return
	}
	b.mu.Lock()
	b.current = nil
	b.mu.Unlock()
	_ = b.inner.Close()
}

// errAttemptOver is the error of attemptBody.Read if the attempt's body is closed, or if another attempt has the
// request's body now.
var errAttemptOver = errors.New("relay: the attempt is over")

func (b *attemptBody) Read(buffer []byte) (int, error) {
	b.body.mu.Lock()
	if b.body.current != b || b.closed {
		b.body.mu.Unlock()
		return 0, errAttemptOver
	}
	b.body.readStarted = true
	b.body.mu.Unlock()
	return b.body.inner.Read(buffer)
}

func (b *attemptBody) Close() error {
	b.body.mu.Lock()
	b.closed = true
	final := b.final
	b.body.mu.Unlock()
	if final {
		return b.body.inner.Close()
	}
	return nil
}

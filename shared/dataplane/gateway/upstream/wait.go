package upstream

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"os"
	"sync"
	"time"
)

// errResponseTimeout is the error for a response that does not begin in time, from an upstream or from a service behind a tunnel.
var errResponseTimeout = fmt.Errorf("wait for the response: %w", os.ErrDeadlineExceeded)

// WithTimeout returns an Account whose responses have to begin within limit instead of
// Options.ResponseTimeout. It shares connections with the other requests of the account.
func (a *Account) WithTimeout(limit time.Duration) *Account {
	out := *a
	out.timeout = limit
	return &out
}

// responseTimer cancels a request if its response does not begin in time after the request was sent,
// or if the upstream stops reading the body. http.Transport has such a timeout, but only one for all
// its requests. Routes with different timeouts would each need a transport with separate connections.
type responseTimer struct {
	responseTimeout time.Duration // from the end of the request to the beginning of the response
	bodyTimeout     time.Duration // for writing one part of the request's body
	cancel          context.CancelCauseFunc

	mu      sync.Mutex
	timer   *time.Timer
	done    bool // the round trip is over, but its trace can still report events
	expired bool
}

// watch returns a request that is canceled when its response is late.
func (t *responseTimer) watch(r *http.Request) *http.Request {
	ctx, cancel := context.WithCancelCause(r.Context())
	t.cancel = cancel
	r = r.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteRequest: func(httptrace.WroteRequestInfo) { t.start(t.responseTimeout) },
	}))
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = &timedBody{r.Body, t}
	}
	return r
}

// timedBody stops the time limit while the gateway reads a part of the client's body, and starts it
// again when the part is read. The transport reads a part only after it has written the previous part.
type timedBody struct {
	io.ReadCloser
	timer *responseTimer
}

func (b *timedBody) Read(p []byte) (int, error) {
	b.timer.pause()
	defer b.timer.start(b.timer.bodyTimeout)
	return b.ReadCloser.Read(p)
}

// start starts a time limit for the upstream. It replaces the previous limit.
func (t *responseTimer) start(limit time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.done:
	case t.timer == nil:
		t.timer = time.AfterFunc(limit, t.expire)
	default:
		t.timer.Reset(limit)
	}
}

// pause stops the time limit while the gateway waits for the client.
func (t *responseTimer) pause() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.timer != nil {
		t.timer.Stop()
	}
}

func (t *responseTimer) expire() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.done {
		t.expired = true
		t.cancel(errResponseTimeout)
	}
}

// stop stops the timer, and reports whether the response was late. If it was late, the caller must discard the result of the request.
func (t *responseTimer) stop() (expired bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.done = true
	if t.timer != nil {
		t.timer.Stop()
	}
	return t.expired
}

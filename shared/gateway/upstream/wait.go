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

// errLate is what a response that does not begin in time is on both ways.
var errLate = fmt.Errorf("wait for the response: %w", os.ErrDeadlineExceeded)

// Waiting returns the way of those of the account's requests whose responses have
// to begin in another time than Options.ResponseTimeout. Their connections are
// those of all others.
func (a *Account) Waiting(limit time.Duration) *Account {
	out := *a
	out.wait = limit
	return &out
}

// wait ends a request on the long way whose response does not begin in time after
// the request was sent, and one of whose body nothing is taken. http.Transport has a bound of that kind, which is one for
// all requests of a connection: routes that differ would have to have connections,
// and a transport, of their own.
type wait struct {
	limit   time.Duration // from the end of the request to the beginning of the response
	sending time.Duration // from one part of the request's body to the next
	end     context.CancelCauseFunc

	mu    sync.Mutex
	timer *time.Timer
	over  bool // the round trip is: it may still be told of
	late  bool
}

// watch gives a request that ends when its response is late.
func (w *wait) watch(r *http.Request) *http.Request {
	ctx, end := context.WithCancelCause(r.Context())
	w.end = end
	r = r.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteRequest: func(httptrace.WroteRequestInfo) { w.begin(w.limit) },
	}))
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = &sentBody{r.Body, w}
	}
	return r
}

// sentBody tells whose turn it is while a body is sent: whoever reads it has sent
// what was read before.
type sentBody struct {
	io.ReadCloser
	wait *wait
}

func (b *sentBody) Read(p []byte) (int, error) {
	b.wait.pause()
	defer b.wait.begin(b.wait.sending)
	return b.ReadCloser.Read(p)
}

// begin begins a time in which the upstream has to do something, in place of the
// one before.
func (w *wait) begin(limit time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.over:
	case w.timer == nil:
		w.timer = time.AfterFunc(limit, w.expire)
	default:
		w.timer.Reset(limit)
	}
}

// pause ends the time: it is the client's turn.
func (w *wait) pause() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timer != nil {
		w.timer.Stop()
	}
}

func (w *wait) expire() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.over {
		w.late = true
		w.end(errLate)
	}
}

// stop ends the wait, and reports whether that was too late. What came of the
// request is of no use then.
func (w *wait) stop() (late bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	if w.timer != nil {
		w.timer.Stop()
	}
	return w.late
}

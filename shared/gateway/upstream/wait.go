package upstream

import (
	"context"
	"fmt"
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
// the request was sent. http.Transport has a bound of that kind, which is one for
// all requests of a connection: routes that differ would have to have connections,
// and a transport, of their own.
type wait struct {
	limit time.Duration
	end   context.CancelCauseFunc

	mu    sync.Mutex
	timer *time.Timer
	over  bool // the round trip is: it may still be told of
	late  bool
}

// watch gives a request that ends when its response is late.
func (w *wait) watch(r *http.Request) *http.Request {
	ctx, end := context.WithCancelCause(r.Context())
	w.end = end
	return r.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteRequest: func(httptrace.WroteRequestInfo) { w.begin() },
	}))
}

// begin begins the time, again where the request is sent again.
func (w *wait) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.over:
	case w.timer == nil:
		w.timer = time.AfterFunc(w.limit, w.expire)
	default:
		w.timer.Reset(w.limit)
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

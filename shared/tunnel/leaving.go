package tunnel

import (
	"context"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"sync"
	"time"
)

// asking is a request whose client may leave. net/http's transport of HTTP/2 forgets what it has
// received of an answer when the request's context ends before it has handed the answer over: those bytes
// are taken from the connection's window for ever, and a few of them, of a size that a client can
// choose, leave none for anybody. So from the first byte of an answer until it is handed over, the
// context stays; then its body is closed, which gives the bytes back. What comes between the end of
// the context and that of the stream is still lost, for which Links.replace is.
type asking struct {
	cancel context.CancelFunc

	mu      sync.Mutex
	coming  bool // the head of the answer
	there   bool // the answer
	hasLeft bool // the client
}

// watch gives the request as it is sent. stop is called when its answer's body has ended.
func (a *asking) watch(r *http.Request) (out *http.Request, stop func() bool) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	a.cancel = cancel
	stop = context.AfterFunc(r.Context(), a.leave)
	return r.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotFirstResponseByte: func() { a.comes(true) },
		Got1xxResponse: func(int, textproto.MIMEHeader) error {
			a.comes(false) // the answer may still take its time
			return nil
		},
	})), stop
}

func (a *asking) leave() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.hasLeft = true
	if !a.coming || a.there {
		a.cancel()
	}
}

func (a *asking) comes(coming bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.coming = coming
	if a.hasLeft && !coming {
		a.cancel()
	}
}

// answered reports whether there is still somebody for the answer.
func (a *asking) answered() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.there = true
	return !a.hasLeft
}

const (
	// mostLeft is how many clients may leave before their answers until a connection is replaced.
	// Those of a test under load cost 300 bytes of its window each, of connectionWindow.
	mostLeft = 1000
	// parting is how long what is under way on one that is replaced may take.
	parting = 10 * time.Minute
)

// wear counts a client that has left before its answer, and reports when that may have cost too
// much of the connection's window: once.
func (l *Link) wear() (worn bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.left++
	return l.left == mostLeft
}

func (l *Link) isWorn() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.left >= mostLeft
}

// replace has the agent dial another connection, and ends a worn one when that is there, or
// some other agent's that is not worn.
func (ls *Links) replace(ctx context.Context, tunnelID string, worn *Link) {
	ctx, cancel := context.WithTimeout(ctx, parting)
	defer cancel()
	defer worn.Close()
	if worn.control(ctx, http.MethodPost, "/drain", nil) != nil {
		return // it is of no use to anybody
	}
	for news := ls.News(); !ls.hasFresh(tunnelID); news = ls.News() {
		select {
		case <-news:
		case <-worn.done:
			return
		case <-ctx.Done():
			return
		}
	}
	worn.retire()
	select {
	case <-worn.idle:
	case <-worn.done:
	case <-ctx.Done():
	}
}

// hasFresh reports whether a tunnel has a connection that takes requests and is not worn.
func (ls *Links) hasFresh(tunnelID string) bool {
	return slices.ContainsFunc(ls.Of(tunnelID), func(l *Link) bool { return !l.isWorn() && l.inFlight() >= 0 })
}

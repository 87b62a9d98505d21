package tunnel

import (
	"context"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"sync"
	"time"
)

// asking is a request whose client may leave. net/http's transport of HTTP/2 forgets what it has
// received of an answer when the request's context ends before it has handed the answer over: those bytes
// are taken from the connection's window for ever, and a few of them, of a size that a client can
// choose, leave none for anybody. So from the first byte of an answer until it is handed over, the
// context stays; then its body is closed, which gives the bytes back. What comes between the end of
// the context and that of the stream is still lost, for which Link.wear is.
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
	// replacing is how long a connection goes on that is to be replaced: the agent has dialled
	// the other one by then.
	replacing = 5 * time.Second
	// parting is how long what is under way on it may take.
	parting = 10 * time.Minute
)

// wear counts a client that has left before its answer, and has the connection replaced by
// another one when that may have cost too much of its window.
func (l *Link) wear(client context.Context) {
	l.mu.Lock()
	l.left++
	worn := l.left == mostLeft
	l.mu.Unlock()
	if worn {
		go l.replace(context.WithoutCancel(client))
	}
}

// replace has the agent dial another connection, and ends this one when that is there.
func (l *Link) replace(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, parting)
	defer cancel()
	defer l.Close()
	if l.control(ctx, http.MethodPost, "/drain", nil) != nil {
		return // it is of no use to anybody
	}
	select {
	case <-time.After(replacing):
	case <-l.done:
		return
	}
	l.retire()
	select {
	case <-l.idle:
	case <-l.done:
	case <-ctx.Done():
	}
}

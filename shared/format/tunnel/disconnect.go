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

// trackedRequest is a request whose client can disconnect. When a request's context ends before net/http's
// HTTP/2 transport has returned the response, the transport discards the bytes of the response that it has
// received. It never returns these bytes to the connection's flow-control window. Clients can request large
// responses, so a few such requests would use up the window for all requests. Therefore trackedRequest does
// not cancel the context between the first byte of a response and its return by the transport. After that,
// closing the body returns the bytes to the window. Bytes that arrive between the end of the context and the
// end of the stream are still lost. Links.replace replaces a connection that has lost too many.
type trackedRequest struct {
	cancel context.CancelFunc

	mu           sync.Mutex
	responding   bool // the transport is reading the head of the response
	returned     bool // the transport has returned the response
	disconnected bool // the client has disconnected
}

// watch returns a copy of r to send. If the client disconnects, trackedRequest cancels the
// copy when that is safe. The caller must call stop when the response's body has ended.
func (tr *trackedRequest) watch(r *http.Request) (out *http.Request, stop func() bool) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	tr.cancel = cancel
	stop = context.AfterFunc(r.Context(), tr.disconnect)
	return r.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotFirstResponseByte: func() { tr.setResponding(true) },
		Got1xxResponse: func(int, textproto.MIMEHeader) error {
			tr.setResponding(false) // the final response can still take long
			return nil
		},
	})), stop
}

func (tr *trackedRequest) disconnect() {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.disconnected = true
	if !tr.responding || tr.returned {
		tr.cancel()
	}
}

func (tr *trackedRequest) setResponding(responding bool) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.responding = responding
	if tr.disconnected && !responding {
		tr.cancel()
	}
}

// markReturned records that the transport has returned the response.
// It reports whether the client still waits for the response.
func (tr *trackedRequest) markReturned() bool {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.returned = true
	return !tr.disconnected
}

const (
	// When maxDisconnects clients have disconnected before their responses, the connection is replaced. In
	// a load test, each of these clients cost 300 bytes of the connection's window (connectionWindow).
	maxDisconnects = 1000
	// replaceTimeout is the maximum time for replacing a connection. It includes the wait for
	// the requests in flight on it. Requests that take longer are aborted.
	replaceTimeout = 10 * time.Minute
)

// countDisconnect counts a client that has disconnected before its response. It returns true once,
// at maxDisconnects: the lost bytes could then be too large a part of the connection's window.
func (l *Link) countDisconnect() (exhausted bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.disconnects++
	return l.disconnects == maxDisconnects
}

func (l *Link) isExhausted() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.disconnects >= maxDisconnects
}

// replace makes the agent dial another connection. It waits until the tunnel has a connection that is not exhausted, of
// this or another agent. Then it waits for the requests in flight on the old connection, and closes it.
func (ls *Links) replace(ctx context.Context, tunnelID string, old *Link) {
	ctx, cancel := context.WithTimeout(ctx, replaceTimeout)
	defer cancel()
	defer old.Close()
	if old.control(ctx, http.MethodPost, "/drain", nil) != nil {
		return // the connection is unusable
	}
	for changed := ls.NextUsable(); !ls.hasReplacement(tunnelID); changed = ls.NextUsable() {
		select {
		case <-changed:
		case <-old.done:
			return
		case <-ctx.Done():
			return
		}
	}
	old.retire()
	select {
	case <-old.idle:
	case <-old.done:
	case <-ctx.Done():
	}
}

// hasReplacement reports whether a tunnel has a connection that accepts requests and is not exhausted.
func (ls *Links) hasReplacement(tunnelID string) bool {
	return slices.ContainsFunc(ls.ForTunnel(tunnelID), func(l *Link) bool { return !l.isExhausted() && l.inFlight() >= 0 })
}

package tunnel

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
)

// errSent ends an attempt that net/http would make beyond those that there may be.
var errSent = errors.New("the connection broke before an answer, as others did before")

// SendAtMost gives the request as a transport of net/http sends it most times at most, once where it asks
// for another protocol. Left alone that sends one again whose connection was used before and broke, over each
// of those that are idle, which may be hundreds: by GET, HEAD, OPTIONS and TRACE, whatever Repeatable says, and by
// any method with an Idempotency-Key. A request at which a process of a service dies would take all
// others along. The request's header is changed; a connection that would be one too many is closed unused.
func SendAtMost(r *http.Request, most int64) *http.Request {
	withoutRepeats(r.Header)
	switch r.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
	default:
		return r // of the others only those of which nothing was written
	}
	if r.Header.Get("Upgrade") != "" {
		most = 1
	}
	var sent atomic.Int64
	ctx, end := context.WithCancelCause(r.Context())
	return r.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteHeaders: func() { sent.Add(1) },
		GotConn: func(got httptrace.GotConnInfo) {
			// By HTTP/2 only what no server has seen is sent again (RFC 9113, section 8.7).
			secure, ok := got.Conn.(*tls.Conn)
			if ok && secure.ConnectionState().NegotiatedProtocol == "h2" || sent.Load() < most {
				return
			}
			end(errSent) // before the next attempt, which this one would be followed by
			_ = got.Conn.Close()
		},
	}))
}

// withoutRepeats keeps net/http from sending a request again by itself that has such a field. It looks
// for them as they are spelled canonically, and on the wire case means nothing (RFC 9110, section 5.1).
func withoutRepeats(h http.Header) {
	for canonical, spelled := range map[string]string{"Idempotency-Key": "idempotency-key", "X-Idempotency-Key": "x-idempotency-key"} {
		if values, there := h[canonical]; there {
			delete(h, canonical)
			h[spelled] = values
		}
	}
}

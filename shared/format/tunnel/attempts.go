package tunnel

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
)

// errTooManyAttempts cancels an attempt of net/http beyond the limit.
var errTooManyAttempts = errors.New("the connection broke before an answer, as others did before")

// LimitAttempts returns r or a copy of it. A transport of net/http sends the result at most limit times over HTTP/1.1,
// and once if the request switches protocols. By default, net/http repeats a request if it was sent over an idle
// connection that broke. It can use all idle connections, one after another, and there can be hundreds. It does so for
// GET, HEAD, OPTIONS and TRACE even if Repeatable returns false, and for any method with an Idempotency-Key. A request
// that crashes one process of a service would then crash all others. LimitAttempts changes the request's header. An
// attempt beyond the limit closes its connection without using it.
func LimitAttempts(r *http.Request, limit int64) *http.Request {
	disableRetries(r.Header)
	switch r.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
	default:
		return r // net/http repeats other methods only if it has written nothing
	}
	if r.Header.Get("Upgrade") != "" {
		limit = 1
	}
	var sent atomic.Int64
	ctx, cancel := context.WithCancelCause(r.Context())
	return r.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteHeaders: func() { sent.Add(1) },
		GotConn: func(got httptrace.GotConnInfo) {
			// With HTTP/2, net/http repeats only requests that no server has processed (RFC 9113, section 8.7).
			tlsConn, ok := got.Conn.(*tls.Conn)
			if ok && tlsConn.ConnectionState().NegotiatedProtocol == "h2" || sent.Load() < limit {
				return
			}
			cancel(errTooManyAttempts) // before closing the connection, which would start the next attempt
			_ = got.Conn.Close()
		},
	}))
}

// disableRetries keeps net/http from repeating a request because of an Idempotency-Key,
// by writing the name in lower case. net/http looks only for the canonical spelling.
// For other software, names of fields are case-insensitive (RFC 9110, section 5.1).
func disableRetries(h http.Header) {
	for canonical, lower := range map[string]string{
		"Idempotency-Key":   "idempotency-key",
		"X-Idempotency-Key": "x-idempotency-key",
	} {
		if values, exists := h[canonical]; exists {
			delete(h, canonical)
			h[lower] = values
		}
	}
}

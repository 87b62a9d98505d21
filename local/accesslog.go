package main

import (
	"log/slog"
	"net/http"
	"time"
)

// logged writes one line for each request to the gateway, which logs failures
// alone: in front of a person every request is of interest. No line holds a
// header or a query.
func logged(h http.Handler, log *slog.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, start := r.Context(), time.Now()
		answer := &statusRecorder{ResponseWriter: w}
		// What the handler makes of the request is its own affair.
		host, method, path := r.Host, r.Method, r.URL.EscapedPath()
		defer func() {
			log.InfoContext(ctx, "request", "host", host, "method", method, "path", path,
				"status", answer.status(), "duration", time.Since(start), "requestId", w.Header().Get("X-Request-Id"))
		}()
		h.ServeHTTP(answer, r)
	})
}

// statusRecorder remembers the status that was sent.
type statusRecorder struct {
	http.ResponseWriter
	sent int
}

// status is what the client got: one that was never sent is an upgraded
// connection.
func (r *statusRecorder) status() int {
	if r.sent == 0 {
		return http.StatusSwitchingProtocols
	}
	return r.sent
}

// WriteHeader implements http.ResponseWriter. Informational answers come before
// the one that counts.
func (r *statusRecorder) WriteHeader(status int) {
	if r.sent == 0 && status >= http.StatusOK {
		r.sent = status
	}
	r.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (r *statusRecorder) Write(b []byte) (int, error) {
	if r.sent == 0 {
		r.sent = http.StatusOK
	}
	return r.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the real writer.
func (r *statusRecorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

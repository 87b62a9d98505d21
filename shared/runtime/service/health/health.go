// Package health writes the response that reports to load balancers and supervisors whether a process accepts new work.
//
// Its caller determines whether the process accepts new work, and at which path the response is served. Package admin
// has the paths for operators, and a service's declaration has the path at the clients' port (service.Service, Health).
//
// The package has this file only.
package health

import (
	"io"
	"net/http"
)

// Respond responds with 200 if ready is true. Otherwise the process is shutting down, and Respond responds with 503.
// The response must not be cached.
func Respond(w http.ResponseWriter, ready bool) {
	status, text := http.StatusOK, "ok\n"
	if !ready {
		status, text = http.StatusServiceUnavailable, "draining\n"
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text)
}

// Package health answers whoever asks whether a process takes new work: load balancers, and what starts
// processes and ends them.
//
// What it is not: it does not know whether that is so, and has no path of its own. Package admin has those for
// operators, and a service's declaration the one at its clients' port (service.Service, Health).
//
// There is only this file.
package health

import (
	"io"
	"net/http"
)

// Answer answers 200 while new work is taken, and 503 from when the process drains. No cache may keep it.
func Answer(w http.ResponseWriter, ready bool) {
	status, text := http.StatusOK, "ok\n"
	if !ready {
		status, text = http.StatusServiceUnavailable, "draining\n"
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text)
}

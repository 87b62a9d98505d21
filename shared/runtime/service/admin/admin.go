// Package admin serves the requests of a process's operators and supervisors:
// whether the process is alive, whether it accepts new requests, and its metrics.
//
// The package is not for clients. It serves at a separate listener, which clients
// cannot reach. It requires no credentials, and its responses contain no secrets.
//
// Read this file first for the responses, then monitor.go for the listener. docs/gateway-process.md describes both for
// operators.
package admin

import (
	"net/http"

	"github.com/gatewright/gatewright/shared/runtime/service/health"
)

// ReadyPath is the path with status 200 until the process begins to shut down, and 503 after that.
const ReadyPath = "/readyz"

// New returns the handler. ready reports whether clients should send new requests to this process, and metrics serves
// /metrics.
//
// /livez returns 200 for as long as the process responds at all, even while it drains.
// A supervisor that killed a draining process would break its running requests.
func New(ready func() bool, metrics http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { health.Respond(w, true) })
	mux.HandleFunc("GET "+ReadyPath, func(w http.ResponseWriter, _ *http.Request) { health.Respond(w, ready()) })
	mux.Handle("GET /metrics", metrics)
	return mux
}

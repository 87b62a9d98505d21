// Package admin answers a process's operators, and what looks after it: whether it lives,
// whether it takes new requests, and what it has measured.
//
// What it is not: for clients. It has a listener of its own, which no client reaches, and
// asks for no credential; nothing that it answers is a secret.
//
// Read this file for what is answered, then watch.go, which listens. docs/gateway-process.md has it for operators.
package admin

import (
	"net/http"

	"github.com/gatewright/gatewright/shared/service/health"
)

// Ready is the path that is 200 while new requests are taken, and 503 otherwise.
const Ready = "/readyz"

// New makes the handler. ready says whether new requests are taken, metrics answers /metrics.
//
// /livez is 200 for as long as the process answers anything: what kills a process that drains
// would cut what is under way.
func New(ready func() bool, metrics http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { health.Answer(w, true) })
	mux.HandleFunc("GET "+Ready, func(w http.ResponseWriter, _ *http.Request) { health.Answer(w, ready()) })
	mux.Handle("GET /metrics", metrics)
	return mux
}

package tunnel

import (
	"errors"
	"net/http"
	"net/textproto"
	"sync"
)

// hints passes on the 1xx responses that a service sends before its answer, until the round
// trip is over. A transport may read more of them then, in a goroutine of its own, where
// writing to a request that has been answered would end the process.
type hints struct {
	to http.ResponseWriter

	mu   sync.Mutex
	over bool
}

// errHint ends a connection to a service: what comes there is for nobody.
var errHint = errors.New("tunnel: the service hints at an answer that nobody waits for")

// pass is httptrace.ClientTrace's Got1xxResponse.
func (h *hints) pass(code int, header textproto.MIMEHeader) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over || code == http.StatusSwitchingProtocols { // which is an answer, and none of HTTP/2
		return errHint
	}
	to := h.to.Header()
	if !passOn(to, http.Header(header)) {
		clear(to)
		return errHead
	}
	h.to.WriteHeader(code)
	clear(to)
	return nil
}

// end has none passed on any more. It waits for one that is being written.
func (h *hints) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over = true
}

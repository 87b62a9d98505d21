package tunnel

import (
	"errors"
	"net/http"
	"net/textproto"
	"sync"
)

// informationalWriter forwards the 1xx responses that a service sends before its final
// response, until the round trip ends. After that, a transport can read further 1xx responses
// in its own goroutine. Writing them to a finished request would crash the process.
type informationalWriter struct {
	w http.ResponseWriter

	mu   sync.Mutex
	done bool
}

// errLateInformational ends the connection to a service that sends a 1xx response after the round trip, or an
// unexpected 101.
var errLateInformational = errors.New("tunnel: the service sent a late 1xx response, or an unexpected 101")

// forward implements Got1xxResponse of httptrace.ClientTrace.
func (iw *informationalWriter) forward(code int, header textproto.MIMEHeader) error {
	iw.mu.Lock()
	defer iw.mu.Unlock()
	if iw.done || code == http.StatusSwitchingProtocols { // 101 is a final response, and does not exist in HTTP/2
		return errLateInformational
	}
	dst := iw.w.Header()
	if !copyFields(dst, http.Header(header)) {
		clear(dst)
		return errHeadTooLarge
	}
	iw.w.WriteHeader(code)
	clear(dst)
	return nil
}

// end stops the forwarding. If a 1xx response is being written, end waits until it is written.
func (iw *informationalWriter) end() {
	iw.mu.Lock()
	defer iw.mu.Unlock()
	iw.done = true
}

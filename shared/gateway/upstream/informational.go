package upstream

import (
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"sync"
)

// informational passes 1xx responses on that http.Transport tells of, until the final
// response is there: the transport may still call when the round trip is over.
type informational struct {
	mu     sync.Mutex
	over   bool
	count  int
	handle func(status int, header http.Header) // nil for nobody: they are counted
	tap    *tap
}

// watch gives a request whose 1xx responses are told.
func (e *informational) watch(r *http.Request) *http.Request {
	return r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
		Got1xxResponse: func(code int, header textproto.MIMEHeader) error {
			e.mu.Lock()
			defer e.mu.Unlock()
			if e.count++; e.count > maxInformational {
				return errTooManyInformational
			}
			if code == http.StatusSwitchingProtocols {
				return errSwitched // HTTP/2 has no such thing, and HTTP/1 does not tell it here
			}
			e.tap.restore(http.Header(header))
			// The server says 100 itself when the body is read.
			if !e.over && code != http.StatusContinue && e.handle != nil {
				e.handle(code, http.Header(header))
			}
			return nil
		},
	}))
}

func (e *informational) stop() {
	e.mu.Lock()
	e.over = true
	e.mu.Unlock()
}

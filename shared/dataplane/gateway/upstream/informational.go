package upstream

import (
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"sync"
)

// informational forwards the 1xx responses that http.Transport reports until stop is called at the end of the round
// trip. It ignores 1xx responses that http.Transport reports after that.
type informational struct {
	mu       sync.Mutex
	stopped  bool
	count    int
	handle   func(status int, header http.Header) // nil if nobody receives them
	recorder *headRecorder
}

// watch returns a request whose 1xx responses are forwarded.
func (i *informational) watch(r *http.Request) *http.Request {
	return r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
		Got1xxResponse: func(code int, header textproto.MIMEHeader) error {
			i.mu.Lock()
			defer i.mu.Unlock()
			if i.count++; i.count > maxInformational {
				return errTooManyInformational
			}
			if code == http.StatusSwitchingProtocols {
				return errSwitched // 101 is invalid in HTTP/2, and is not reported here for HTTP/1
			}
			i.recorder.restore(http.Header(header))
			// The gateway's own HTTP server sends 100 when the gateway reads the client's body.
			if !i.stopped && code != http.StatusContinue && i.handle != nil {
				i.handle(code, http.Header(header))
			}
			return nil
		},
	}))
}

func (i *informational) stop() {
	i.mu.Lock()
	i.stopped = true
	i.mu.Unlock()
}

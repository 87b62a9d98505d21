package tunnel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"
)

// forwarder sends requests from a relay to services.
type forwarder struct {
	known     *known
	transport http.RoundTripper
	log       *slog.Logger
	lines     *Lines // of services that fail, as often as clients ask
	// Of *[]byte, for what is copied. Small answers have their own: a thousand of them at once
	// are no reason to hold as many large buffers.
	small, large sync.Pool
}

const (
	smallBytes = 4 << 10
	// copyBytes is as much as a frame takes: one call of the kernel reads it, one sends it.
	copyBytes = frameBytes
	// connBytes are the buffers of a connection that may stay for long; bodies go past them.
	connBytes = 16 << 10
)

func newForwarder(k *known, transport http.RoundTripper, log *slog.Logger) *forwarder {
	f := &forwarder{known: k, transport: transport, log: log, lines: NewLines()}
	for pool, size := range map[*sync.Pool]int{&f.small: smallBytes, &f.large: copyBytes} {
		pool.New = func() any {
			b := make([]byte, size)
			return &b
		}
	}
	return f
}

// buffers are those for a body of a length, below 0 for one that nobody knows. One that would fill a small
// buffer, and so not be sent on before more is waited for, has a large one.
func (f *forwarder) buffers(length int64) *sync.Pool {
	if length >= 0 && length < smallBytes {
		return &f.small
	}
	return &f.large
}

// serviceTransport asks services: over HTTP/1.1, or HTTP/2 with TLS where they speak it.
func serviceTransport() *http.Transport {
	return &http.Transport{
		DialContext:         (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		TLSHandshakeTimeout: 10 * time.Second,
		ForceAttemptHTTP2:   true,
		// What the service has compressed stays so.
		DisableCompression: true, MaxResponseHeaderBytes: maxHeaderBytes,
		MaxIdleConnsPerHost: 256, MaxIdleConns: 4096, IdleConnTimeout: 55 * time.Second,
		ReadBufferSize: connBytes, WriteBufferSize: connBytes,
	}
}

// maxAsked is how often a service is asked at most that closes the connection without an answer, as it
// does when that was idle for too long for it. What else breaks is for relays to repeat, which
// count it.
const maxAsked = 2

// ServeHTTP sends a request to its service, and copies the answer as it comes.
func (f *forwarder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s, ok := f.known.of(r.Header.Get(fieldService))
	switch {
	case !ok:
		fail(w, UnknownService)
		return
	case !s.Allows(Caller{r.Header.Get(fieldProject), r.Header.Get(fieldEnvironment)}):
		fail(w, NotAllowed)
		return
	}
	upgrade := r.Header.Get(fieldUpgrade)
	early := &hints{to: w}
	out := request(r, s.endpoint, upgrade, early)
	response, err := f.transport.RoundTrip(SendAtMost(out, maxAsked))
	early.end()
	if err != nil {
		f.unanswered(w, r, s, err)
		return
	}
	defer func() { _ = response.Body.Close() }()
	switch {
	case response.StatusCode == http.StatusSwitchingProtocols && upgrade != "":
		f.switched(w, r, s, response)
		return
	case response.StatusCode < http.StatusOK: // it has switched unasked, or there is no such status
		f.unusable(w, r, s, fmt.Errorf("the status %d is no answer", response.StatusCode))
		return
	}
	f.answerAll(w, r, s, response)
}

// unusable answers that what the service has answered can't be passed on.
func (f *forwarder) unusable(w http.ResponseWriter, r *http.Request, s service, why error) {
	if untold, ok := f.lines.Next(time.Now()); ok {
		f.log.LogAttrs(r.Context(), slog.LevelWarn, "tunnel: the service's answer can't be passed on", slog.String("service", s.Name), slog.Any("error", why), untold)
	}
	clear(w.Header())
	fail(w, Unusable)
}

// request is r as its service gets it.
func request(r *http.Request, endpoint *url.URL, upgrade string, early *hints) *http.Request {
	ctx := httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{Got1xxResponse: early.pass})
	out := r.Clone(ctx)
	out.RequestURI = ""
	out.URL = endpoint.JoinPath() // a copy
	out.URL.Path, out.URL.RawPath = joined(endpoint, r.URL)
	out.URL.RawQuery = r.URL.RawQuery
	out.Host = endpoint.Host
	out.Trailer = r.Trailer // which is filled at the body's end
	takeOff(out.Header)
	if _, named := out.Header["User-Agent"]; !named {
		out.Header["User-Agent"] = []string{""} // net/http would name itself
	}
	if upgrade != "" {
		out.Body, out.ContentLength = nil, 0
		out.Header["Connection"], out.Header["Upgrade"] = []string{"Upgrade"}, []string{upgrade}
	} else if r.ContentLength == 0 {
		out.Body = nil // so that the transport may repeat it (maxAsked)
	}
	return out
}

// joined appends a request's path to an endpoint's, as both are written.
func joined(endpoint, r *url.URL) (path, raw string) {
	path = strings.TrimSuffix(endpoint.Path, "/") + r.Path
	raw = strings.TrimSuffix(endpoint.EscapedPath(), "/") + r.EscapedPath()
	return path, raw
}

// unanswered tells of a service that did not answer, or broke off before a byte of its body.
func (f *forwarder) unanswered(w http.ResponseWriter, r *http.Request, s service, err error) {
	if r.Context().Err() == nil {
		if untold, ok := f.lines.Next(time.Now()); ok {
			f.log.LogAttrs(r.Context(), slog.LevelWarn, "tunnel: the service did not answer", slog.String("service", s.Name), slog.Any("error", err), untold)
		}
	}
	fail(w, failureOf(err))
}

// answerAll copies an answer: head, body as it comes, trailer.
func (f *forwarder) answerAll(w http.ResponseWriter, r *http.Request, s service, response *http.Response) {
	Unread(response)
	buffers := f.buffers(response.ContentLength)
	buffer, _ := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	var n int
	var err error
	if response.ContentLength > 0 {
		// A head is on its way with the first of its body. One that is not followed by that is an answer that
		// the service has not given; were its stream reset for it, that would look like a connection that broke.
		if n, err = response.Body.Read(*buffer); n == 0 && err != nil && !errors.Is(err, io.EOF) {
			f.unanswered(w, r, s, err)
			return
		}
	}
	h := w.Header()
	if !passOn(h, response.Header) {
		f.unusable(w, r, s, errHead)
		return
	}
	nothingElse(h)
	if response.StatusCode == http.StatusNotModified || response.StatusCode == http.StatusNoContent {
		// The length that a body would have: HTTP/2 of net/http waits for that body, here and at each hop.
		delete(h, "Content-Length")
	}
	for name := range response.Trailer {
		h.Add("Trailer", name)
	}
	w.WriteHeader(response.StatusCode)
	controller := http.NewResponseController(w)
	// A stream may say nothing for long, and its client waits for its head.
	if response.ContentLength < 0 && controller.Flush() != nil {
		return
	}
	if response.ContentLength != 0 {
		for {
			if n > 0 {
				if _, err := w.Write((*buffer)[:n]); err != nil {
					return
				}
				// What the service has sent so far is on its way before more is waited for.
				if n < len(*buffer) && controller.Flush() != nil {
					return
				}
			}
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				panic(http.ErrAbortHandler) // the stream is reset: the answer is not whole
			}
			n, err = response.Body.Read(*buffer)
		}
	}
	for name, values := range response.Trailer {
		if len(values) > 0 { // net/http would never end a stream for one that has not come
			h[http.TrailerPrefix+name] = values
		}
	}
}

// nothingElse has net/http add nothing to an answer.
func nothingElse(h http.Header) {
	for _, name := range []string{"Content-Type", "Date"} {
		if _, there := h[name]; !there {
			h[name] = nil
		}
	}
}

// hopByHop belong to the connection with the service.
var hopByHop = []string{"Connection", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade"}

// passOn puts the fields of an answer into h that mean something beyond the connection with
// the service (RFC 9110, section 7.6.1), and none of the tunnel's, which are ours to write. It
// reports whether they fit into a head.
func passOn(h, answer http.Header) bool {
	maps.Copy(h, answer)
	takeOff(h)
	for _, value := range answer["Connection"] {
		for name := range strings.SplitSeq(value, ",") {
			delete(h, textproto.CanonicalMIMEHeaderKey(textproto.TrimString(name)))
		}
	}
	for _, name := range hopByHop {
		delete(h, name)
	}
	return fits(h)
}

var errHead = errors.New("tunnel: the head of the service's answer is too large")

// fits reports whether fields are no more than a relay takes of a head, as HTTP/2 counts
// (RFC 9113, section 6.5.2). At more it ends the connection, with all others' requests. A trailer
// has less: net/http takes 4 KB of one from HTTP/1, and from HTTP/2 what a relay does.
func fits(h http.Header) bool {
	const perField = 32
	size := 0
	for name, values := range h {
		for _, value := range values {
			size += len(name) + len(value) + perField
		}
	}
	return size <= maxHeaderBytes
}

// Unread says of an answer whose status has no body (RFC 9110, sections 15.3.5 and 15.4.5)
// that nothing is to be read. Its Content-Length is that of another answer, and a transport of
// HTTP/2 that looks for so many bytes finds the answer broken.
func Unread(response *http.Response) {
	if response.StatusCode == http.StatusNotModified || response.StatusCode == http.StatusNoContent {
		_ = response.Body.Close()
		response.Body, response.ContentLength = http.NoBody, 0
	}
}

// switched copies both ways between the relay and a service that has switched protocols.
func (f *forwarder) switched(w http.ResponseWriter, r *http.Request, s service, response *http.Response) {
	back, ok := response.Body.(io.ReadWriteCloser)
	if !ok {
		fail(w, Unreachable)
		return
	}
	h := w.Header()
	if !passOn(h, response.Header) {
		f.unusable(w, r, s, errHead)
		return
	}
	nothingElse(h)
	h[fieldSwitched] = []string{response.Header.Get("Upgrade")}
	w.WriteHeader(http.StatusOK)
	controller := http.NewResponseController(w)
	if controller.Flush() != nil {
		return
	}
	// A stream that is gone has nobody to hear what the service still says.
	defer context.AfterFunc(r.Context(), func() { _ = back.Close() })()
	go func() {
		_, err := io.Copy(back, r.Body)
		half, ok := back.(interface{ CloseWrite() error })
		if err != nil || !ok || half.CloseWrite() != nil {
			_ = back.Close()
		}
	}()
	buffer, _ := f.large.Get().(*[]byte)
	defer f.large.Put(buffer)
	for {
		n, err := back.Read(*buffer)
		if n > 0 {
			if _, err := w.Write((*buffer)[:n]); err != nil || controller.Flush() != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// fail answers in the service's place.
func fail(w http.ResponseWriter, f Failure) {
	w.Header()[fieldFailure] = []string{string(f)}
	w.WriteHeader(http.StatusBadGateway)
}

func failureOf(err error) Failure {
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() || errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) {
		return Late
	}
	return Unreachable
}

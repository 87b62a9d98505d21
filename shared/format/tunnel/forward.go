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
	services   *serviceTable
	transport  http.RoundTripper
	log        *slog.Logger
	logLimiter *LogLimiter // clients determine how many requests fail, so limit the log lines
	// Pools of *[]byte for copying. Small responses have their own pool, so
	// that a thousand concurrent ones do not need a thousand large buffers.
	small, large sync.Pool
}

const (
	// smallBytes is the size of the buffers for small responses.
	smallBytes = 4 << 10
	// copyBytes is the size of the large buffers. A frame fits, so one system call reads a frame, and one sends it.
	copyBytes = frameBytes
	// connBytes is the buffer size of connections, which can stay open long. Bodies bypass these buffers.
	connBytes = 16 << 10
)

func newForwarder(services *serviceTable, transport http.RoundTripper, log *slog.Logger) *forwarder {
	f := &forwarder{services: services, transport: transport, log: log, logLimiter: NewLogLimiter()}
	for pool, size := range map[*sync.Pool]int{&f.small: smallBytes, &f.large: copyBytes} {
		pool.New = func() any {
			b := make([]byte, size)
			return &b
		}
	}
	return f
}

// buffers returns the pool for a body with a length. The length is negative if it is unknown. A body that would
// fill a small buffer gets a large one, since copyResponse sends a full buffer only when more data arrives.
func (f *forwarder) buffers(length int64) *sync.Pool {
	if length >= 0 && length < smallBytes {
		return &f.small
	}
	return &f.large
}

// serviceTransport returns the transport for services. It uses HTTP/2
// if the service supports HTTP/2 over TLS, and HTTP/1.1 otherwise.
func serviceTransport() *http.Transport {
	return &http.Transport{
		DialContext:         (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		TLSHandshakeTimeout: 10 * time.Second,
		ForceAttemptHTTP2:   true,
		// Do not decompress responses: forward them with the service's encoding.
		DisableCompression: true, MaxResponseHeaderBytes: maxHeaderBytes,
		MaxIdleConnsPerHost: 256, MaxIdleConns: 4096, IdleConnTimeout: 55 * time.Second,
		ReadBufferSize: connBytes, WriteBufferSize: connBytes,
	}
}

// maxAttempts is the maximum number of attempts if a service closes the connection
// without a response, as services do with connections that were idle for too long.
// Other failures are not repeated here: relays do that, with their own limit.
const maxAttempts = 2

// ServeHTTP sends a request to its service and streams the response.
func (f *forwarder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s, ok := f.services.lookup(r.Header.Get(fieldService))
	switch {
	case !ok:
		writeFailure(w, UnknownService)
		return
	case !s.Allows(Caller{r.Header.Get(fieldProject), r.Header.Get(fieldEnvironment)}):
		writeFailure(w, NotAllowed)
		return
	}
	upgrade := r.Header.Get(fieldUpgrade)
	informational := &informationalWriter{w: w}
	out := serviceRequest(r, s.endpoint, upgrade, informational)
	response, err := f.transport.RoundTrip(LimitAttempts(out, maxAttempts))
	informational.end()
	if err != nil {
		f.failUnreachable(w, r, s, err)
		return
	}
	defer func() { _ = response.Body.Close() }()
	switch {
	case response.StatusCode == http.StatusSwitchingProtocols && upgrade != "":
		f.copyUpgraded(w, r, s, response)
		return
	case response.StatusCode < http.StatusOK: // an unexpected switch of protocols, or an invalid status
		f.failUnusable(w, r, s, fmt.Errorf("the status %d is no answer", response.StatusCode))
		return
	}
	f.copyResponse(w, r, s, response)
}

// failUnusable responds that the service's response cannot be forwarded, and logs the cause.
func (f *forwarder) failUnusable(w http.ResponseWriter, r *http.Request, s service, cause error) {
	if suppressed, ok := f.logLimiter.Allow(time.Now()); ok {
		f.log.LogAttrs(r.Context(), slog.LevelWarn, "tunnel: the service's answer can't be passed on",
			slog.String("service", s.Name), slog.Any("error", cause), suppressed)
	}
	clear(w.Header())
	writeFailure(w, Unusable)
}

// serviceRequest returns the request to send to the service. upgrade is the protocol to switch to, or "".
func serviceRequest(
	r *http.Request, endpoint *url.URL, upgrade string, informational *informationalWriter,
) *http.Request {
	ctx := httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{Got1xxResponse: informational.forward})
	out := r.Clone(ctx)
	out.RequestURI = ""
	out.URL = endpoint.JoinPath() // a copy
	out.URL.Path, out.URL.RawPath = joinPath(endpoint, r.URL)
	out.URL.RawQuery = r.URL.RawQuery
	out.Host = endpoint.Host
	out.Trailer = r.Trailer // filled in at the end of the body
	removeFields(out.Header)
	if _, hasUserAgent := out.Header["User-Agent"]; !hasUserAgent {
		out.Header["User-Agent"] = []string{""} // net/http would send its own name
	}
	if upgrade != "" {
		out.Body, out.ContentLength = nil, 0
		out.Header["Connection"], out.Header["Upgrade"] = []string{"Upgrade"}, []string{upgrade}
	} else if r.ContentLength == 0 {
		out.Body = nil // so that the transport can repeat the request (maxAttempts)
	}
	return out
}

// joinPath appends a request's path to an endpoint's path. It keeps the escapes of both.
func joinPath(endpoint, r *url.URL) (path, raw string) {
	path = strings.TrimSuffix(endpoint.Path, "/") + r.Path
	raw = strings.TrimSuffix(endpoint.EscapedPath(), "/") + r.EscapedPath()
	return path, raw
}

// failUnreachable responds with the failure Unreachable or TimedOut. Call it for a service that did not respond, or
// that closed the connection before the first byte of the body. It logs the error, unless the client has disconnected.
func (f *forwarder) failUnreachable(w http.ResponseWriter, r *http.Request, s service, err error) {
	if r.Context().Err() == nil {
		if suppressed, ok := f.logLimiter.Allow(time.Now()); ok {
			f.log.LogAttrs(r.Context(), slog.LevelWarn, "tunnel: the service did not answer", slog.String("service", s.Name),
				slog.Any("error", err), suppressed)
		}
	}
	writeFailure(w, classifyError(err))
}

// copyResponse sends the service's response to the relay: its head, its body as it arrives, and its trailer.
func (f *forwarder) copyResponse(w http.ResponseWriter, r *http.Request, s service, response *http.Response) {
	DropBody(response)
	buffers := f.buffers(response.ContentLength)
	buffer, _ := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	var n int
	var err error
	if response.ContentLength > 0 {
		// Read the first bytes of the body before sending the head. If that fails, the service counts
		// as unreachable. Resetting the stream after the head would look like a broken connection.
		if n, err = response.Body.Read(*buffer); n == 0 && err != nil && !errors.Is(err, io.EOF) {
			f.failUnreachable(w, r, s, err)
			return
		}
	}
	h := w.Header()
	if !copyFields(h, response.Header) {
		f.failUnusable(w, r, s, errHeadTooLarge)
		return
	}
	suppressDefaultFields(h)
	if response.StatusCode == http.StatusNotModified || response.StatusCode == http.StatusNoContent {
		// Content-Length is the length of a body that this response does not
		// have. net/http's HTTP/2 would wait for the body, here and at each hop.
		delete(h, "Content-Length")
	}
	for name := range response.Trailer {
		h.Add("Trailer", name)
	}
	w.WriteHeader(response.StatusCode)
	controller := http.NewResponseController(w)
	// A body of unknown length can begin much later, and the client waits for the head.
	if response.ContentLength < 0 && controller.Flush() != nil {
		return
	}
	if response.ContentLength != 0 {
		for {
			if n > 0 {
				if _, err := w.Write((*buffer)[:n]); err != nil {
					return
				}
				// Send the received bytes before waiting for more.
				if n < len(*buffer) && controller.Flush() != nil {
					return
				}
			}
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				panic(http.ErrAbortHandler) // reset the stream: the response is incomplete
			}
			n, err = response.Body.Read(*buffer)
		}
	}
	for name, values := range response.Trailer {
		if len(values) > 0 { // net/http would never end a stream with an announced trailer that is missing
			h[http.TrailerPrefix+name] = values
		}
	}
}

// suppressDefaultFields keeps net/http from adding Content-Type and Date to a response that does not have them.
func suppressDefaultFields(h http.Header) {
	for _, name := range []string{"Content-Type", "Date"} {
		if _, exists := h[name]; !exists {
			h[name] = nil
		}
	}
}

// hopByHop are header fields that concern only the connection to the service.
var hopByHop = []string{"Connection", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade"}

// copyFields copies the fields of a response to h. It omits fields that concern only the
// connection to the service (RFC 9110, section 7.6.1), and the tunnel's own fields, which
// only this package sets. It reports whether the fields fit into a head (headFits).
func copyFields(h, src http.Header) bool {
	maps.Copy(h, src)
	removeFields(h)
	for _, value := range src["Connection"] {
		for name := range strings.SplitSeq(value, ",") {
			delete(h, textproto.CanonicalMIMEHeaderKey(textproto.TrimString(name)))
		}
	}
	for _, name := range hopByHop {
		delete(h, name)
	}
	return headFits(h)
}

var errHeadTooLarge = errors.New("tunnel: the head of the service's answer is too large")

// headFits reports whether fields are within the size that a relay accepts for a head, as HTTP/2 counts it (RFC
// 9113, section 6.5.2). A relay that receives a larger head ends the connection with all its requests. Trailers
// need no check: net/http accepts at most 4 KB over HTTP/1, and at most the size that a relay accepts over HTTP/2.
func headFits(h http.Header) bool {
	const perField = 32
	size := 0
	for name, values := range h {
		for _, value := range values {
			size += len(name) + len(value) + perField
		}
	}
	return size <= maxHeaderBytes
}

// DropBody closes and removes the body of a response with the status 204 or 304, which has no body (RFC 9110, sections
// 15.3.5 and 15.4.5). The Content-Length of such a response describes a body that is not sent. An HTTP/2 transport that
// expects so many bytes would report a broken response. DropBody does nothing for other responses.
func DropBody(response *http.Response) {
	if response.StatusCode == http.StatusNotModified || response.StatusCode == http.StatusNoContent {
		_ = response.Body.Close()
		response.Body, response.ContentLength = http.NoBody, 0
	}
}

// copyUpgraded copies data in both directions between the relay and a service that has switched protocols.
func (f *forwarder) copyUpgraded(w http.ResponseWriter, r *http.Request, s service, response *http.Response) {
	rw, ok := response.Body.(io.ReadWriteCloser)
	if !ok {
		writeFailure(w, Unreachable)
		return
	}
	h := w.Header()
	if !copyFields(h, response.Header) {
		f.failUnusable(w, r, s, errHeadTooLarge)
		return
	}
	suppressDefaultFields(h)
	h[fieldSwitched] = []string{response.Header.Get("Upgrade")}
	w.WriteHeader(http.StatusOK)
	controller := http.NewResponseController(w)
	if controller.Flush() != nil {
		return
	}
	// When the stream to the relay ends, nobody reads the service's data, so close the service's connection.
	defer context.AfterFunc(r.Context(), func() { _ = rw.Close() })()
	go func() {
		_, err := io.Copy(rw, r.Body)
		halfCloser, ok := rw.(interface{ CloseWrite() error })
		if err != nil || !ok || halfCloser.CloseWrite() != nil {
			_ = rw.Close()
		}
	}()
	buffer, _ := f.large.Get().(*[]byte)
	defer f.large.Put(buffer)
	for {
		n, err := rw.Read(*buffer)
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

// writeFailure responds with a Failure, in place of the service.
func writeFailure(w http.ResponseWriter, f Failure) {
	w.Header()[fieldFailure] = []string{string(f)}
	w.WriteHeader(http.StatusBadGateway)
}

// classifyError returns TimedOut for a timeout, and Unreachable for any other error.
func classifyError(err error) Failure {
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() || errors.Is(err, os.ErrDeadlineExceeded) ||
		errors.Is(err, context.DeadlineExceeded) {
		return TimedOut
	}
	return Unreachable
}

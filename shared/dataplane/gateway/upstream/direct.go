package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"

	"golang.org/x/net/http/httpguts"

	"github.com/gatewright/gatewright/shared/base/socket"
)

// direct does HTTP/1.1 round trips in the caller's goroutine: it takes a pooled connection, writes
// the request and reads the response. http.Transport passes each of these steps to other goroutines,
// which took most of the time of a proxied request (docs/decisions/0013-direct-round-trips.md).
//
// It sends only requests without a body: a server can stop reading a body until its
// response is read. All other requests, upgrades and HTTP/2 use http.Transport.
type direct struct {
	pool           pool
	maxHeaderBytes int64
}

// supports reports whether a request can be sent directly.
func (d *direct) supports(r *http.Request) bool {
	return (r.Body == nil || r.Body == http.NoBody) && r.ContentLength == 0 && len(r.TransferEncoding) == 0 &&
		len(r.Trailer) == 0 &&
		!r.Close && r.Method != http.MethodConnect && r.Header["Upgrade"] == nil && r.Header["Expect"] == nil &&
		isASCII(r.URL.Host)
}

// maxInformational is the maximum number of 1xx responses before the final one.
const maxInformational = 8

// maxStale is the maximum number of pooled connections on which a request
// is tried. A server that was restarted has closed all pooled connections.
const maxStale = 2

var (
	errHeaderTooLarge       = errors.New("upstream: the response's header is too large")
	errTooManyInformational = errors.New("upstream: too many 1xx responses")
	errSwitched             = errors.New("upstream: the response switches protocols unasked")
	errStatus               = errors.New("upstream: the response's status is outside 100 to 599")
	errLength               = errors.New("upstream: the response's Content-Length is no one number")
	errInvalidRequest       = errors.New("upstream: the request has a field that can't be sent")
)

// send does one round trip. It calls onInformational, unless it is nil, for each 1xx response except 100.
// Like http.Transport, it repeats the request on another connection if a pooled connection was
// closed before the first byte of the response, and the method is safe to repeat.
func (d *direct) send(
	id identity, timeout time.Duration, r *http.Request, onInformational func(int, http.Header),
) (*http.Response, error) {
	if err := validateRequest(r); err != nil {
		return nil, err
	}
	ctx := r.Context()
	for stale := 0; ; stale++ {
		c, reused, err := d.pool.get(ctx, id, r.URL, stale < maxStale)
		if err != nil {
			return nil, err
		}
		response, err := d.exchange(ctx, c, timeout, r, onInformational)
		if err == nil {
			return response, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if !reused || !c.hasReadNothing() || !isSafeMethod(r.Method) || !socket.Closed(err) {
			return nil, err
		}
	}
}

// exchange sends the request on c and reads the head of the response. Afterwards c belongs to the response's body, is
// in the pool again, or is closed.
func (d *direct) exchange(
	ctx context.Context, c *conn, timeout time.Duration, r *http.Request, onInformational func(int, http.Header),
) (_ *http.Response, err error) {
	defer func() {
		if err != nil {
			c.discard()
		}
	}()
	if err := c.begin(ctx, timeout, d.maxHeaderBytes); err != nil {
		return nil, fmt.Errorf("begin a request: %w", err)
	}
	writeHead(c, r)
	if err := c.w.Flush(); err != nil {
		return nil, fmt.Errorf("send the request: %w", err)
	}
	if err := c.startResponseTimeout(timeout); err != nil {
		return nil, fmt.Errorf("wait for the response: %w", err)
	}
	for range maxInformational + 1 {
		response, err := http.ReadResponse(c.r, r)
		switch {
		case err != nil && c.reader.err != nil:
			return nil, fmt.Errorf("read the response: %w", c.reader.err)
		case err != nil:
			return nil, fmt.Errorf("read the response: %w", err)
		case !validStatus(response.StatusCode):
			return nil, errStatus
		case response.StatusCode == http.StatusSwitchingProtocols:
			return nil, errSwitched
		case response.StatusCode >= 200:
			return d.finish(c, response)
		case onInformational != nil && response.StatusCode != http.StatusContinue:
			c.reader.heads.restore(response.Header)
			onInformational(response.StatusCode, response.Header)
		default:
			c.reader.heads.processed++
		}
		c.reader.remaining = d.maxHeaderBytes
	}
	return nil, errTooManyInformational
}

// validStatus reports whether a status is valid in HTTP (RFC 9110,
// section 15). net/http's server panics for some invalid statuses.
func validStatus(status int) bool { return status >= 100 && status <= 599 }

// finish passes the connection to the body, or releases it if there is no body.
func (d *direct) finish(c *conn, response *http.Response) (*http.Response, error) {
	c.reader.heads.restoreFinal(response)
	c.reader.remaining, c.reader.inHead = unlimited, false
	c.reusable = !response.Close
	if response.Body == http.NoBody {
		c.release()
		return response, nil
	}
	// A body that is completely in the buffer needs no watch over the context.
	if response.ContentLength < 0 || int64(c.r.Buffered()) < response.ContentLength {
		if err := c.startWatch(time.Time{}); err != nil {
			return nil, fmt.Errorf("read the response: %w", err)
		}
	}
	response.Body = &directBody{ReadCloser: response.Body, conn: c}
	return response, nil
}

// directBody releases its connection when the body was read to its end. If a read fails, or the body is closed before
// its end, it closes the connection.
type directBody struct {
	io.ReadCloser
	conn *conn
}

func (b *directBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == nil || b.conn == nil {
		return n, err
	}
	c := b.conn
	b.conn = nil
	if errors.Is(err, io.EOF) {
		c.release()
		return n, err
	}
	if c.ctx.Err() != nil {
		err = context.Cause(c.ctx)
	}
	c.discard()
	return n, err
}

// Close is idempotent, and has no effect after the end of the body.
func (b *directBody) Close() error {
	if b.conn != nil {
		// Do not read the rest, which can be endless.
		b.conn.discard()
		b.conn = nil
	}
	return nil
}

// validateRequest refuses values that would break the framing of the request, as
// http.Transport does. It is a second check: earlier checks should already refuse such values.
func validateRequest(r *http.Request) error {
	if !httpguts.ValidHeaderFieldName(r.Method) || !httpguts.ValidHostHeader(hostOf(r)) {
		return errInvalidRequest
	}
	for name, values := range r.Header {
		if !httpguts.ValidHeaderFieldName(name) {
			return errInvalidRequest
		}
		for _, value := range values {
			if !httpguts.ValidHeaderFieldValue(value) {
				return errInvalidRequest
			}
		}
	}
	for _, c := range []byte(r.URL.RawQuery) {
		if c <= ' ' || c == 0x7f {
			return errInvalidRequest
		}
	}
	return nil
}

// writeHead writes the request's head to c.w, whose Flush returns the error of any write. net/url escapes the path.
func writeHead(c *conn, r *http.Request) {
	w := c.w
	write := func(parts ...string) {
		for _, part := range parts {
			_, _ = w.WriteString(part)
		}
	}
	path := r.URL.EscapedPath()
	if path == "" {
		path = "/"
	}
	write(r.Method, " ", path)
	if r.URL.RawQuery != "" || r.URL.ForceQuery {
		write("?", r.URL.RawQuery)
	}
	write(" HTTP/1.1\r\nHost: ", hostOf(r), "\r\n")
	for name, values := range r.Header {
		switch name {
		case "Host", "Content-Length", "Transfer-Encoding", "Connection", "Trailer":
			continue
		case "User-Agent":
			if len(values) == 0 || values[0] == "" {
				continue // an empty value means that no User-Agent is sent, as in net/http
			}
		}
		for _, value := range values {
			write(name, ": ", value, "\r\n")
		}
	}
	switch r.Method {
	case http.MethodPost, http.MethodPut, http.MethodPatch:
		// Servers expect these methods to have a body: say that it is empty.
		write("Content-Length: 0\r\n")
	}
	write("\r\n")
}

func hostOf(r *http.Request) string {
	if r.Host != "" {
		return r.Host
	}
	return r.URL.Host
}

// isSafeMethod reports whether a method is safe. direct repeats only requests with safe methods. A DELETE is not
// repeated, because it is unknown whether the upstream has executed it. http.Transport does the same, but it also
// repeats requests with an Idempotency-Key.
func isSafeMethod(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}

func isASCII(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r > unicode.MaxASCII })
}

// addressOf returns the address to dial for a URL.
func addressOf(u *url.URL) string {
	port := u.Port()
	if port != "" {
		return u.Host
	}
	host := strings.TrimSuffix(u.Host, ":")
	if u.Scheme == "https" {
		return host + ":443"
	}
	return host + ":80"
}

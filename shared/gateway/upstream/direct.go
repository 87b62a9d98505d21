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

	"github.com/gatewright/gatewright/shared/socket"
)

// direct does HTTP/1.1 round trips in the goroutine that asks for them: it takes
// a pooled connection, writes the request, reads the response. http.Transport
// hands each of these to goroutines of the connection, which is what most of a
// proxied request's time was (docs/decisions/0013-direct-round-trips.md).
//
// It takes the requests whose sending can't wait for their response, which are
// those without a body; all others, upgrades and HTTP/2 are http.Transport's.
type direct struct {
	pool           pool
	maxHeaderBytes int64
}

// supports reports whether a request may be sent directly.
func (d *direct) supports(r *http.Request) bool {
	return (r.Body == nil || r.Body == http.NoBody) && r.ContentLength == 0 && len(r.TransferEncoding) == 0 && len(r.Trailer) == 0 &&
		!r.Close && r.Method != http.MethodConnect && r.Header["Upgrade"] == nil && r.Header["Expect"] == nil && isASCII(r.URL.Host)
}

// maxInformational is how many 1xx responses may come before the final one.
const maxInformational = 8

// maxStale is on how many pooled connections that turn out to be closed a
// request is tried: a server that has been restarted may have closed them all.
const maxStale = 2

var (
	errHeaderTooLarge       = errors.New("upstream: the response's header is too large")
	errTooManyInformational = errors.New("upstream: too many 1xx responses")
	errSwitched             = errors.New("upstream: the response switches protocols unasked")
	errStatus               = errors.New("upstream: the response's status is outside 100 to 599")
	errLength               = errors.New("upstream: the response's Content-Length is no one number")
	errInvalidRequest       = errors.New("upstream: the request has a field that can't be sent")
)

// send does one round trip and calls early, if it is not nil, for each 1xx
// response. A connection that turns out to be closed is replaced, as
// http.Transport does: for methods that may be repeated, and only before any
// byte of a response.
func (d *direct) send(by way, wait time.Duration, r *http.Request, onInformational func(int, http.Header)) (*http.Response, error) {
	if err := valid(r); err != nil {
		return nil, err
	}
	ctx := r.Context()
	for stale := 0; ; stale++ {
		c, reused, err := d.pool.get(ctx, by, r.URL, stale < maxStale)
		if err != nil {
			return nil, err
		}
		response, err := d.exchange(ctx, c, wait, r, onInformational)
		if err == nil {
			return response, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if !reused || !c.untouched() || !repeatable(r.Method) || !socket.Closed(err) {
			return nil, err
		}
	}
}

// exchange sends the request on c and reads the response's head. Afterwards c
// belongs to the response's body, or is closed.
func (d *direct) exchange(ctx context.Context, c *conn, wait time.Duration, r *http.Request, onInformational func(int, http.Header)) (_ *http.Response, err error) {
	defer func() {
		if err != nil {
			c.discard()
		}
	}()
	if err := c.begin(ctx, wait, d.maxHeaderBytes); err != nil {
		return nil, fmt.Errorf("begin a request: %w", err)
	}
	writeHead(c, r)
	if err := c.w.Flush(); err != nil {
		return nil, fmt.Errorf("send the request: %w", err)
	}
	if err := c.sent(wait); err != nil {
		return nil, fmt.Errorf("wait for the response: %w", err)
	}
	for range maxInformational + 1 {
		response, err := http.ReadResponse(c.r, r)
		switch {
		case err != nil && c.reader.failed != nil:
			return nil, fmt.Errorf("read the response: %w", c.reader.failed)
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
			c.reader.heads.told++
		}
		c.reader.left = d.maxHeaderBytes
	}
	return nil, errTooManyInformational
}

// validStatus reports whether a status is one that HTTP has (RFC 9110, section
// 15); a server of net/http panics at some others.
func validStatus(status int) bool { return status >= 100 && status <= 599 }

// finish gives the connection to the body, or back when there is none.
func (d *direct) finish(c *conn, response *http.Response) (*http.Response, error) {
	c.reader.heads.final(response)
	c.reader.left, c.reader.inHead = unlimited, false
	c.reusable = !response.Close
	if response.Body == http.NoBody {
		c.release()
		return response, nil
	}
	// What is in the buffer already needs no deadline lifted, and no watch.
	if response.ContentLength < 0 || int64(c.r.Buffered()) < response.ContentLength {
		if err := c.watchOver(time.Time{}); err != nil {
			return nil, fmt.Errorf("read the response: %w", err)
		}
	}
	response.Body = &directBody{ReadCloser: response.Body, conn: c}
	return response, nil
}

// directBody gives its connection back when it was read to its end, and closes
// it when it was not.
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

// Close may be called again, and after the end.
func (b *directBody) Close() error {
	if b.conn != nil {
		// The rest may be endless: it is not read.
		b.conn.discard()
		b.conn = nil
	}
	return nil
}

// valid refuses what would break the framing of the request, as http.Transport
// does: nothing may get this far with it, and nothing does if something did.
func valid(r *http.Request) error {
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

// writeHead writes the request; errors stay in the writer until it is flushed.
// The path is escaped by net/url, whatever it holds.
func writeHead(c *conn, r *http.Request) {
	w := c.w
	text := func(parts ...string) {
		for _, part := range parts {
			_, _ = w.WriteString(part)
		}
	}
	path := r.URL.EscapedPath()
	if path == "" {
		path = "/"
	}
	text(r.Method, " ", path)
	if r.URL.RawQuery != "" || r.URL.ForceQuery {
		text("?", r.URL.RawQuery)
	}
	text(" HTTP/1.1\r\nHost: ", hostOf(r), "\r\n")
	for name, values := range r.Header {
		switch name {
		case "Host", "Content-Length", "Transfer-Encoding", "Connection", "Trailer":
			continue
		case "User-Agent":
			if len(values) == 0 || values[0] == "" {
				continue // how net/http is told to send none
			}
		}
		for _, value := range values {
			text(name, ": ", value, "\r\n")
		}
	}
	switch r.Method {
	case http.MethodPost, http.MethodPut, http.MethodPatch:
		// Such a method is expected to have a body: say that it is empty.
		text("Content-Length: 0\r\n")
	}
	text("\r\n")
}

func hostOf(r *http.Request) string {
	if r.Host != "" {
		return r.Host
	}
	return r.URL.Host
}

// repeatable are the methods that http.Transport repeats: safe ones. Whether
// an upstream has done what a DELETE asked for, nobody can tell.
func repeatable(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}

func isASCII(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r > unicode.MaxASCII })
}

// addressOf returns what to dial for a URL.
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

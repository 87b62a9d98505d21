package gateway

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gatewright/gatewright/shared/dataplane/gateway/upstream"
)

// writer writes one response, and records how much of it was written.
type writer struct {
	http.ResponseWriter
	buffers  *buffers
	upgrades *upgrades
	// body is the request's body. It is nil before receive, and for a request over HTTP/2 or without a body.
	body *requestBody
	// http10 is set if the client speaks HTTP/1.0, which has no trailers.
	http10      bool
	headWritten bool
	status      int  // of the response, 0 before its head is written; StatusClientGone if the client left before that
	truncated   bool // the response broke off, or could not be sent at all
	// halfClosedTimeout is Config.HalfClosedTimeout.
	halfClosedTimeout time.Duration
}

// copySize is the size of the buffer for copying a body. prefixSize is the maximum number of bytes of a body that are
// read before the head is written. If the upstream's response breaks off within these bytes, the client receives a
// problem instead. net/http's server buffers that much anyway. If isFlushed is true for a response, no byte is read
// before the head is written.
const (
	copySize   = 32 << 10
	prefixSize = 2 << 10
)

// buffers has reusable buffers for copying bodies.
type buffers struct{ pool sync.Pool }

func (b *buffers) get() *[copySize]byte {
	if buffer, ok := b.pool.Get().(*[copySize]byte); ok {
		return buffer
	}
	return new([copySize]byte)
}

// informational forwards a 1xx response.
func (w *writer) informational(status int, header http.Header) {
	h := w.Header()
	maps.Copy(h, header)
	upstream.CleanHeader(h, status)
	w.WriteHeader(status)
	// The fields belong only to the 1xx response.
	clear(h)
}

// requestBody is the body of a request on an HTTP/1 connection. The response can begin
// before the body is read, and can be complete before the client has sent all of the body.
type requestBody struct {
	io.ReadCloser
	streamed bool // enableStreaming was called
	atEOF    atomic.Bool
}

func (b *requestBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		b.atEOF.Store(true)
	}
	return n, err
}

// unread reports whether the client of a streamed body may still send a part of it. Then the connection can't be
// reused, because its next bytes are not a request. Without streaming, the server reads the rest of the body itself.
func (b *requestBody) unread() bool { return b != nil && b.streamed && !b.atEOF.Load() }

// enableStreaming lets the response begin while the request's body is still being read.
// Otherwise net/http's HTTP/1 server reads the rest of the body before it writes the response.
func (w *writer) enableStreaming() {
	w.body.streamed = true
	// A writer without this method has no connection, so an error does not matter.
	_ = http.NewResponseController(w.ResponseWriter).EnableFullDuplex()
}

// stopReading ends a pending read of the body. Otherwise the server would
// wait for the read, while the client waits for the end of the response.
func (w *writer) stopReading() {
	_ = http.NewResponseController(w.ResponseWriter).SetReadDeadline(time.Unix(1, 0))
	_ = w.body.Close()
}

// send writes the final response of a request and closes its body. It returns an error if the response could not be
// written completely. After an error, headWritten reports whether the head may have been written. For a response that
// switches protocols, it returns when the connection has ended (upgrade).
func (w *writer) send(response *http.Response) error {
	if response.StatusCode == http.StatusSwitchingProtocols {
		return w.upgrade(response)
	}
	defer response.Body.Close()
	buffer := w.buffers.get()
	defer w.buffers.pool.Put(buffer)
	buffered, err := readPrefix(response, buffer[:prefixSize])
	if err != nil {
		return err
	}
	header := w.Header()
	maps.Copy(header, response.Header)
	if _, hasType := header["Content-Type"]; !hasType {
		// Without this, net/http would guess a type from the body, and browsers could show the upstream's data as a web page.
		header["Content-Type"] = nil
	}
	announcedTrailers := len(response.Trailer)
	if announcedTrailers > 0 && !w.http10 {
		// HTTP/1 has trailers only in chunked bodies.
		delete(header, "Content-Length")
		header["Trailer"] = []string{strings.Join(slices.Sorted(maps.Keys(response.Trailer)), ", ")}
	}
	w.headWritten, w.status = true, response.StatusCode
	w.WriteHeader(response.StatusCode)
	if response.Body == http.NoBody {
		return nil
	}
	if err := w.copyBody(response, buffer[:], buffered); err != nil {
		return err
	}
	if len(response.Trailer) == 0 || w.http10 {
		return nil
	}
	// Trailers need a chunked response. Flushing makes a response chunked even if its body is empty.
	if err := w.flush(); err != nil {
		return err
	}
	for name, values := range response.Trailer {
		if len(values) == 0 { // announced but missing: net/http would never end the stream
			continue
		}
		if len(response.Trailer) != announcedTrailers {
			// Some trailers were not announced. The server accepts announced and unannounced trailers with this prefix.
			name = http.TrailerPrefix + name
		}
		header[name] = values
	}
	return nil
}

// isFlushed reports whether each part of a response is flushed as it arrives, starting with the head, because
// a client may wait for it. That is the case for a response of unknown length and for server-sent events.
func isFlushed(r *http.Response) bool {
	return r.ContentLength < 0 || mediaType(r.Header.Get("Content-Type")) == eventStream
}

// readPrefix reads the beginning of a body into p and returns the number of bytes. It reads nothing if each part of
// the response is flushed.
func readPrefix(response *http.Response, p []byte) (int, error) {
	if response.Body == http.NoBody || isFlushed(response) {
		return 0, nil
	}
	n, err := io.ReadFull(response.Body, p[:min(int64(len(p)), response.ContentLength)])
	// zero bytes are valid: the body of a HEAD response is empty despite its length
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, fmt.Errorf("read the upstream's response: %w", err)
	}
	return n, nil
}

// copyBody writes the body as it arrives. It first writes the bytes of the body that readPrefix has read into buffer;
// buffered is their number.
func (w *writer) copyBody(response *http.Response, buffer []byte, buffered int) error {
	flushing := isFlushed(response)
	if flushing {
		if err := w.flush(); err != nil {
			return err
		}
	}
	if buffered > 0 {
		if _, err := w.Write(buffer[:buffered]); err != nil { //nolint:gosec // G705: a gateway writes the response of its upstream
			return fmt.Errorf("write the response: %w", err)
		}
	}
	for {
		n, err := response.Body.Read(buffer)
		if n > 0 {
			if _, err := w.Write(buffer[:n]); err != nil { //nolint:gosec // G705: as above
				return fmt.Errorf("write the response: %w", err)
			}
			if flushing {
				if err := w.flush(); err != nil {
					return err
				}
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the upstream's response: %w", err)
		}
	}
}

func (w *writer) flush() error {
	err := http.NewResponseController(w.ResponseWriter).Flush()
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		return fmt.Errorf("flush the response: %w", err)
	}
	return nil
}

// canHijack reports whether a writer, or a writer that it wraps, is an http.Hijacker, which can hand over its
// connection.
func canHijack(w http.ResponseWriter) bool {
	for {
		switch inner := w.(type) {
		case http.Hijacker:
			return true
		case interface{ Unwrap() http.ResponseWriter }:
			w = inner.Unwrap()
		default:
			return false
		}
	}
}

// upgrade writes the head of a response that switches protocols. It then copies bytes between the client's connection
// and the upstream's, until both directions have ended, one has failed, or waitHalfClosed has stopped waiting. It
// returns an error only if the head could not be written.
func (w *writer) upgrade(response *http.Response) error {
	backend, ok := response.Body.(io.ReadWriteCloser)
	if !ok {
		return fmt.Errorf("switch protocols: the response's body is a %T", response.Body)
	}
	defer func() { _ = backend.Close() }()
	header := w.Header()
	maps.Copy(header, response.Header)
	w.headWritten, w.status = true, response.StatusCode
	conn := w.upgrades.add()
	defer conn.remove()
	client, buffered, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		return fmt.Errorf("take the client's connection: %w", err)
	}
	defer func() { _ = client.Close() }()
	conn.setClient(client)
	response.Header = header
	response.Body, response.ContentLength = nil, 0 // write only the head
	if err := response.Write(buffered); err != nil {
		return fmt.Errorf("write the response's head: %w", err)
	}
	if err := buffered.Flush(); err != nil {
		return fmt.Errorf("write the response's head: %w", err)
	}
	clientWriter := conn.protocolWriter(response.Header.Get("Upgrade"))
	done := make(chan error, 2)
	var transferred atomic.Int64
	go func() { done <- copyDirection(backend, buffered.Reader, &transferred) }()
	go func() { done <- copyDirection(clientWriter, backend, &transferred) }()
	if err := <-done; err == nil {
		w.waitHalfClosed(done, &transferred)
	}
	// The head was written. If a peer's connection fails later, the gateway has not failed.
	return nil
}

// waitHalfClosed waits for the end of the second direction of a connection, after the first direction has
// ended. It returns early if no byte passes between two ticks, which are w.halfClosedTimeout apart. A peer that has
// closed its connection can't be distinguished from a peer that only has nothing more to send. So the second direction
// may never end.
func (w *writer) waitHalfClosed(done <-chan error, transferred *atomic.Int64) {
	ticker := time.NewTicker(w.halfClosedTimeout)
	defer ticker.Stop()
	for previous := transferred.Load(); ; {
		select {
		case <-done:
			return
		case <-ticker.C:
			current := transferred.Load()
			if current == previous {
				return
			}
			previous = current
		}
	}
}

// countingWriter is an io.Writer that adds the number of bytes of each write to total. Both directions of a connection
// share total.
type countingWriter struct {
	io.Writer
	total *atomic.Int64
}

func (w countingWriter) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	w.total.Add(int64(n))
	return n, err
}

// copyDirection copies bytes from source until its end, and then closes the writing side of destination. If only the
// whole destination can be closed, copyDirection returns io.EOF, and upgrade closes both sides. transferred counts the
// bytes.
func copyDirection(destination io.Writer, source io.Reader, transferred *atomic.Int64) error {
	if _, err := io.Copy(countingWriter{destination, transferred}, source); err != nil {
		return err
	}
	if half, ok := destination.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return io.EOF
}

// stringBody returns a body with the text.
func stringBody(text string) io.ReadCloser { return io.NopCloser(strings.NewReader(text)) }

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

	"github.com/gatewright/gatewright/shared/gateway/upstream"
)

// writer writes one response and knows whether it has begun.
type writer struct {
	http.ResponseWriter
	buffers  *buffers
	upgrades *upgrades
	body     *requestBody // of an HTTP/1 request that has one
	// old says that the client speaks HTTP/1.0, which knows no trailers.
	old     bool
	written bool
	status  int  // of the response, 0 until it is sent
	cut     bool // the response broke off
	// halfClosed is Config.HalfClosedTimeout.
	halfClosed time.Duration
	staying    stream // the request, if it is one that stays (streams.go)
}

// copySize is what is read of a body at once, heldBack what is read of one of known
// length before any of it is written: a server of net/http keeps back as much in
// any case, and until then a response that breaks off can still become a problem.
const (
	copySize = 32 << 10
	heldBack = 2 << 10
)

// buffers are reused between bodies.
type buffers struct{ pool sync.Pool }

func (b *buffers) get() *[copySize]byte {
	if buffer, ok := b.pool.Get().(*[copySize]byte); ok {
		return buffer
	}
	return new([copySize]byte)
}

// informational passes a 1xx response on.
func (w *writer) informational(status int, header http.Header) {
	h := w.Header()
	maps.Copy(h, header)
	upstream.CleanHeader(h, status)
	w.WriteHeader(status)
	// The fields were the early response's alone.
	clear(h)
}

// requestBody is a body on an HTTP/1 connection. A response may begin before it
// is read, and be complete before it is sent.
type requestBody struct {
	io.ReadCloser
	streamed bool
	ended    atomic.Bool
}

func (b *requestBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		b.ended.Store(true)
	}
	return n, err
}

// unread reports whether a part of the body may still be on its way. Such a
// connection can't be used again: what comes on it is no request.
func (b *requestBody) unread() bool { return b != nil && b.streamed && !b.ended.Load() }

// stream lets the response begin while the request's body is still read: an
// HTTP/1 server otherwise reads it to its end first.
func (w *writer) stream() {
	w.body.streamed = true
	// A writer that can't is one without a connection, which has no such need.
	_ = http.NewResponseController(w.ResponseWriter).EnableFullDuplex()
}

// stopReading ends a read of the body that waits for a client which, in turn,
// may wait for the end of the response: the server would wait for the read.
func (w *writer) stopReading() {
	_ = http.NewResponseController(w.ResponseWriter).SetReadDeadline(time.Unix(1, 0))
	_ = w.body.Close()
}

// send writes a response to its end and closes its body. The error says that
// the client has not got all of it, and written whether it got anything.
func (w *writer) send(response *http.Response) error {
	if response.StatusCode == http.StatusSwitchingProtocols {
		return w.upgrade(response)
	}
	defer response.Body.Close()
	buffer := w.buffers.get()
	defer w.buffers.pool.Put(buffer)
	held, err := hold(response, buffer[:heldBack])
	if err != nil {
		return err
	}
	header := w.Header()
	maps.Copy(header, response.Header)
	if _, typed := header["Content-Type"]; !typed {
		// The server would guess one of the body, and make a page of what the
		// upstream sent as data.
		header["Content-Type"] = nil
	}
	announced := len(response.Trailer)
	if announced > 0 && !w.old {
		// HTTP/1 has trailers in chunked bodies alone.
		delete(header, "Content-Length")
		header["Trailer"] = []string{strings.Join(slices.Sorted(maps.Keys(response.Trailer)), ", ")}
	}
	w.written, w.status = true, response.StatusCode
	w.WriteHeader(response.StatusCode)
	if response.Body == http.NoBody {
		return nil
	}
	if err := w.copy(response, buffer[:], held); err != nil {
		return err
	}
	if len(response.Trailer) == 0 || w.old {
		return nil
	}
	// Trailers need a chunked response: an empty one is made so by a flush.
	if err := w.flush(); err != nil {
		return err
	}
	for name, values := range response.Trailer {
		if len(values) == 0 { // announced, and not come: net/http would never end a stream for it
			continue
		}
		if len(response.Trailer) != announced {
			// Some were not announced: the server takes those by this prefix.
			name = http.TrailerPrefix + name
		}
		header[name] = values
	}
	return nil
}

// isFlushed reports whether a response is written as it comes, beginning with the
// header, since a client may wait for each part: it has no known length, or is a
// stream of events.
func isFlushed(r *http.Response) bool {
	return r.ContentLength < 0 || mediaType(r.Header.Get("Content-Type")) == eventStream
}

// hold reads the beginning of a body into p, if it may wait.
func hold(response *http.Response, p []byte) (int, error) {
	if response.Body == http.NoBody || isFlushed(response) {
		return 0, nil
	}
	n, err := io.ReadFull(response.Body, p[:min(int64(len(p)), response.ContentLength)])
	if err != nil && !errors.Is(err, io.EOF) { // without a byte: a HEAD has none of its length
		return 0, fmt.Errorf("read the upstream's response: %w", err)
	}
	return n, nil
}

// copy writes the body as it comes, the bytes first that are held in buffer.
func (w *writer) copy(response *http.Response, buffer []byte, held int) error {
	flushing := isFlushed(response)
	if flushing {
		if err := w.flush(); err != nil {
			return err
		}
	}
	if held > 0 {
		if _, err := w.Write(buffer[:held]); err != nil {
			return fmt.Errorf("write the response: %w", err)
		}
	}
	for {
		n, err := response.Body.Read(buffer)
		if n > 0 {
			if _, err := w.Write(buffer[:n]); err != nil {
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

// canHijack reports whether a writer, or one that it wraps, can give its
// connection away.
func canHijack(w http.ResponseWriter) bool {
	for {
		switch under := w.(type) {
		case http.Hijacker:
			return true
		case interface{ Unwrap() http.ResponseWriter }:
			w = under.Unwrap()
		default:
			return false
		}
	}
}

// upgrade hands the client's connection to the upstream's and lets both speak
// until both have finished or one has failed.
func (w *writer) upgrade(response *http.Response) error {
	backend, ok := response.Body.(io.ReadWriteCloser)
	if !ok {
		return fmt.Errorf("switch protocols: the response's body is a %T", response.Body)
	}
	defer func() { _ = backend.Close() }()
	header := w.Header()
	maps.Copy(header, response.Header)
	w.written, w.status = true, response.StatusCode
	one := w.upgrades.begin()
	defer one.end()
	client, buffered, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		return fmt.Errorf("take the client's connection: %w", err)
	}
	defer func() { _ = client.Close() }()
	one.given(client)
	response.Header = header
	response.Body, response.ContentLength = nil, 0 // only the head is written
	if err := response.Write(buffered); err != nil {
		return fmt.Errorf("write the response's head: %w", err)
	}
	if err := buffered.Flush(); err != nil {
		return fmt.Errorf("write the response's head: %w", err)
	}
	to := one.switched(response.Header.Get("Upgrade"))
	done := make(chan error, 2)
	var passed atomic.Int64
	go func() { done <- pass(backend, buffered.Reader, &passed) }()
	go func() { done <- pass(to, backend, &passed) }()
	if err := <-done; err == nil {
		w.outlast(done, &passed)
	}
	// How a connection of two peers ends is their own matter.
	return nil
}

// outlast waits for the second half of a connection whose first has ended, for as long as something passes: of a peer that has
// closed its connection no more is heard than of one that has said all, and the other may never notice.
func (w *writer) outlast(done <-chan error, passed *atomic.Int64) {
	silence := time.NewTicker(w.halfClosed)
	defer silence.Stop()
	for before := passed.Load(); ; {
		select {
		case <-done:
			return
		case <-silence.C:
			now := passed.Load()
			if now == before {
				return
			}
			before = now
		}
	}
}

// tally counts what is written.
type tally struct {
	io.Writer
	written *atomic.Int64
}

func (t tally) Write(p []byte) (int, error) {
	n, err := t.Writer.Write(p)
	t.written.Add(int64(n))
	return n, err
}

// pass copies one direction and tells the receiver that it has ended.
func pass(to io.Writer, from io.Reader, passed *atomic.Int64) error {
	if _, err := io.Copy(tally{to, passed}, from); err != nil {
		return err
	}
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return io.EOF
}

func readString(text string) io.ReadCloser { return io.NopCloser(strings.NewReader(text)) }

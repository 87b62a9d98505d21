package listen

import (
	"context"
	"io"
	"net/http"
	"sync"
	"time"
)

// maxWrite is the number of bytes of an HTTP/2 response that a client must read
// per SendTimeout: one frame. On an HTTP/1.1 connection, one byte is enough,
// because a slow client holds only one response per connection and not a hundred.
const maxWrite = maxFrame

// stream writes the response to an HTTP/2 request. As on an HTTP/1.1 connection, a stream is ended if its client
// does not read the response, or does not send a body that the handler reads. The other streams continue.
type stream struct {
	http.ResponseWriter
	conn       *conn
	cancel     context.CancelCauseFunc // ends the context of a request with a body, nil without a body
	writeTimer *time.Timer             // created by the first write
	// unflushed is set if bytes were written and not flushed.
	unflushed bool

	mu sync.Mutex // guards handlerDone, so that timers do not call the ResponseWriter after the handler has returned
	// handlerDone is set after the handler has returned.
	handlerDone bool
}

// withBodyTimeout returns the request with a body whose reads time out, and with a context that failStalledRead can
// cancel.
func (st *stream) withBodyTimeout(r *http.Request) *http.Request {
	ctx, cancel := context.WithCancelCause(r.Context())
	st.cancel = cancel
	r = r.WithContext(ctx)
	r.Body = &streamBody{ReadCloser: r.Body, stream: st}
	return r
}

// streamBody is the body of a request whose reads time out.
type streamBody struct {
	io.ReadCloser
	stream    *stream
	readTimer *time.Timer
}

// Read implements io.Reader.
func (b *streamBody) Read(p []byte) (int, error) {
	st := b.stream
	timeout := st.conn.server.settings.BodyTimeout
	if b.readTimer == nil {
		b.readTimer = time.AfterFunc(timeout, st.failStalledRead)
	} else {
		b.readTimer.Reset(timeout)
	}
	n, err := b.ReadCloser.Read(p)
	b.readTimer.Stop()
	st.conn.allowBytes(n)
	return n, err
}

// failStalledRead ends all reads of the request's body, and cancels the context of the request. It is called when a
// read has waited for too long, and when the budget of bodies aborts the body.
func (st *stream) failStalledRead() {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.handlerDone {
		return
	}
	st.cancel(errStalled)
	_ = http.NewResponseController(st.ResponseWriter).SetReadDeadline(aLongTimeAgo)
}

// aLongTimeAgo is a deadline that ends pending reads and writes.
var aLongTimeAgo = time.Unix(1, 0)

// finish is called after the handler has returned. It sets a deadline for the bytes that were not sent yet.
func (st *stream) finish() {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.unflushed {
		_ = http.NewResponseController(st.ResponseWriter).SetWriteDeadline(
			time.Now().Add(st.conn.server.settings.SendTimeout))
	}
	st.handlerDone = true
	// If the body was not read, as many bytes can still arrive as the window allows.
	if st.cancel != nil {
		st.conn.allowBytes(streamWindow / overheadFactor)
	}
}

// startWriteTimeout starts the timeout of a write.
func (st *stream) startWriteTimeout() {
	timeout := st.conn.server.settings.SendTimeout
	if st.writeTimer == nil {
		st.writeTimer = time.AfterFunc(timeout, st.reset)
		return
	}
	st.writeTimer.Reset(timeout)
}

// reset ends the stream of a client that does not read the response, by a deadline that has passed.
func (st *stream) reset() {
	st.mu.Lock()
	defer st.mu.Unlock()
	if !st.handlerDone {
		_ = http.NewResponseController(st.ResponseWriter).SetWriteDeadline(aLongTimeAgo)
	}
}

// Write implements http.ResponseWriter.
func (st *stream) Write(p []byte) (int, error) {
	st.unflushed = true
	for written := 0; ; {
		st.startWriteTimeout()
		n, err := st.ResponseWriter.Write(p[written:min(len(p), written+maxWrite)])
		st.writeTimer.Stop()
		st.conn.allowBytes(n)
		if written += n; err != nil || written == len(p) {
			return written, err
		}
	}
}

// FlushError flushes the response. http.ResponseController.Flush calls it.
func (st *stream) FlushError() error {
	st.startWriteTimeout()
	err := http.NewResponseController(st.ResponseWriter).Flush()
	st.writeTimer.Stop()
	st.unflushed = false
	return err
}

// Flush implements http.Flusher.
func (st *stream) Flush() { _ = st.FlushError() }

// Unwrap returns the wrapped ResponseWriter, on which http.ResponseController calls all other methods.
func (st *stream) Unwrap() http.ResponseWriter { return st.ResponseWriter }

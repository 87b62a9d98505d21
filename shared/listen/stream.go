package listen

import (
	"context"
	"io"
	"net/http"
	"sync"
	"time"
)

// maxPiece is how much of an answer by HTTP/2 has to be taken in one SendTimeout: a frame. Of a
// connection by HTTP/1.1 a byte is enough, for it holds one answer up and not a hundred.
const maxPiece = maxFrame

// stream is the answer to a request by HTTP/2. What takes nothing of it, or sends nothing of
// a body that is waited for, is ended as on a connection of HTTP/1.1, and the others go on.
type stream struct {
	http.ResponseWriter
	conn   *conn
	cancel context.CancelCauseFunc // of a request with a body
	writes *time.Timer             // made by the first
	// unsent says that something was written and not flushed.
	unsent bool

	mu sync.Mutex // guards over, and that nobody asks the ResponseWriter afterwards
	// over says that the handler has returned.
	over bool
}

// read gives the request with a body whose reads end.
func (st *stream) read(r *http.Request) *http.Request {
	ctx, cancel := context.WithCancelCause(r.Context())
	st.cancel = cancel
	r = r.WithContext(ctx)
	r.Body = &streamBody{ReadCloser: r.Body, stream: st}
	return r
}

// streamBody is the body of such a request.
type streamBody struct {
	io.ReadCloser
	stream *stream
	reads  *time.Timer
}

// Read implements io.Reader.
func (b *streamBody) Read(p []byte) (int, error) {
	st := b.stream
	timeout := st.conn.server.settings.BodyTimeout
	if b.reads == nil {
		b.reads = time.AfterFunc(timeout, st.stall)
	} else {
		b.reads.Reset(timeout)
	}
	n, err := b.ReadCloser.Read(p)
	b.reads.Stop()
	st.conn.explain(n)
	return n, err
}

// stall ends a read that has waited for too long.
func (st *stream) stall() {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.over {
		return
	}
	st.cancel(errStalled)
	_ = http.NewResponseController(st.ResponseWriter).SetReadDeadline(past)
}

// past is a deadline that ends what waits.
var past = time.Unix(1, 0)

// end is where the handler has returned. What is left to send has its time too.
func (st *stream) end() {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.unsent {
		_ = http.NewResponseController(st.ResponseWriter).SetWriteDeadline(time.Now().Add(st.conn.server.settings.SendTimeout))
	}
	st.over = true
	// Of a body that nobody has read as much may be under way as the window has.
	if st.cancel != nil {
		st.conn.explain(streamWindow / explains)
	}
}

// begin begins the time of a write.
func (st *stream) begin() {
	timeout := st.conn.server.settings.SendTimeout
	if st.writes == nil {
		st.writes = time.AfterFunc(timeout, st.reset)
		return
	}
	st.writes.Reset(timeout)
}

// reset ends the stream of a client that takes nothing.
func (st *stream) reset() {
	st.mu.Lock()
	defer st.mu.Unlock()
	if !st.over {
		_ = http.NewResponseController(st.ResponseWriter).SetWriteDeadline(past)
	}
}

// Write implements http.ResponseWriter.
func (st *stream) Write(p []byte) (int, error) {
	st.unsent = true
	for written := 0; ; {
		st.begin()
		n, err := st.ResponseWriter.Write(p[written:min(len(p), written+maxPiece)])
		st.writes.Stop()
		st.conn.explain(n)
		if written += n; err != nil || written == len(p) {
			return written, err
		}
	}
}

// FlushError is what http.ResponseController calls.
func (st *stream) FlushError() error {
	st.begin()
	err := http.NewResponseController(st.ResponseWriter).Flush()
	st.writes.Stop()
	st.unsent = false
	return err
}

// Flush implements http.Flusher.
func (st *stream) Flush() { _ = st.FlushError() }

// Unwrap is what http.ResponseController calls for everything else.
func (st *stream) Unwrap() http.ResponseWriter { return st.ResponseWriter }

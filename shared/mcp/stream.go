package mcp

import (
	"context"
	"io"
	"net/http"
	"sync"
)

// streamed answers by events, which come as they are written: for a client that wants to be told how a call
// goes on. The stream ends with the call's answer, so that no function is held open by it.
func (s *Server) streamed(request *http.Request, c *call) *http.Response {
	ctx, cancel := context.WithCancel(request.Context())
	c.ctx = ctx
	reader, pipe := io.Pipe()
	w := &pipeWriter{header: http.Header{}, begun: make(chan struct{}), pipe: pipe}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			cause := recover()
			if cause != nil {
				_ = s.setup.Failed(ctx, cause)
			}
			w.WriteHeader(http.StatusOK)
			_ = pipe.Close()
		}()
		s.stream.ServeHTTP(w, request.WithContext(ctx))
	}()
	<-w.begun
	delete(w.header, "Connection")
	w.header.Set("Cache-Control", "no-store, no-transform")
	return &http.Response{
		StatusCode: w.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: w.header, ContentLength: -1,
		Body: &streamBody{PipeReader: reader, end: func() {
			cancel()
			<-done // nothing of the request outlives it
		}},
	}
}

// streamBody is the events' reader.
type streamBody struct {
	*io.PipeReader
	end func()
}

// Close ends the call that still writes.
func (b *streamBody) Close() error {
	err := b.PipeReader.Close()
	b.end()
	return err
}

// pipeWriter is a response that is read while it is written.
type pipeWriter struct {
	header http.Header
	once   sync.Once
	begun  chan struct{}
	status int
	pipe   *io.PipeWriter
}

var _ http.Flusher = (*pipeWriter)(nil)

// Header implements http.ResponseWriter.
func (w *pipeWriter) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *pipeWriter) WriteHeader(status int) {
	w.once.Do(func() {
		w.status = status
		close(w.begun)
	})
}

// Write implements http.ResponseWriter.
func (w *pipeWriter) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.pipe.Write(p)
}

// Flush implements http.Flusher: what is written is read already.
func (w *pipeWriter) Flush() {}

// callKey is where a request's context has its call.
type callKey struct{}

// call is what the SDK's handlers know of the request that they answer.
type call struct {
	// ctx is the request's, which ends when nobody waits for the answer any more.
	ctx context.Context //nolint:containedctx // the SDK's own goes on when the client has gone
	// version is the protocol's as the client names it, "" for an older client that does not.
	version string
}

// RequestContext is the context of the request that a handler answers, by the handler's own: it ends when nobody reads
// the answer any more, and the handler's does not.
func RequestContext(ctx context.Context) context.Context { return callOf(ctx).ctx }

// RequestVersion is the version of the protocol that the client names, by the handler's context; "" is for one of before
// there were names.
func RequestVersion(ctx context.Context) string { return callOf(ctx).version }

func callOf(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

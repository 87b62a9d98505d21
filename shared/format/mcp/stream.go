package mcp

import (
	"context"
	"io"
	"net/http"
	"sync"
)

// streamCall sends the response as events while the call runs, for a client that requests progress. The
// stream ends with the call's response, so that an idle stream does not keep a Lambda function running.
func (s *Server) streamCall(request *http.Request, c *call) *http.Response {
	ctx, cancel := context.WithCancel(request.Context())
	c.ctx = ctx
	reader, pipe := io.Pipe()
	w := &pipeWriter{header: http.Header{}, headerWritten: make(chan struct{}), pipe: pipe}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			cause := recover()
			if cause != nil {
				_ = s.setup.ReportFailure(ctx, cause)
			}
			w.WriteHeader(http.StatusOK)
			_ = pipe.Close()
		}()
		s.streamHandler.ServeHTTP(w, request.WithContext(ctx))
	}()
	<-w.headerWritten
	delete(w.header, "Connection")
	w.header.Set("Cache-Control", "no-store, no-transform")
	return &http.Response{
		StatusCode: w.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: w.header, ContentLength: -1,
		Body: &streamBody{PipeReader: reader, stop: func() {
			cancel()
			<-done // no goroutine of the request continues after Close
		}},
	}
}

// streamBody is the body of a streamed response.
type streamBody struct {
	*io.PipeReader
	stop func()
}

// Close cancels the call if it is still running, and waits until it has ended.
func (b *streamBody) Close() error {
	err := b.PipeReader.Close()
	b.stop()
	return err
}

// pipeWriter is an http.ResponseWriter for a response that the client reads while the SDK writes it.
type pipeWriter struct {
	header        http.Header
	once          sync.Once
	headerWritten chan struct{}
	status        int
	pipe          *io.PipeWriter
}

var _ http.Flusher = (*pipeWriter)(nil)

// Header implements http.ResponseWriter.
func (w *pipeWriter) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *pipeWriter) WriteHeader(status int) {
	w.once.Do(func() {
		w.status = status
		close(w.headerWritten)
	})
}

// Write implements http.ResponseWriter.
func (w *pipeWriter) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.pipe.Write(p)
}

// Flush implements http.Flusher. It has nothing to do: Write returns when the data has been read.
func (w *pipeWriter) Flush() {}

// callKey is the key of the call in a request's context.
type callKey struct{}

// call is the data that the SDK's handlers need about the current request.
type call struct {
	// ctx is the request's context, which ends when the client no longer waits for the response.
	ctx context.Context //nolint:containedctx // the SDK's own context continues after the client disconnects
	// version is the protocol version that the client names. It is "" for an older client that does not name one.
	version string
}

// RequestContext returns the context of the request that a handler serves, given the handler's own context.
// The request's context ends when the client stops reading the response; the handler's context does not.
func RequestContext(ctx context.Context) context.Context { return callOf(ctx).ctx }

// RequestVersion returns the protocol version that the client names, given the
// handler's context. It is "" for older clients, which do not send the version.
func RequestVersion(ctx context.Context) string { return callOf(ctx).version }

func callOf(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/awslabs/aws-lambda-go-api-proxy/core"

	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/management/api"
)

// StreamingHandler is a Lambda handler that begins to return a response before the response is complete.
type StreamingHandler func(
	context.Context, events.APIGatewayProxyRequest,
) (*events.APIGatewayProxyStreamingResponse, error)

// headTimeout is the maximum time from the start of an invocation until the gateway begins its response. Clients that
// have to wait longer have usually disconnected.
const headTimeout = 28 * time.Second

// cleanupTimeout is the maximum time for which an invocation waits until the handler of a failed or canceled request
// has returned and has released its slot. After the invocation, the process is frozen and could not release the slot.
const cleanupTimeout = releaseTimeout + time.Second

// errTruncated is the error that ends the stream of an incomplete response.
var errTruncated = errors.New("gateway: the answer broke off")

// Stream returns a Lambda handler with h as the gateway. API Gateway streams the responses to the client. Streamed
// responses can exceed 6 MB, and can take longer than 29 s after they have begun. API Gateway still passes whole
// requests.
func Stream(p installation.Parts, h http.Handler) StreamingHandler {
	o := edgeOptions(p)
	var accessor core.RequestAccessor
	handler := withClientOrigin(h)
	return func(ctx context.Context,
		event events.APIGatewayProxyRequest,
	) (*events.APIGatewayProxyStreamingResponse, error) {
		event, refusal := o.Normalize(event)
		if refusal != nil {
			return bufferedStream(api.EdgeProblem(ctx, event, refusal))
		}
		requestCtx, cancel := context.WithCancel(ctx)
		r, err := accessor.EventToRequestWithContext(requestCtx, event)
		if err != nil {
			cancel()
			return nil, fmt.Errorf("make a request of an event: %w", err)
		}
		body, pipe := io.Pipe()
		w := &writer{header: http.Header{}, pipe: pipe, started: make(chan struct{})}
		handlerDone := make(chan struct{})
		go func() {
			defer cancel()
			defer close(handlerDone)
			defer func() {
				cause := recover()
				if cause != nil {
					p.Log.ErrorContext(ctx, "an answer broke off", "requestId", event.RequestContext.RequestID, "error", cause)
				}
				flushIfDue(ctx, h)
				p.Telemetry.Tracer.Flush(ctx) // flush now, because the invocation ends with the stream
				if cause != nil {
					w.begin(0)
					_ = pipe.CloseWithError(errTruncated)
				}
				w.WriteHeader(http.StatusOK) // if the handler has written nothing
				_ = pipe.Close()
			}()
			handler.ServeHTTP(w, r)
		}()
		timer := time.NewTimer(headTimeout)
		defer timer.Stop()
		select {
		case <-w.started:
			if w.status == 0 {
				return delayedStream(handlerDone)(api.EdgeResponse(ctx, event, http.StatusBadGateway,
					"The answer broke off before it began. Repeat the request if that is safe."))
			}
			// The pipe is closed when the handler returns. If the Lambda runtime closes body earlier, the handler's writes fail.
			return &events.APIGatewayProxyStreamingResponse{StatusCode: w.status, MultiValueHeaders: w.sentHeader, Body: body},
				nil
		case <-timer.C:
			_ = body.CloseWithError(context.DeadlineExceeded)
			cancel()
			return delayedStream(handlerDone)(api.EdgeResponse(ctx, event, http.StatusGatewayTimeout,
				"The upstream took too long to begin its answer. Repeat the request if that is safe."))
		}
	}
}

// bufferedStream returns a complete response as a stream.
func bufferedStream(resp events.APIGatewayProxyResponse, err error) (*events.APIGatewayProxyStreamingResponse, error) {
	return delayedStream(nil)(resp, err)
}

// delayedStream returns a function that works like bufferedStream, for a request whose handler may still run. The
// invocation ends with the stream. So the stream ends only when handlerDone is closed, or after cleanupTimeout. If
// handlerDone is nil, no handler runs, and the stream ends immediately.
func delayedStream(
	handlerDone <-chan struct{},
) func(events.APIGatewayProxyResponse, error) (*events.APIGatewayProxyStreamingResponse, error) {
	return func(resp events.APIGatewayProxyResponse, err error) (*events.APIGatewayProxyStreamingResponse, error) {
		if err != nil {
			return nil, err
		}
		r, w := io.Pipe()
		go func() {
			_, err := io.WriteString(w, resp.Body)
			if handlerDone != nil {
				select {
				case <-handlerDone:
				case <-time.After(cleanupTimeout):
				}
			}
			_ = w.CloseWithError(err)
		}()
		return &events.APIGatewayProxyStreamingResponse{
			StatusCode: resp.StatusCode, MultiValueHeaders: resp.MultiValueHeaders,
			Body: r,
		}, nil
	}
}

// writer is an http.ResponseWriter that writes the body into a pipe. The Lambda runtime reads the other end as soon as
// the response has begun.
type writer struct {
	header http.Header
	pipe   *io.PipeWriter

	once    sync.Once
	started chan struct{}
	// status and sentHeader are valid when started is closed.
	status     int
	sentHeader http.Header
}

var _ http.Flusher = (*writer)(nil)

// Header implements http.ResponseWriter.
func (w *writer) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *writer) WriteHeader(status int) {
	if status < http.StatusOK {
		return // an interim response, which API Gateway does not support
	}
	w.begin(status)
}

// begin stores the status and the headers, and closes started. Only the first call has an effect. Status 0 means that
// the handler failed before the response began.
func (w *writer) begin(status int) {
	w.once.Do(func() {
		w.status, w.sentHeader = status, w.header.Clone()
		// API Gateway chooses the transfer encoding.
		w.sentHeader.Del("Transfer-Encoding")
		w.sentHeader.Del("Connection")
		dropEmpty(w.sentHeader)
		close(w.started)
	})
}

// Write implements http.ResponseWriter.
func (w *writer) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.pipe.Write(b)
}

// Flush implements http.Flusher. Only the status and the headers need a flush: a write returns when the Lambda runtime
// has read all its bytes.
func (w *writer) Flush() { w.WriteHeader(http.StatusOK) }

// SetWriteDeadline is used by http.ResponseController. A deadline in the past ends the stream, and also a write or a
// read of the pipe that is in progress. Other deadlines have no effect.
func (w *writer) SetWriteDeadline(deadline time.Time) error {
	if time.Now().After(deadline) {
		w.begin(0)
		_ = w.pipe.CloseWithError(errTruncated)
	}
	return nil
}

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

	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/installation"
)

// Streaming is a Lambda function whose answers begin before they are whole.
type Streaming func(context.Context, events.APIGatewayProxyRequest) (*events.APIGatewayProxyStreamingResponse, error)

// headTimeout is how long an upstream may take to begin its answer: a client that
// waits for longer has most often gone.
const headTimeout = 28 * time.Second

// lateTimeout is how long a request may take to end that was given up: it gives back what it holds of others, and in a process that
// is frozen nobody does.
const lateTimeout = giveBackTimeout + time.Second

// errTruncated ends a stream that is not whole.
var errTruncated = errors.New("gateway: the answer broke off")

// Stream makes a Lambda function of the gateway whose answers API Gateway
// passes on as they come: without the limit of 6 MB, and past 29 s once they
// have begun. Requests still arrive whole.
func Stream(p installation.Parts, h http.Handler) Streaming {
	o := options(p)
	var from core.RequestAccessor
	handler := withClientOrigin(h)
	return func(ctx context.Context, event events.APIGatewayProxyRequest) (*events.APIGatewayProxyStreamingResponse, error) {
		event, refusal := o.Normalise(event)
		if refusal != nil {
			return bufferedStream(api.EdgeProblem(ctx, event, refusal))
		}
		asked, giveUp := context.WithCancel(ctx)
		r, err := from.EventToRequestWithContext(asked, event)
		if err != nil {
			giveUp()
			return nil, fmt.Errorf("make a request of an event: %w", err)
		}
		body, out := io.Pipe()
		w := &writer{header: http.Header{}, out: out, begun: make(chan struct{})}
		ended := make(chan struct{})
		go func() {
			defer giveUp()
			defer close(ended)
			defer func() {
				cause := recover()
				if cause != nil {
					p.Log.ErrorContext(ctx, "an answer broke off", "requestId", event.RequestContext.RequestID, "error", cause)
				}
				settle(ctx, h)
				p.Telemetry.Tracer.Flush(ctx) // the invocation ends with the stream, or with its absence
				if cause != nil {
					w.begin(0)
					_ = out.CloseWithError(errTruncated)
				}
				w.WriteHeader(http.StatusOK) // for a handler that wrote nothing at all
				_ = out.Close()
			}()
			handler.ServeHTTP(w, r)
		}()
		timer := time.NewTimer(headTimeout)
		defer timer.Stop()
		select {
		case <-w.begun:
			if w.status == 0 {
				return lateStream(ended)(api.EdgeAnswer(ctx, event, http.StatusBadGateway, "The answer broke off before it began. Repeat the request if that is safe."))
			}
			// The pipe's end is the answer's; closing it early ends the handler.
			return &events.APIGatewayProxyStreamingResponse{StatusCode: w.status, MultiValueHeaders: w.sent, Body: body}, nil
		case <-timer.C:
			_ = body.CloseWithError(context.DeadlineExceeded)
			giveUp()
			return lateStream(ended)(api.EdgeAnswer(ctx, event, http.StatusGatewayTimeout,
				"The upstream took too long to begin its answer. Repeat the request if that is safe."))
		}
	}
}

// bufferedStream returns an answer that is there already as a stream.
func bufferedStream(a events.APIGatewayProxyResponse, err error) (*events.APIGatewayProxyStreamingResponse, error) {
	return lateStream(nil)(a, err)
}

// lateStream is bufferedStream for a request that is still being answered: the invocation ends with the stream, so that this
// one ends when the request has, or has had its time. Nil is for one that has.
func lateStream(ended <-chan struct{}) func(events.APIGatewayProxyResponse, error) (*events.APIGatewayProxyStreamingResponse, error) {
	return func(a events.APIGatewayProxyResponse, err error) (*events.APIGatewayProxyStreamingResponse, error) {
		if err != nil {
			return nil, err
		}
		r, w := io.Pipe()
		go func() {
			_, err := io.WriteString(w, a.Body)
			if ended != nil {
				select {
				case <-ended:
				case <-time.After(lateTimeout):
				}
			}
			_ = w.CloseWithError(err)
		}()
		return &events.APIGatewayProxyStreamingResponse{StatusCode: a.StatusCode, MultiValueHeaders: a.MultiValueHeaders, Body: r}, nil
	}
}

// writer is an http.ResponseWriter whose body is read at the other end of a pipe
// as it is written.
type writer struct {
	header http.Header
	out    *io.PipeWriter

	once   sync.Once
	begun  chan struct{}
	status int
	sent   http.Header
}

var _ http.Flusher = (*writer)(nil)

// Header implements http.ResponseWriter.
func (w *writer) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *writer) WriteHeader(status int) {
	if status < http.StatusOK {
		return // an interim answer, which the platform knows nothing of
	}
	w.begin(status)
}

// begin sends status and headers, once; status 0 stands for an answer that
// never began.
func (w *writer) begin(status int) {
	w.once.Do(func() {
		w.status, w.sent = status, w.header.Clone()
		// The platform frames the body itself.
		w.sent.Del("Transfer-Encoding")
		w.sent.Del("Connection")
		dropEmpty(w.sent)
		close(w.begun)
	})
}

// Write implements http.ResponseWriter.
func (w *writer) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.out.Write(b)
}

// Flush implements http.Flusher: whatever was written has been read already.
func (w *writer) Flush() { w.WriteHeader(http.StatusOK) }

// SetWriteDeadline is for http.ResponseController: one that has passed ends the stream, whoever waits for it.
func (w *writer) SetWriteDeadline(deadline time.Time) error {
	if time.Now().After(deadline) {
		w.begin(0)
		_ = w.out.CloseWithError(errTruncated)
	}
	return nil
}

package cloud

import (
	"context"
	"io"
	"reflect"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/gatewright/gatewright/shared/base/telemetry"
	"github.com/gatewright/gatewright/shared/management/api"
)

// withTracing returns a handler that sends its spans before the invocation ends, because Lambda freezes the process
// after the invocation. If the function serves no API routes, the handler also creates a span for the invocation, with
// the function's name.
//
// Without a tracer, the handler is returned unchanged. So is a handler that streams its responses, because its
// invocation continues after the handler returns. Such a handler flushes its spans at the end of the stream.
func withTracing(handler any, t *telemetry.Tracer, function string) any {
	if t == nil || isStreaming(handler) {
		return handler
	}
	out := &tracingHandler{Handler: lambda.NewHandler(handler), tracer: t}
	if _, isEdge := handler.(api.LambdaHandler); !isEdge {
		out.name = function
	}
	return out
}

// isStreaming reports whether a handler's response is read after the handler has returned.
func isStreaming(handler any) bool {
	t := reflect.TypeOf(handler)
	return t.Kind() == reflect.Func && t.NumOut() > 0 && t.Out(0).Implements(reflect.TypeFor[io.Reader]())
}

type tracingHandler struct {
	lambda.Handler
	tracer *telemetry.Tracer
	name   string // the name of an invocation's span, "" for a handler that creates spans itself
}

// Invoke implements lambda.Handler.
func (t *tracingHandler) Invoke(ctx context.Context, payload []byte) (resp []byte, err error) {
	defer t.tracer.Flush(ctx)
	if t.name == "" {
		return t.Handler.Invoke(ctx, payload)
	}
	spanCtx, span := t.tracer.Start(ctx, t.name, nil)
	resp, err = t.Handler.Invoke(spanCtx, payload)
	span.End(err != nil)
	return resp, err
}

package cloud

import (
	"context"
	"io"
	"reflect"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/telemetry"
)

// traced gives the handler of a function whose spans are sent before its
// invocation ends: what is still here then is frozen with the process. A
// function that no route calls gets its span here, named as the function is.
//
// One that streams its answers is left alone, since its invocation goes on
// after its handler: it flushes at the end of the stream.
func traced(handler any, t *telemetry.Tracer, function string) any {
	if t == nil || streams(handler) {
		return handler
	}
	out := &tracing{Handler: lambda.NewHandler(handler), tracer: t}
	if _, edge := handler.(api.Edge); !edge {
		out.name = function
	}
	return out
}

// streams reports whether a handler's answer is read after it has returned.
func streams(handler any) bool {
	t := reflect.TypeOf(handler)
	return t.Kind() == reflect.Func && t.NumOut() > 0 && t.Out(0).Implements(reflect.TypeFor[io.Reader]())
}

type tracing struct {
	lambda.Handler
	tracer *telemetry.Tracer
	name   string // of an invocation's span, "" for a handler that makes its own
}

// Invoke implements lambda.Handler.
func (h *tracing) Invoke(ctx context.Context, payload []byte) (answer []byte, err error) {
	defer h.tracer.Flush(ctx)
	if h.name == "" {
		return h.Handler.Invoke(ctx, payload)
	}
	within, span := h.tracer.Start(ctx, h.name, nil)
	answer, err = h.Handler.Invoke(within, payload)
	span.End(err != nil)
	return answer, err
}

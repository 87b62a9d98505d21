package telemetry

import (
	"context"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// instrumentationName names the code that creates the spans.
const instrumentationName = "github.com/gatewright/gatewright"

// Tracer starts the spans of requests. It is safe for concurrent use. A nil Tracer starts none.
type Tracer struct {
	tracer trace.Tracer
	flush  func(context.Context) error
	close  func(context.Context) error
}

// Provider creates spans, and sends those that have ended. The provider of OpenTelemetry's SDK, which package otlp
// configures, implements it.
type Provider interface {
	trace.TracerProvider
	// ForceFlush sends the spans that have ended. Shutdown sends them too, and sends no later spans. Both methods log
	// spans that cannot be sent.
	ForceFlush(ctx context.Context) error
	Shutdown(ctx context.Context) error
}

// NewTracer returns a Tracer whose spans a provider sends.
func NewTracer(p Provider) *Tracer {
	return &Tracer{tracer: p.Tracer(instrumentationName), flush: p.ForceFlush, close: p.Shutdown}
}

// Start begins the span of an incoming request. The span belongs to the trace in the request's header
// (https://www.w3.org/TR/trace-context/), or to a new trace. Spans that begin under the returned context are its
// children.
func (t *Tracer) Start(ctx context.Context, name string, header http.Header) (context.Context, Span) {
	if t == nil {
		return ctx, Span{}
	}
	if len(header["Traceparent"]) == 1 { // if there are two headers, neither can be trusted
		ctx = propagation.TraceContext{}.Extract(ctx, propagation.HeaderCarrier(header))
	}
	ctx, span := t.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindServer))
	return ctx, Span{span}
}

// flushTimeout is the maximum duration of Flush: the time that an unresponsive collector adds to a request.
const flushTimeout = time.Second

// Flush sends the spans that have ended. Call it before the process is frozen. It takes at most flushTimeout. Spans
// that cannot be sent are lost and logged.
func (t *Tracer) Flush(ctx context.Context) {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	_ = t.flush(ctx) // the provider has logged it
}

// Close sends the spans that have ended, and no more after them.
func (t *Tracer) Close(ctx context.Context) {
	if t != nil {
		_ = t.close(ctx) // the provider has logged it
	}
}

// Child begins a child of the context's span if that span is recorded. Otherwise it returns the zero Span and
// allocates nothing.
func Child(ctx context.Context, name string) (context.Context, Span) {
	parent := trace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		return ctx, Span{}
	}
	ctx, span := parent.TracerProvider().Tracer(instrumentationName).Start(ctx, name,
		trace.WithSpanKind(trace.SpanKindClient))
	return ctx, Span{span}
}

// Span is a piece of work with a beginning and an end. The zero Span is work that is not traced; all its methods do nothing.
type Span struct{ span trace.Span }

// Enabled reports whether this is a span of a trace, and not the zero Span. The trace is not necessarily recorded.
func (s Span) Enabled() bool { return s.span != nil }

// Name replaces the span's name. Use only few different names, never a value of a request.
func (s Span) Name(name string) {
	if s.span != nil {
		s.span.SetName(name)
	}
}

// End ends the span and adds its attributes. Attributes must not contain secrets or texts that a client wrote. failed
// reports whether the work failed because of this program, and not because of a client or an upstream.
func (s Span) End(failed bool, attributes ...attribute.KeyValue) {
	if s.span == nil {
		return
	}
	s.span.SetAttributes(attributes...)
	if failed {
		s.span.SetStatus(codes.Error, "") // the cause is in the log, under the same request id
	}
	s.span.End()
}

// TraceID returns the trace's id as 32 hexadecimal digits, or "" for the zero Span.
func (s Span) TraceID() string {
	if s.span == nil {
		return ""
	}
	return s.span.SpanContext().TraceID().String()
}

// Traceparent returns the value of the traceparent field for requests whose parent is this span, or "" for the zero
// Span.
func (s Span) Traceparent() string {
	if s.span == nil {
		return ""
	}
	c := s.span.SpanContext()
	return "00-" + c.TraceID().String() + "-" + c.SpanID().String() + "-" + c.TraceFlags().String()
}

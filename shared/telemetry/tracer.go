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

// scope names the code that makes the spans.
const scope = "github.com/gatewright/gatewright"

// Tracer starts the spans of requests. It is safe for concurrent use; a nil
// Tracer starts none.
type Tracer struct {
	tracer trace.Tracer
	flush  func(context.Context) error
	close  func(context.Context) error
}

// Provider makes spans, and sends those that have ended: package otlp's.
type Provider interface {
	trace.TracerProvider
	// ForceFlush sends the spans that have ended, Shutdown too, and no more after them. What cannot be sent they have logged.
	ForceFlush(ctx context.Context) error
	Shutdown(ctx context.Context) error
}

// NewTracer makes a Tracer whose spans a provider sends.
func NewTracer(p Provider) *Tracer {
	return &Tracer{tracer: p.Tracer(scope), flush: p.ForceFlush, close: p.Shutdown}
}

// Start begins the span of a request that came from outside, as a part of the
// trace that its header tells of (https://www.w3.org/TR/trace-context/), or of
// a new one. Spans that are begun under the context are its children.
func (t *Tracer) Start(ctx context.Context, name string, header http.Header) (context.Context, Span) {
	if t == nil {
		return ctx, Span{}
	}
	if len(header["Traceparent"]) == 1 { // of two nobody knows which is right
		ctx = propagation.TraceContext{}.Extract(ctx, propagation.HeaderCarrier(header))
	}
	ctx, span := t.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindServer))
	return ctx, Span{span}
}

// flushTime bounds what a collector that does not answer adds to a request.
const flushTime = time.Second

// Flush sends the spans that have ended, before a process is frozen. It takes a
// second at most; spans that cannot be sent are lost, and the log says so.
func (t *Tracer) Flush(ctx context.Context) {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, flushTime)
	defer cancel()
	_ = t.flush(ctx) // the provider has logged it
}

// Close sends the spans that have ended, and no more after them.
func (t *Tracer) Close(ctx context.Context) {
	if t != nil {
		_ = t.close(ctx) // the provider has logged it
	}
}

// Child begins a span under the one of the context, if that one is recorded:
// what nobody looks at costs nothing.
func Child(ctx context.Context, name string) (context.Context, Span) {
	parent := trace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		return ctx, Span{}
	}
	ctx, span := parent.TracerProvider().Tracer(scope).Start(ctx, name, trace.WithSpanKind(trace.SpanKindClient))
	return ctx, Span{span}
}

// Span is a piece of work with a beginning and an end. The zero Span is of work
// that is not traced; all methods of it do nothing.
type Span struct{ span trace.Span }

// On reports whether the span has a place in a trace, recorded or not.
func (s Span) On() bool { return s.span != nil }

// Name replaces the span's name: few different ones, never a value of a request.
func (s Span) Name(name string) {
	if s.span != nil {
		s.span.SetName(name)
	}
}

// End ends the span, with what there is to tell about it. Attributes hold no
// secret and no text that a client wrote. failed says that we are to blame.
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

// TraceID is the trace's, as 32 hexadecimal digits, "" for the zero Span.
func (s Span) TraceID() string {
	if s.span == nil {
		return ""
	}
	return s.span.SpanContext().TraceID().String()
}

// Parent is the span as the traceparent of what is asked on its behalf, "" for
// the zero Span.
func (s Span) Parent() string {
	if s.span == nil {
		return ""
	}
	c := s.span.SpanContext()
	return "00-" + c.TraceID().String() + "-" + c.SpanID().String() + "-" + c.TraceFlags().String()
}

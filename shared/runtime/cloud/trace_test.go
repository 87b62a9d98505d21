package cloud

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"

	"github.com/gatewright/gatewright/shared/base/telemetry"
	"github.com/gatewright/gatewright/shared/base/telemetry/telemetrytest"
	"github.com/gatewright/gatewright/shared/management/api"
)

// TestSpansAreSentBeforeAnInvocationEnds checks which spans the collector
// has received when the handler returns, without another flush.
func TestSpansAreSentBeforeAnInvocationEnds(t *testing.T) {
	childSpan := func(ctx context.Context) {
		_, span := telemetry.Child(ctx, "store.Read")
		span.End(false)
	}
	for name, tc := range map[string]struct {
		handler func(c *telemetrytest.Collector) any
		fails   bool
		want    []string
	}{
		"a route": {func(c *telemetrytest.Collector) any {
			return api.LambdaHandler(func(
				ctx context.Context, _ events.APIGatewayProxyRequest,
			) (events.APIGatewayProxyResponse, error) {
				ctx, span := c.Start(ctx, "Things_read", nil)
				childSpan(ctx)
				span.End(false)
				return events.APIGatewayProxyResponse{StatusCode: 200}, nil
			})
		}, false, []string{"Things_read", "store.Read"}},
		"an event": {func(*telemetrytest.Collector) any {
			return func(ctx context.Context, _ events.S3Event) error {
				childSpan(ctx)
				return nil
			}
		}, false, []string{"builder", "store.Read"}},
		"a failing event": {func(*telemetrytest.Collector) any {
			return func(context.Context, events.S3Event) error { return errors.New("the cause") }
		}, true, []string{"builder"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := telemetrytest.New(t)
			h, ok := withTracing(tc.handler(c), c.Tracer, "builder").(lambda.Handler)
			if !ok {
				t.Fatal("withTracing() returns another type than lambda.Handler, want the handler wrapped")
			}
			if _, err := h.Invoke(t.Context(), []byte(`{}`)); (err != nil) != tc.fails {
				t.Fatalf("Invoke() error = %v, want one: %t", err, tc.fails)
			}
			if len(c.Requests()) != 1 {
				t.Errorf("the collector receives %d requests, want 1", len(c.Requests()))
			}
			spans, _ := c.Spans(t)
			if len(spans) != len(tc.want) {
				t.Fatalf("the collector receives %d spans, want %d", len(spans), len(tc.want))
			}
			for i, s := range spans {
				if s.GetName() != tc.want[i] || tc.fails != (s.GetStatus().GetCode() == 2) {
					t.Errorf("span %d = %v, want %s with an error: %v", i, s, tc.want[i], tc.fails)
				}
			}
		})
	}
}

func TestStreamingHandlerIsNotWrapped(t *testing.T) {
	c := telemetrytest.New(t)
	streaming := func(context.Context, events.APIGatewayProxyRequest) (*events.APIGatewayProxyStreamingResponse, error) {
		return nil, io.EOF
	}
	if _, wrapped := withTracing(streaming, c.Tracer, "gateway").(lambda.Handler); wrapped {
		t.Error("withTracing(a streaming handler) wraps it, want it unchanged, so that the first byte is sent early")
	}
	if _, wrapped := withTracing(func() error { return nil }, nil, "x").(lambda.Handler); wrapped {
		t.Error("withTracing(no tracer) wraps the handler, want it unchanged")
	}
}

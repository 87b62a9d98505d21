package cloud

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"

	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/telemetry"
	"github.com/gatewright/gatewright/shared/telemetry/telemetrytest"
)

// TestSpansAreSentBeforeAnInvocationEnds looks at what has arrived once the
// handler has answered, and asks for nothing more to be sent.
func TestSpansAreSentBeforeAnInvocationEnds(t *testing.T) {
	within := func(ctx context.Context) {
		_, span := telemetry.Child(ctx, "store.Read")
		span.End(false)
	}
	for name, tc := range map[string]struct {
		handler func(c *telemetrytest.Collector) any
		fails   bool
		want    []string
	}{
		"of a route": {func(c *telemetrytest.Collector) any {
			return api.Edge(func(ctx context.Context, _ events.APIGatewayProxyRequest) (events.APIGatewayProxyResponse, error) {
				ctx, span := c.Start(ctx, "Things_read", nil)
				within(ctx)
				span.End(false)
				return events.APIGatewayProxyResponse{StatusCode: 200}, nil
			})
		}, false, []string{"Things_read", "store.Read"}},
		"of an event": {func(*telemetrytest.Collector) any {
			return func(ctx context.Context, _ events.S3Event) error {
				within(ctx)
				return nil
			}
		}, false, []string{"builder", "store.Read"}},
		"of one that fails": {func(*telemetrytest.Collector) any {
			return func(context.Context, events.S3Event) error { return errors.New("the cause") }
		}, true, []string{"builder"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := telemetrytest.New(t)
			h, ok := traced(tc.handler(c), c.Tracer, "builder").(lambda.Handler)
			if !ok {
				t.Fatal("the handler is not wrapped")
			}
			if _, err := h.Invoke(t.Context(), []byte(`{}`)); (err != nil) != tc.fails {
				t.Fatal(err)
			}
			if len(c.Requests()) != 1 {
				t.Errorf("%d requests to the collector", len(c.Requests()))
			}
			spans, _ := c.Spans(t)
			if len(spans) != len(tc.want) {
				t.Fatalf("%d spans", len(spans))
			}
			for i, s := range spans {
				if s.GetName() != tc.want[i] || tc.fails != (s.GetStatus().GetCode() == 2) {
					t.Errorf("span %d is %v", i, s)
				}
			}
		})
	}
}

func TestAStreamingHandlerKeepsItsStream(t *testing.T) {
	c := telemetrytest.New(t)
	streaming := func(context.Context, events.APIGatewayProxyRequest) (*events.APIGatewayProxyStreamingResponse, error) {
		return nil, io.EOF
	}
	if _, wrapped := traced(streaming, c.Tracer, "gateway").(lambda.Handler); wrapped {
		t.Error("its answer would be read to its end before the first byte is sent")
	}
	if _, wrapped := traced(func() error { return nil }, nil, "x").(lambda.Handler); wrapped {
		t.Error("a handler is wrapped though nothing is traced")
	}
}

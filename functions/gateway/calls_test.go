package gateway_test

import (
	"context"
	"io"
	"net/http"
	"testing"

	"github.com/aws/aws-lambda-go/events"

	"github.com/gatewright/gatewright/functions/gateway"
	"github.com/gatewright/gatewright/shared/management/api"
	"github.com/gatewright/gatewright/shared/resource/analytics/counts"
)

// countedCalls returns the number of calls that gateways have written to the table.
func (fx *quotaFixture) countedCalls() (n int64) {
	fx.Helper()
	got, err := counts.NewReader(fx.parts.Table, fx.parts.Now).Statuses(fx.Context(), shopName, counts.LastHour,
		counts.Callers{All: true})
	fx.must(err)
	for _, c := range got.Totals {
		n += c.Calls
	}
	return n
}

// TestShutdownWritesCallCounts checks that Drain and the end of Run write the counts of all calls to the table.
func TestShutdownWritesCallCounts(t *testing.T) {
	s := newQuotaFixture(t, 1000)
	first, second := s.gateway(), s.gateway()
	for i := range 50 {
		s.send([]http.Handler{first, second}[i%2], http.MethodGet, "")
	}
	if n := s.countedCalls(); n != 0 {
		t.Errorf("countedCalls() before the shutdown = %d, want 0", n)
	}
	s.must(first.Drain(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	second.Run(ctx)
	if n := s.countedCalls(); n != 50 {
		t.Errorf("countedCalls() after the shutdown = %d, want 50", n)
	}
}

// TestInvocationWritesCallCounts checks that invocations write their counts before they end, with and without
// streaming, because nothing runs between two invocations. It makes only a few invocations: after a burst of writes,
// not every invocation writes its counts.
func TestInvocationWritesCallCounts(t *testing.T) {
	event := events.APIGatewayProxyRequest{
		HTTPMethod: http.MethodGet, Path: "/nowhere",
		MultiValueHeaders: map[string][]string{"Host": {shopName + ".gateway.test"}},
	}
	for name, invoke := range map[string]func(*quotaFixture, http.Handler) int{
		"whole responses": func(s *quotaFixture, g http.Handler) int {
			resp, err := gateway.Edge(s.parts, g)(t.Context(), event)
			s.must(err)
			return resp.StatusCode
		},
		"streams": func(s *quotaFixture, g http.Handler) int {
			resp, err := gateway.Stream(s.parts, g)(t.Context(), event)
			s.must(err)
			_, err = io.Copy(io.Discard, resp.Body)
			s.must(err)
			return resp.StatusCode
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newQuotaFixture(t, 1000)
			g := s.gateway()
			for i := range int64(5) {
				if status := invoke(s, g); status != http.StatusNotFound {
					t.Fatalf("invocation %d: status = %d, want 404", i, status)
				}
				if n := s.countedCalls(); n != i+1 {
					t.Errorf("countedCalls() after %d invocations = %d, want as many", i+1, n)
				}
			}
		})
	}
}

// TestLambdaShutdownWritesCallCounts checks that the shutdown of a Lambda's process writes the counts that were not
// written yet. The invocations here only write the counts of the first 10 requests.
func TestLambdaShutdownWritesCallCounts(t *testing.T) {
	s := newQuotaFixture(t, 1000)
	handler, shutdown, err := gateway.OpenWithShutdown(s.parts)
	s.must(err)
	edge, ok := handler.(api.LambdaHandler)
	if !ok {
		t.Fatalf("OpenWithShutdown() = %T, want api.Edge", handler)
	}
	for range 60 {
		_, err := edge(t.Context(), events.APIGatewayProxyRequest{
			HTTPMethod: http.MethodGet, Path: "/nowhere",
			MultiValueHeaders: map[string][]string{"Host": {shopName + ".gateway.test"}},
		})
		s.must(err)
	}
	if n := s.countedCalls(); n != 10 {
		t.Errorf("countedCalls() after a burst = %d, want the first 10", n)
	}
	shutdown(t.Context())
	if n := s.countedCalls(); n != 60 {
		t.Errorf("countedCalls() after the shutdown = %d, want 60", n)
	}
}

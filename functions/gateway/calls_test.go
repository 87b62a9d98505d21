package gateway_test

import (
	"context"
	"io"
	"net/http"
	"testing"

	"github.com/aws/aws-lambda-go/events"

	"github.com/gatewright/gatewright/functions/gateway"
	"github.com/gatewright/gatewright/shared/analytics/counts"
	"github.com/gatewright/gatewright/shared/api"
)

// counted says how many calls there are to read.
func (s *shop) counted() (n int64) {
	s.Helper()
	got, err := counts.NewReader(s.parts.Table, s.parts.Now).Statuses(s.Context(), shopName, counts.LastHour, counts.Callers{All: true})
	s.must(err)
	for _, c := range got.Totals {
		n += c.Calls
	}
	return n
}

// TestGatewayWritesItsCallsBeforeItEnds: with its last requests answered, all of them are there to read.
func TestGatewayWritesItsCallsBeforeItEnds(t *testing.T) {
	s := newShop(t, 1000)
	one, other := s.gateway(), s.gateway()
	for i := range 50 {
		s.ask([]http.Handler{one, other}[i%2], http.MethodGet, "")
	}
	if n := s.counted(); n != 0 {
		t.Errorf("%d calls are written one by one", n)
	}
	s.must(one.Drain(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	other.Run(ctx)
	if n := s.counted(); n != 50 {
		t.Errorf("%d calls are counted, of 50", n)
	}
}

// TestLambdaWritesItsCallsBeforeItIsFrozen, on both roads: nothing goes on between two invocations.
func TestLambdaWritesItsCallsBeforeItIsFrozen(t *testing.T) {
	event := events.APIGatewayProxyRequest{
		HTTPMethod: http.MethodGet, Path: "/nowhere", MultiValueHeaders: map[string][]string{"Host": {shopName + ".gateway.test"}},
	}
	for name, invoke := range map[string]func(*shop, http.Handler) int{
		"whole answers": func(s *shop, g http.Handler) int {
			answer, err := gateway.Edge(s.parts, g)(t.Context(), event)
			s.must(err)
			return answer.StatusCode
		},
		"streams": func(s *shop, g http.Handler) int {
			answer, err := gateway.Stream(s.parts, g)(t.Context(), event)
			s.must(err)
			_, err = io.Copy(io.Discard, answer.Body)
			s.must(err)
			return answer.StatusCode
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShop(t, 1000)
			g := s.gateway()
			for i := range int64(5) {
				if status := invoke(s, g); status != http.StatusNotFound {
					t.Fatalf("answered %d", status)
				}
				if n := s.counted(); n != i+1 {
					t.Errorf("after %d invocations %d calls are counted", i+1, n)
				}
			}
		})
	}
}

// TestLambdaWritesItsCallsWhenItIsAskedToEnd: what was left of a burst is not lost with the sandbox.
func TestLambdaWritesItsCallsWhenItIsAskedToEnd(t *testing.T) {
	s := newShop(t, 1000)
	handler, end, err := gateway.OpenEnding(s.parts)
	s.must(err)
	edge, ok := handler.(api.Edge)
	if !ok {
		t.Fatalf("the handler is %T", handler)
	}
	for range 60 {
		_, err := edge(t.Context(), events.APIGatewayProxyRequest{
			HTTPMethod: http.MethodGet, Path: "/nowhere", MultiValueHeaders: map[string][]string{"Host": {shopName + ".gateway.test"}},
		})
		s.must(err)
	}
	if n := s.counted(); n != 10 {
		t.Errorf("of a burst %d are written one by one, want the first 10", n)
	}
	end(t.Context())
	if n := s.counted(); n != 60 {
		t.Errorf("in the end %d calls are counted, of 60", n)
	}
}

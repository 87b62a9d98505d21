package apigateway_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/events"

	"github.com/gatewright/gatewright/local/apigateway"
	"github.com/gatewright/gatewright/shared/base/bodies"
	"github.com/gatewright/gatewright/shared/management/api"
)

// TestBodiesHaveABudget checks that a request gets a 503 with Retry-After, without a call of the function, if there
// is not enough memory for its body. Of a body that is too large, the function gets one byte more than the maximum.
func TestBodiesHaveABudget(t *testing.T) {
	type in struct{ Body struct{ Text string } }
	var got string
	g := newGatewayFor(t, fakeAuthenticator{}, apigateway.Function{
		Group: api.Group{Name: "things", Operations: []api.AnyOperation{
			api.Operation[in, api.NoContent]{ID: "tell", Method: http.MethodPut, Path: "/things", Public: true},
		}},
		Edge: func(_ context.Context, e events.APIGatewayProxyRequest) (events.APIGatewayProxyResponse, error) {
			got = e.Body
			return events.APIGatewayProxyResponse{StatusCode: http.StatusOK}, nil
		},
	})
	const share = 8 << 20 // of one client: a quarter of the budget
	b, client := bodies.New(4*share), netip.MustParseAddr("192.0.2.1")
	put := func(size int) *http.Response {
		got = ""
		r, end := b.Begin(httptest.NewRequestWithContext(t.Context(), http.MethodPut, "/things",
			strings.NewReader(strings.Repeat("x", size))), client, func() {})
		defer end()
		w := httptest.NewRecorder()
		g.ServeHTTP(w, r)
		return w.Result()
	}
	filler, end := b.Begin(httptest.NewRequestWithContext(t.Context(), http.MethodPut, "/", nil), client, func() {})
	if err := bodies.Reserve(filler.Context(), share/4*3); err != nil {
		t.Fatal(err)
	}
	if r := put(10); r.StatusCode != http.StatusServiceUnavailable || r.Header.Get("Retry-After") != "1" || got != "" {
		t.Errorf("PUT(no memory left) status = %d, Retry-After %q, function gets %q, want 503, 1 and nothing",
			r.StatusCode, r.Header.Get("Retry-After"), got)
	}
	end()
	for size, want := range map[int]int{10: 10, api.MaxBodyBytes: api.MaxBodyBytes, 9 << 20: api.MaxBodyBytes + 1} {
		if r := put(size); r.StatusCode != http.StatusOK || len(got) != want {
			t.Errorf("PUT(%d bytes) status = %d, function gets %d bytes, want 200 and %d", size, r.StatusCode, len(got), want)
		}
	}
	if reserved := b.InUse(); reserved != 0 {
		t.Errorf("InUse() after all requests = %d, want 0", reserved)
	}
}

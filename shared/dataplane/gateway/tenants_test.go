package gateway_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/dataplane/gateway"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/upstream"
	"github.com/gatewright/gatewright/shared/format/project"
)

// TestAccountConcurrencyIsLimited checks that a request is refused with a problem that names the limit, if its account
// has reached its limit of requests in flight. Requests of another account are served. When a client of the first
// account has disconnected, the account's next request is served.
func TestAccountConcurrencyIsLimited(t *testing.T) {
	arrived, release := make(chan struct{}), make(chan struct{})
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			arrived <- struct{}{}
			select {
			case <-release:
			case <-r.Context().Done():
			}
		}
	}))
	defer backend.Close()
	forward := func(path string) project.Route { return route("GET "+path, rewrite(backend.URL+path)) }
	h := newFixture(t, artifact(forward("/slow"), forward("/fast")), func(c *gateway.Config, _ *upstream.Options) {
		c.MaxConcurrentRequests = 2
	})
	other := artifact(forward("/fast"))
	other.Identity.AccountID, other.Identity.Deployment = "a2", "other-main-1234567"
	h.deployments["other.test"] = &gateway.Deployment{Digest: "two", Artifact: other}
	send := func(ctx context.Context, host, path string) (int, http.Header, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, h.URL+path, http.NoBody)
		if err != nil {
			t.Error(err)
			return 0, nil, ""
		}
		r.Host = host
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			return 0, nil, err.Error()
		}
		defer func() { _ = response.Body.Close() }()
		body, _ := io.ReadAll(response.Body)
		return response.StatusCode, response.Header, string(body)
	}
	firstContext, disconnect := context.WithCancel(t.Context())
	done := make(chan struct{}, 2)
	for _, ctx := range []context.Context{firstContext, t.Context()} {
		go func() { send(ctx, "shop.test", "/slow"); done <- struct{}{} }()
		<-arrived
	}
	status, header, body := send(t.Context(), "shop.test", "/fast")
	if status != http.StatusTooManyRequests || header.Get("Retry-After") != "1" ||
		!strings.Contains(body, "The account has 2 requests under way at one gateway process, and its limit "+
			"gateway-requests is 2.") {
		t.Errorf("GET at shop.test, third request: status = %d, header = %v, body = %s, want 429 with Retry-After: 1 and "+
			"the limit",
			status, header, body)
	}
	if status, _, body := send(t.Context(), "other.test", "/fast"); status != http.StatusOK {
		t.Errorf("GET /fast at other.test: status = %d, body = %s, want 200", status, body)
	}
	disconnect()
	<-done
	for status = 0; status != http.StatusOK; { // until the gateway has detected the disconnect
		if status, _, body = send(t.Context(), "shop.test", "/fast"); status != http.StatusOK &&
			status != http.StatusTooManyRequests {
			t.Fatalf("GET /fast at shop.test after a disconnect: status = %d, body = %s, want 200 or 429", status, body)
		}
	}
	close(release)
	<-done
}

package gateway_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/gateway"
	"github.com/gatewright/gatewright/shared/gateway/upstream"
	"github.com/gatewright/gatewright/shared/project"
)

// TestOneAccountDoesNotTakeAllOfAProcess: with as many requests under way as an account may have, one more is refused, by a
// problem that names the limit; another account's is answered, and the account's own as soon as one has ended, also
// where its client has gone.
func TestOneAccountDoesNotTakeAllOfAProcess(t *testing.T) {
	arrived, answer := make(chan struct{}), make(chan struct{})
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			arrived <- struct{}{}
			select {
			case <-answer:
			case <-r.Context().Done():
			}
		}
	}))
	defer up.Close()
	forward := func(path string) project.Route { return route("GET "+path, rewrite(up.URL+path)) }
	h := newHouse(t, artifact(forward("/slow"), forward("/fast")), func(c *gateway.Config, _ *upstream.Options) { c.RequestsAtOnce = 2 })
	other := artifact(forward("/fast"))
	other.Identity.AccountID, other.Identity.Deployment = "a2", "other-main-1234567"
	h.deployments["other.test"] = &gateway.Deployment{Digest: "two", Artifact: other}
	ask := func(ctx context.Context, host, path string) (int, http.Header, string) {
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
	gone, leave := context.WithCancel(t.Context())
	ended := make(chan struct{}, 2)
	for _, ctx := range []context.Context{gone, t.Context()} {
		go func() { ask(ctx, "shop.test", "/slow"); ended <- struct{}{} }()
		<-arrived
	}
	status, header, body := ask(t.Context(), "shop.test", "/fast")
	if status != http.StatusTooManyRequests || header.Get("Retry-After") != "1" || !strings.Contains(body, "The account has 2 requests under way at one gateway process, and its limit gateway-requests is 2.") {
		t.Errorf("a third is answered %d, %v, %s", status, header, body)
	}
	if status, _, body := ask(t.Context(), "other.test", "/fast"); status != http.StatusOK {
		t.Errorf("another account's is answered %d, %s", status, body)
	}
	leave()
	<-ended
	for status = 0; status != http.StatusOK; { // until the gateway has seen that the client is gone
		if status, _, body = ask(t.Context(), "shop.test", "/fast"); status != http.StatusOK && status != http.StatusTooManyRequests {
			t.Fatalf("after one has gone: %d, %s", status, body)
		}
	}
	close(answer)
	<-ended
}

package gateway_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gatewright/gatewright/shared/dataplane/gateway"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/upstream"
	"github.com/gatewright/gatewright/shared/format/credential"
	"github.com/gatewright/gatewright/shared/format/project"
)

// newLoopFixture returns a fixture for projects whose upstream is the fixture's
// own address. resolved is the number of requests for which the gateway has looked up a deployment.
func newLoopFixture(t *testing.T) (h *fixture, resolved *atomic.Int64) {
	counting := &countingDeployments{fakeDeployments: fakeDeployments{}}
	h = newFixture(t, nil, func(c *gateway.Config, _ *upstream.Options) { c.Deployments = counting })
	h.deployments = counting.fakeDeployments
	return h, &counting.resolved
}

// deploy makes the fixture serve an artifact at shop.test and at 127.0.0.1.
func (fx *fixture) deploy(a *project.Artifact) {
	fx.deployments["shop.test"] = &gateway.Deployment{Digest: "one", Artifact: a}
	fx.deployments["127.0.0.1"] = fx.deployments["shop.test"]
}

// countingDeployments counts the calls of Resolve in resolved.
type countingDeployments struct {
	fakeDeployments
	resolved atomic.Int64
}

func (c *countingDeployments) Resolve(ctx context.Context, host string) (*gateway.Deployment, error) {
	c.resolved.Add(1)
	return c.fakeDeployments.Resolve(ctx, host)
}

// TestLoopIsDetected checks that a request to a project whose upstream is its own address ends when it has
// passed the gateway eight times. Without the limit, such a request took 8,900 file descriptors.
func TestLoopIsDetected(t *testing.T) {
	h, resolved := newLoopFixture(t)
	h.deploy(artifact(route("GET /x", forward(h.URL)), route("POST /x", forward(h.URL))))
	for name, modify := range map[string]func(*http.Request){
		"no body": func(*http.Request) {},
		"a body": func(r *http.Request) {
			r.Method, r.Body, r.ContentLength = "POST", io.NopCloser(strings.NewReader("body")), -1
		},
		"Via in Connection":   header("Connection", "Via, X-Forwarded-For, close"),
		"an unclosed comment": header("Via", "1.1 x ("),
		"a key in Via":        header("Via", "1.1 "+newKey(credential.ConsumerKey)),
		"a switch of protocol": func(r *http.Request) {
			r.Header["Connection"], r.Header["Upgrade"] = []string{"Upgrade"}, []string{"websocket"}
		},
	} {
		before := resolved.Load()
		response := h.do(t, "GET", "/x", modify)
		// The problem comes from the ninth gateway, through the eight others.
		if got := body(t, response); response.StatusCode != http.StatusLoopDetected ||
			!strings.Contains(got, `"title":"Loop Detected"`) || !strings.Contains(got, "passed 8 gateways") {
			t.Errorf("%s: status = %d, body = %s, want 508, Loop Detected and 8 gateways", name, response.StatusCode, got)
		}
		if n := resolved.Load() - before; n != 9 {
			t.Errorf("%s: look-ups of a deployment = %d, want 9", name, n)
		}
	}
	// Other proxies in Via do not count.
	if p := problemOf(t,
		h.do(t, "GET", "/none", header("Via", strings.Repeat("1.1 other, ", 100)))); p.Status != http.StatusNotFound {
		t.Errorf("GET /none with 100 other proxies in Via: status = %d, want 404", p.Status)
	}
}

// TestAtMostEightHops checks that the eighth gateway forwards a request, and that the ninth refuses it.
func TestAtMostEightHops(t *testing.T) {
	backend := serve(t, func(w http.ResponseWriter, r *http.Request) {
		writef(w, "%s", strings.Join(r.Header["Via"], "|"))
	})
	h := newFixture(t, artifact(route("GET /x", forward(backend.URL))))
	for via, want := range map[string]string{
		"": "1.1 gatewright", "1.0 fred": "1.0 fred|1.1 gatewright",
		strings.Repeat("1.1 gatewright,", 7): strings.Repeat("1.1 gatewright,", 7) + "|1.1 gatewright",
		strings.Repeat("1.1 gatewright,", 8): "",
	} {
		response := h.do(t, "GET", "/x", func(r *http.Request) {
			if via != "" {
				r.Header["Via"] = []string{via}
			}
		})
		if got := body(t, response); want != "" && got != want ||
			(want == "") != (response.StatusCode == http.StatusLoopDetected) {
			t.Errorf("Via %q: status = %d, body = %q, want %q (508 if empty)", via, response.StatusCode, got, want)
		}
		if response.Header["Via"] != nil {
			t.Errorf("response header Via = %q, want none", response.Header["Via"])
		}
	}
	_, conn := sendRaw(t, h.URL, "GET /x HTTP/1.0\r\nHost: shop.test\r\n\r\n")
	if all, err := io.ReadAll(conn); err != nil || !strings.HasSuffix(string(all), "\r\n1.0 gatewright") {
		t.Errorf("GET /x with HTTP/1.0: response = %s, %v, want Via 1.0 gatewright at the upstream", all, err)
	}
}

// TestLoopThroughRedirectsIsDetected checks that a loop is detected if the
// upstream redirects to the gateway. For that, Via must be sent to every origin.
func TestLoopThroughRedirectsIsDetected(t *testing.T) {
	var gatewayURL atomic.Value
	backend := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, fmt.Sprint(gatewayURL.Load())+"/x", http.StatusFound)
	})
	h, resolved := newLoopFixture(t)
	h.deploy(artifact(route("GET /x", component("urlForwardHandler",
		map[string]any{"baseUrl": backend.URL, "followRedirects": true}))))
	gatewayURL.Store(h.URL)
	if response := h.do(t, "GET", "/x"); response.StatusCode != http.StatusLoopDetected {
		t.Errorf("GET /x with a redirect to the gateway: status = %d, want 508", response.StatusCode)
	}
	if n := resolved.Load(); n != 9 {
		t.Errorf("GET /x with a redirect to the gateway: look-ups of a deployment = %d, want 9", n)
	}
}

package gateway_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gatewright/gatewright/shared/credential"
	"github.com/gatewright/gatewright/shared/gateway"
	"github.com/gatewright/gatewright/shared/gateway/upstream"
	"github.com/gatewright/gatewright/shared/project"
)

// loop is a house that its own address leads to, and counts what it is asked.
func loop(t *testing.T) (h *house, asked *atomic.Int64) {
	counting := &countingDeployments{fakeDeployments: fakeDeployments{}}
	h = newHouse(t, nil, func(c *gateway.Config, _ *upstream.Options) { c.Deployments = counting })
	h.deployments = counting.fakeDeployments
	return h, &counting.asked
}

// serve has a loop's house serve an artifact, by name and by address.
func (h *house) serve(a *project.Artifact) {
	h.deployments["shop.test"] = &gateway.Deployment{Digest: "one", Artifact: a}
	h.deployments["127.0.0.1"] = h.deployments["shop.test"]
}

type countingDeployments struct {
	fakeDeployments
	asked atomic.Int64
}

func (c *countingDeployments) Resolve(ctx context.Context, host string) (*gateway.Deployment, error) {
	c.asked.Add(1)
	return c.fakeDeployments.Resolve(ctx, host)
}

// TestALoopEnds: a project whose upstream is its own address. One request once
// took 8,900 descriptors.
func TestALoopEnds(t *testing.T) {
	h, asked := loop(t)
	h.serve(artifact(route("GET /x", forward(h.URL)), route("POST /x", forward(h.URL))))
	for name, set := range map[string]func(*http.Request){
		"plain": func(*http.Request) {},
		"a body": func(r *http.Request) {
			r.Method, r.Body, r.ContentLength = "POST", io.NopCloser(strings.NewReader("body")), -1
		},
		"Via listed":          header("Connection", "Via, X-Forwarded-For, close"),
		"an unclosed comment": header("Via", "1.1 x ("),
		"a key in Via":        header("Via", "1.1 "+newKey(credential.ConsumerKey)),
		"a switch of protocol": func(r *http.Request) {
			r.Header["Connection"], r.Header["Upgrade"] = []string{"Upgrade"}, []string{"websocket"}
		},
	} {
		before := asked.Load()
		response := h.do(t, "GET", "/x", set)
		// The document is the innermost gateway's, the request's id the outermost's.
		if got := body(t, response); response.StatusCode != http.StatusLoopDetected || !strings.Contains(got, `"title":"Loop Detected"`) || !strings.Contains(got, "passed 8 gateways") {
			t.Errorf("%s: got %d %s", name, response.StatusCode, got)
		}
		if n := asked.Load() - before; n != 9 {
			t.Errorf("%s: %d requests", name, n)
		}
	}
	// Others who stand between are no passes.
	if p := problemOf(t, h.do(t, "GET", "/none", header("Via", strings.Repeat("1.1 other, ", 100)))); p.Status != http.StatusNotFound {
		t.Errorf("got %d", p.Status)
	}
}

// TestPassesEndAtEight: the eighth gateway still sends a request on, the ninth does not.
func TestPassesEndAtEight(t *testing.T) {
	up := serve(t, func(w http.ResponseWriter, r *http.Request) { say(w, "%s", strings.Join(r.Header["Via"], "|")) })
	h := newHouse(t, artifact(route("GET /x", forward(up.URL))))
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
		if got := body(t, response); want != "" && got != want || (want == "") != (response.StatusCode == http.StatusLoopDetected) {
			t.Errorf("%q: got %d %q", via, response.StatusCode, got)
		}
		if response.Header["Via"] != nil {
			t.Error("the answer has a Via, which is the request's matter")
		}
	}
	_, conn := raw(t, h.URL, "GET /x HTTP/1.0\r\nHost: shop.test\r\n\r\n")
	if all, err := io.ReadAll(conn); err != nil || !strings.HasSuffix(string(all), "\r\n1.0 gatewright") {
		t.Errorf("an old client's: %s (%v)", all, err)
	}
}

// TestALoopThroughRedirectsEndsToo: an upstream that sends the gateway back to
// itself. Via has to go along to whatever origin.
func TestALoopThroughRedirectsEndsToo(t *testing.T) {
	var gatewayURL atomic.Value
	up := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, fmt.Sprint(gatewayURL.Load())+"/x", http.StatusFound)
	})
	h, asked := loop(t)
	h.serve(artifact(route("GET /x", component("urlForwardHandler", map[string]any{"baseUrl": up.URL, "followRedirects": true}))))
	gatewayURL.Store(h.URL)
	if response := h.do(t, "GET", "/x"); response.StatusCode != http.StatusLoopDetected {
		t.Errorf("got %d", response.StatusCode)
	}
	if n := asked.Load(); n != 9 {
		t.Errorf("%d requests", n)
	}
}

package gateway_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gatewright/gatewright/shared/analytics"
	"github.com/gatewright/gatewright/shared/gateway"
	"github.com/gatewright/gatewright/shared/gateway/policy"
	"github.com/gatewright/gatewright/shared/gateway/upstream"
)

// calls are those that were counted.
type calls struct {
	mu  sync.Mutex
	all []analytics.Call
}

func (c *calls) Call(call analytics.Call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, call)
}

// statuses are what was counted, sorted.
func (c *calls) statuses() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []string
	for _, call := range c.all {
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s %d %s", call.Method, call.Route, call.Status, call.Consumer)))
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

// TestCallsOfAnMCPServerAreCounted: each is a request of the route that it goes to, by the consumer whose key the
// server's route has accepted, beside the message that asked for it; what never became a request is none.
func TestCallsOfAnMCPServerAreCounted(t *testing.T) {
	counted := &calls{}
	w := newMCPWorld(t, func(c *gateway.Config, _ *upstream.Options) { c.Calls = counted })
	key := header("Authorization", "Bearer good")
	w.tool(t, "/keyed/mcp", "whoAmI", `{}`, key)
	w.tool(t, "/keyed/mcp", "limited", `{}`, key)
	w.tool(t, "/keyed/mcp", "limited", `{}`, key) // over its limit
	w.tool(t, "/keyed/mcp", "nothing", `{}`, key)
	w.call(t, "/keyed/mcp", "tools/list", `{}`, key)
	w.call(t, "/keyed/mcp", "resources/read", `{"uri":"mcp://resources/guide"}`, key)
	w.tool(t, "/mcp", "readTodo", `{"id":7}`) // no argument that is taken
	w.Close()
	want := "GET /guide 200 acme\nGET /limited 200 acme\nGET /limited 429 acme\nGET /who 200 acme\n" +
		strings.Repeat("POST /keyed/mcp 200 acme\n", 6) + "POST /mcp 200"
	if got := counted.statuses(); got != want {
		t.Errorf("counted are\n%s\nwant\n%s", got, want)
	}
}

// TestEachRequestOfADeploymentIsCounted once, with the route and the status that it got and the consumer whose key it had, and no other request:
// neither the gateway's own routes nor hosts without a deployment.
func TestEachRequestOfADeploymentIsCounted(t *testing.T) {
	up := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/half" {
			w.Header().Set("Content-Length", "100000")
		}
		say(w, "%s", strings.Repeat("x", 50_000))
	})
	a := artifact(route("GET /todos/{id}", forward(up.URL), "key"), route("GET /half", forward(up.URL)), route("POST /gone", forward("http://127.0.0.1:1")))
	declare(a, "key", "api-key-inbound", map[string]any{"bucketName": "b"})
	counted := &calls{}
	h := newHouse(t, a, func(c *gateway.Config, _ *upstream.Options) { c.Calls = counted })
	h.keys.known = map[string]policy.Identity{"b good": {Sub: "acme"}}
	for _, request := range []string{
		"GET /todos/1?q=1 HTTP/1.1\r\nHost: shop.test\r\nAuthorization: Bearer good",
		"GET /todos/1 HTTP/1.1\r\nHost: shop.test\r\nAuthorization: Bearer bad",
		"GET /half HTTP/1.1\r\nHost: shop.test",
		"POST /gone HTTP/1.1\r\nHost: shop.test\r\nContent-Length: 0",
		"GET /nowhere HTTP/1.1\r\nHost: shop.test",
		"DELETE /half HTTP/1.1\r\nHost: shop.test",
		"GET /__gatewright/build HTTP/1.1\r\nHost: shop.test",
		"GET /__gatewright/none HTTP/1.1\r\nHost: shop.test",
		"GET /%00 HTTP/1.1\r\nHost: shop.test",
		"GET /..;/x HTTP/1.1\r\nHost: shop.test",
		"GET /..;/x HTTP/1.1\r\nHost: other.test",
		"GET /half HTTP/1.1\r\nHost: other.test",
		"GET /half HTTP/1.1\r\nHost: broken.test",
	} {
		answer, _ := raw(t, h.URL, request+"\r\nConnection: close\r\n\r\n")
		_, _ = answer.WriteTo(&strings.Builder{})
	}
	h.Close()
	type seen struct {
		consumer, method, route string
		status                  int
	}
	var got []seen
	for _, c := range counted.all {
		got = append(got, seen{c.Consumer, c.Method, c.Route, c.Status})
		want := analytics.Deployment{AccountID: "a1", Project: "shop", Environment: "production", Name: "shop-main-1234567"}
		if c.Deployment != want || c.At.IsZero() {
			t.Errorf("counted is %+v", c)
		}
	}
	want := []seen{
		{"acme", "GET", "/todos/{id}", 200},
		{"", "GET", "/todos/{id}", 401},
		{"", "GET", "/half", 200},
		{"", "POST", "/gone", 502},
		{"", "GET", "", 404},
		{"", "DELETE", "", 405},
		{"", "GET", "", 400},
		{"", "GET", "", 400},
	}
	if !slices.Equal(got, want) {
		t.Errorf("counted are\n%v\nwant\n%v", got, want)
	}
}

// callsAsTheyCome hands each call on.
type callsAsTheyCome chan analytics.Call

func (c callsAsTheyCome) Call(call analytics.Call) { c <- call }

// TestARequestWhoseClientHasGoneIsCounted as one without an answer, and not as a failure of the upstream: before its head, and
// between its head and its first byte, which is waited for.
func TestARequestWhoseClientHasGoneIsCounted(t *testing.T) {
	asked := make(chan struct{})
	up := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/begun" {
			w.Header().Set("Content-Length", "7")
			_ = http.NewResponseController(w).Flush()
		}
		asked <- struct{}{}
		<-r.Context().Done()
	})
	counted := make(callsAsTheyCome, 1)
	h := newHouse(t, artifact(route("GET /slow", forward(up.URL)), route("GET /begun", forward(up.URL))), func(c *gateway.Config, _ *upstream.Options) { c.Calls = counted })
	for _, path := range []string{"/slow", "/begun"} {
		ctx, gone := context.WithCancel(t.Context())
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, h.URL+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		request.Host = "shop.test"
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			if response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request); err == nil {
				_ = response.Body.Close()
			}
		}()
		<-asked
		gone()
		if call := <-counted; call.Status != 499 || call.Route != path {
			t.Errorf("counted is %+v", call)
		}
		<-ended
	}
}

package gateway_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gatewright/gatewright/shared/dataplane/gateway"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/policy"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/upstream"
	"github.com/gatewright/gatewright/shared/resource/analytics"
)

// callRecorder records the calls that were counted.
type callRecorder struct {
	mu       sync.Mutex
	recorded []analytics.Call
}

func (c *callRecorder) Call(call analytics.Call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.recorded = append(c.recorded, call)
}

// lines returns a line for each counted call, with its method, route, status and consumer. The lines are sorted.
func (c *callRecorder) lines() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []string
	for _, call := range c.recorded {
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s %d %s", call.Method, call.Route, call.Status, call.Consumer)))
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

// TestMCPCallsAreCounted checks that a call is counted twice: as the request that contains the message, and as a
// request of the called route. Both counts name the consumer whose key the server's route has accepted. A call that
// does not become a request of a route is counted once.
func TestMCPCallsAreCounted(t *testing.T) {
	counted := &callRecorder{}
	fx := newMCPFixture(t, func(c *gateway.Config, _ *upstream.Options) { c.Calls = counted })
	key := header("Authorization", "Bearer good")
	fx.tool(t, "/keyed/mcp", "whoAmI", `{}`, key)
	fx.tool(t, "/keyed/mcp", "limited", `{}`, key)
	fx.tool(t, "/keyed/mcp", "limited", `{}`, key) // exceeds the rate limit of the route
	fx.tool(t, "/keyed/mcp", "nothing", `{}`, key) // an unknown tool
	fx.call(t, "/keyed/mcp", "tools/list", `{}`, key)
	fx.call(t, "/keyed/mcp", "resources/read", `{"uri":"mcp://resources/guide"}`, key)
	fx.tool(t, "/mcp", "readTodo", `{"id":7}`) // an invalid argument
	fx.Close()
	want := "GET /guide 200 acme\nGET /limited 200 acme\nGET /limited 429 acme\nGET /who 200 acme\n" +
		strings.Repeat("POST /keyed/mcp 200 acme\n", 6) + "POST /mcp 200"
	if got := counted.lines(); got != want {
		t.Errorf("counted calls =\n%s\nwant\n%s", got, want)
	}
}

// TestEachRequestOfADeploymentIsCounted checks that each request is counted once, with the route, the status, and the
// consumer of its key. Requests to the gateway's own routes are not counted. Requests to hosts without a deployment, or
// whose lookup fails, are not counted either.
func TestEachRequestOfADeploymentIsCounted(t *testing.T) {
	backend := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/half" {
			w.Header().Set("Content-Length", "100000")
		}
		writef(w, "%s", strings.Repeat("x", 50_000))
	})
	a := artifact(route("GET /todos/{id}", forward(backend.URL), "key"), route("GET /half", forward(backend.URL)),
		route("POST /unreachable", forward("http://127.0.0.1:1")))
	declare(a, "key", "api-key-inbound", map[string]any{"bucketName": "b"})
	counted := &callRecorder{}
	h := newFixture(t, a, func(c *gateway.Config, _ *upstream.Options) { c.Calls = counted })
	h.keys.known = map[string]policy.KeyOwner{"b good": {Sub: "acme"}}
	for _, request := range []string{
		"GET /todos/1?q=1 HTTP/1.1\r\nHost: shop.test\r\nAuthorization: Bearer good",
		"GET /todos/1 HTTP/1.1\r\nHost: shop.test\r\nAuthorization: Bearer bad",
		"GET /half HTTP/1.1\r\nHost: shop.test",
		"POST /unreachable HTTP/1.1\r\nHost: shop.test\r\nContent-Length: 0",
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
		reply, _ := sendRaw(t, h.URL, request+"\r\nConnection: close\r\n\r\n")
		_, _ = reply.WriteTo(&strings.Builder{})
	}
	h.Close()
	type countedCall struct {
		consumer, method, route string
		status                  int
	}
	var got []countedCall
	for _, c := range counted.recorded {
		got = append(got, countedCall{c.Consumer, c.Method, c.Route, c.Status})
		want := analytics.Deployment{AccountID: "a1", Project: "shop", Environment: "production", Name: "shop-main-1234567"}
		if c.Deployment != want || c.At.IsZero() {
			t.Errorf("counted call = %+v, want deployment %+v and a time", c, want)
		}
	}
	want := []countedCall{
		{"acme", "GET", "/todos/{id}", 200},
		{"", "GET", "/todos/{id}", 401},
		{"", "GET", "/half", 200},
		{"", "POST", "/unreachable", 502},
		{"", "GET", "", 404},
		{"", "DELETE", "", 405},
		{"", "GET", "", 400},
		{"", "GET", "", 400},
	}
	if !slices.Equal(got, want) {
		t.Errorf("counted calls =\n%v\nwant\n%v", got, want)
	}
}

// callChannel sends each call to a channel.
type callChannel chan analytics.Call

func (c callChannel) Call(call analytics.Call) { c <- call }

// TestDisconnectedRequestIsCounted checks the counted status of a request whose client disconnects before the upstream
// has sent the head of its response, or between this head and the first byte of the body. The request must not count as
// a failure of the upstream.
func TestDisconnectedRequestIsCounted(t *testing.T) {
	received := make(chan struct{})
	backend := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/head-sent" {
			w.Header().Set("Content-Length", "7")
			_ = http.NewResponseController(w).Flush()
		}
		received <- struct{}{}
		<-r.Context().Done()
	})
	counted := make(callChannel, 1)
	h := newFixture(t, artifact(route("GET /slow", forward(backend.URL)), route("GET /head-sent", forward(backend.URL))),
		func(c *gateway.Config, _ *upstream.Options) { c.Calls = counted })
	for _, path := range []string{"/slow", "/head-sent"} {
		ctx, cancel := context.WithCancel(t.Context())
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, h.URL+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		request.Host = "shop.test"
		done := make(chan struct{})
		go func() {
			defer close(done)
			if response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request); err == nil {
				_ = response.Body.Close()
			}
		}()
		<-received
		cancel()
		if call := <-counted; call.Status != 499 || call.Route != path {
			t.Errorf("counted call of a disconnected client = %+v, want status 499 and route %s", call, path)
		}
		<-done
	}
}

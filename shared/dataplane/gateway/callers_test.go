package gateway_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/format/project"
	"github.com/gatewright/gatewright/shared/testing/deadline"
)

// bcryptOfRight is a hash of the password "right".
const bcryptOfRight = "$2y$05$WixdUiemUrmusXXNReV8qunp1JNGRkaGrh/asl1inxG2CcRcRMYie"

// callerOptions returns options of the policies that check passwords and signatures, and count what callers do.
func callerOptions() []namedOptions {
	users := func(users string) string { return `{"users":[` + users + `]}` }
	hash := func(text string) namedOptions {
		return namedOptions{"basic-auth-inbound", users(`{"name":"ann","passwordHash":"` + text + `"}`)}
	}
	argon := func(parameters, salt string) namedOptions {
		return hash("$argon2id$v=19$" + parameters + "$" + salt + "$c29tZXNhbHRzb21lc2FsdA")
	}
	const salt = "c29tZXNhbHRzb21lc2FsdA"
	return []namedOptions{
		hash(bcryptOfRight),
		argon("m=65536,t=3,p=4", salt),
		{"basic-auth-inbound", `{}`},
		{"basic-auth-inbound", `{"users":[],"realm":"a\"b","maxFailuresPerMinute":1}`},
		{"basic-auth-inbound", users(`{"name":"a:b","passwordHash":""},{"name":"","passwordHash":"secret"},{"pass":1},` +
			`{"name":"a\n","passwordHash":"` + bcryptOfRight + `"},{"name":"a","passwordHash":"` + bcryptOfRight +
			`"},{"name":"a","passwordHash":"` + bcryptOfRight + `"}`)},
		hash("{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g="),
		hash("$apr1$TqI9WECO$LHZB2DqRlk9nObiB6vJG9."),
		hash(strings.Replace(bcryptOfRight, "$05$", "$31$", 1)),
		hash(strings.Replace(bcryptOfRight, "$05$", "$04$", 1)),
		hash(strings.Replace(bcryptOfRight, "$2y$", "$2x$", 1)),
		hash(bcryptOfRight[:59]),
		hash(bcryptOfRight[:59] + "!"),
		hash("$2"),
		hash("$argon2i$v=19$m=65536,t=3,p=4$" + salt + "$" + salt),
		hash("$argon2id$v=16$m=65536,t=3,p=4$" + salt + "$" + salt),
		hash("$argon2id$v=19$m=65536,t=3,p=4$" + salt),
		argon("m=4294967295,t=1,p=1", salt),
		argon("m=99999999999,t=1,p=1", salt),
		argon("m=8,t=1,p=1", salt),
		argon("m=65536,t=0,p=1", salt),
		argon("m=65536,t=11,p=1", salt),
		argon("m=65536,t=1,p=255", salt),
		argon("t=1,m=65536,p=1", salt),
		argon("m=65536,t=1,p=1", "c2FsdA"),
		argon("m=65536,t=1,p=1", "c2FsdA=="),
		{"webhook-signature-inbound", `{"scheme":"standard","secrets":["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]}`},
		{"webhook-signature-inbound", `{"scheme":"standard","secrets":["my secret!","whsec_AAAA"],"header":"X","prefix":"",` +
			`"idHeader":"X","maxBodyBytes":10485760}`},
		{"webhook-signature-inbound", `{"scheme":"hex","secrets":["long enough"],"idHeader":"Id","rejectReplays":true}`},
		{"webhook-signature-inbound", `{"scheme":"hex","secrets":[],"rejectReplays":true,"toleranceSeconds":60}`},
		{"webhook-signature-inbound", `{"scheme":"hex","secrets":["1","a long secret\n","a long secret","a long secret"],` +
			`"header":"Host","idHeader":"a b","toleranceSeconds":60,"prefix":"é"}`},
		{"webhook-signature-inbound", `{"scheme":"timestamped","secrets":["1","2","3","4","5","6"]}`},
		{"webhook-signature-inbound", `{"scheme":"timestamped","secrets":["$"],"maxBodyBytes":10485761,` +
			`"toleranceSeconds":0}`},
		{"abuse-inbound", `{"by":"ip","statuses":["401",404],"limit":5}`},
		{"abuse-inbound", `{"by":"user","maxConcurrent":"5"}`},
		{"abuse-inbound", `{"by":"all","statuses":[101],"limit":0,"windowMinutes":0,"maxConcurrent":0}`},
		{"abuse-inbound", `{"by":"ip"}`},
		{"abuse-inbound", `{"by":"ip","limit":5}`},
		{"abuse-inbound", `{"by":"ip","statuses":[401],"windowMinutes":1,"blockMinutes":1,"maxConcurrent":1}`},
	}
}

// TestPasswordsAreNotForwarded checks that the upstream gets the user and not the password, wherever the project sends
// the header.
func TestPasswordsAreNotForwarded(t *testing.T) {
	a := artifact(route("GET /x", rewrite(serve(t, headers).URL+"/${request.user.sub}"), "copy", "basic"))
	declare(a, "basic", "basic-auth-inbound",
		map[string]any{"users": []any{map[string]any{"name": "ann", "passwordHash": bcryptOfRight}}})
	declare(a, "copy", "set-headers-inbound",
		map[string]any{"headers": []any{map[string]any{"name": "X-Copy", "value": "${headers.authorization}"}}})
	h := newFixture(t, a)
	send := func(user *url.Userinfo) *http.Response {
		return h.do(t, "GET", "/x", func(r *http.Request) {
			password, _ := user.Password()
			r.SetBasicAuth(user.Username(), password)
		})
	}
	response := send(url.UserPassword("ann", "right"))
	if got := response.Header.Get("X-Path"); response.StatusCode != http.StatusOK || got != "/ann" {
		t.Fatalf("GET /x: status = %d, path = %s, want 200 and /ann", response.StatusCode, got)
	}
	for name := range headersOf(t, response) {
		if name == "Authorization" || name == "X-Copy" {
			t.Errorf("GET /x: the upstream got %s, want neither the header nor its copy", name)
		}
	}
	response = send(url.UserPassword("ann", "wrong"))
	if got := response.Header.Get("Www-Authenticate"); response.StatusCode != http.StatusUnauthorized ||
		!strings.HasPrefix(got, "Basic realm=") {
		t.Errorf("GET /x with a wrong password: status = %d, WWW-Authenticate = %q, want 401 and Basic",
			response.StatusCode, got)
	}
	if text := body(t, response); strings.Contains(text, "wrong\"") || strings.Contains(h.log.String(), "right") {
		t.Errorf("GET /x with a wrong password: body = %s, want no password", text)
	}
}

// TestRefusedPasswordsReadNoBody checks that a request with a wrong password is refused although its body never arrives.
func TestRefusedPasswordsReadNoBody(t *testing.T) {
	a := artifact(route("POST /x", rewrite(serve(t, headers).URL), "basic"))
	declare(a, "basic", "basic-auth-inbound",
		map[string]any{"users": []any{map[string]any{"name": "ann", "passwordHash": bcryptOfRight}}})
	h := newFixture(t, a)
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(h.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_, _ = fmt.Fprint(conn, "POST /x HTTP/1.1\r\nHost: shop.test\r\nContent-Length: 100\r\n"+
		"Authorization: Basic YW5uOndyb25n\r\n\r\nhalf")
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("POST /x with half a body: error = %v, want a response", err)
	}
	_, _ = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
	if response.StatusCode != http.StatusUnauthorized {
		t.Errorf("POST /x with half a body: status = %d, want 401", response.StatusCode)
	}
}

// TestRequestsInFlightAreReleased checks that a request of a caller counts until the end of its exchange, however it
// ends: its client disconnects, its response breaks off, or its connection has switched to another protocol.
func TestRequestsInFlightAreReleased(t *testing.T) {
	arrived := make(chan struct{})
	slow := serve(t, func(w http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		<-r.Context().Done()
	})
	broken := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100000")
		_, _ = io.WriteString(w, "part")
		panic(http.ErrAbortHandler)
	})
	a := artifact(route("GET /slow", rewrite(slow.URL), "abuse"), route("GET /broken", rewrite(broken.URL), "abuse"),
		route("GET /upgrade", forward(newSwitchingUpstream(t)), "abuse"),
		route("GET /x", rewrite(serve(t, headers).URL), "abuse"))
	declare(a, "abuse", "abuse-inbound", map[string]any{"by": "ip", "maxConcurrent": 1})
	h := newFixture(t, a)
	wantBusy := func(after string) {
		t.Helper()
		if response := h.do(t, "GET", "/x"); response.StatusCode != http.StatusTooManyRequests ||
			response.Header.Get("Retry-After") != "1" {
			t.Errorf("GET /x during %s: status = %d, Retry-After = %q, want 429 and 1", after, response.StatusCode,
				response.Header.Get("Retry-After"))
		}
	}
	// wantFree repeats a request until the gateway has noticed the end of the other one.
	wantFree := func(after string) {
		t.Helper()
		for end := time.Now().Add(deadline.Timeout()); h.do(t, "GET", "/x").StatusCode != http.StatusOK; {
			if time.Now().After(end) {
				t.Fatalf("GET /x after %s: no status 200, want one", after)
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		r, _ := http.NewRequestWithContext(ctx, http.MethodGet, h.URL+"/slow", http.NoBody)
		r.Host = "shop.test"
		if response, err := http.DefaultClient.Do(r); err == nil {
			_ = response.Body.Close()
		}
	}()
	<-arrived
	wantBusy("a request")
	cancel()
	wantFree("a canceled request")

	response := h.do(t, "GET", "/broken")
	_, _ = io.Copy(io.Discard, response.Body)
	wantFree("a response that broke off")

	r, conn := sendRaw(t, h.URL, "GET /upgrade HTTP/1.1\r\nHost: shop.test\r\nConnection: Upgrade\r\n"+
		"Upgrade: websocket\r\n\r\n")
	if response, err := http.ReadResponse(r, nil); err != nil || response.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("GET /upgrade = %v, %v, want 101", response, err)
	}
	wantBusy("a WebSocket")
	_ = conn.Close()
	wantFree("a WebSocket")
}

// TestUnsignedWebhooksReadNoBody checks that a message without a signature is refused although its body never arrives,
// and that a signed message reaches the upstream unchanged.
func TestUnsignedWebhooksReadNoBody(t *testing.T) {
	echo := serve(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	a := artifact(route("POST /x", rewrite(echo.URL), "webhook"))
	declare(a, "webhook", "webhook-signature-inbound",
		map[string]any{"scheme": "hex", "secrets": []string{"It's a Secret"}})
	h := newFixture(t, a)
	r, _ := sendRaw(t, h.URL, "POST /x HTTP/1.1\r\nHost: shop.test\r\nContent-Length: 100\r\n\r\nhalf")
	if response, err := http.ReadResponse(r, nil); err != nil || response.StatusCode != http.StatusUnauthorized {
		t.Errorf("POST /x with half a body and no signature = %v, %v, want 401", response, err)
	}
	const signature = "9d226f8be103ce7cc42f6354fd887c2e11b784817d56294d8770862311ca2880"
	response := h.do(t, "POST", "/x", header("X-Hub-Signature-256", "sha256="+signature), func(r *http.Request) {
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader("Hello, World!")), 13
	})
	if text := body(t, response); response.StatusCode != http.StatusOK || text != "Hello, World!" {
		t.Errorf("POST /x with a signature: status = %d, the upstream got %q, want 200 and the body",
			response.StatusCode, text)
	}
}

// TestToolsCountOnceInFlight checks that a call of an MCP tool counts once if the server and the route have the policy,
// that the route's own policy counts it, and that each call ends.
func TestToolsCountOnceInFlight(t *testing.T) {
	server := `"post":{"operationId":"%s","responses":{"200":{"description":"It"}},"x-gateway-route":{
		"policies":{"inbound":[%s]},"handler":{"export":"mcpServerHandler","module":"$import(@gatewright/runtime)",
		"options":{"operations":[{"file":"config/routes.oas.json","id":"look"}]}}}}`
	h := newFixture(t, built(t, project.Files{
		"config/routes.oas.json": []byte(`{"openapi":"3.1.0","info":{"title":"Shop","version":"1"},"paths":{
			"/both":{` + fmt.Sprintf(server, "both", `"busy"`) + `},"/open":{` + fmt.Sprintf(server, "open", "") + `},
			"/look":{"get":{"operationId":"look","responses":{"200":{"description":"It"}},"x-gateway-route":{
				"policies":{"inbound":["busy"]},"handler":{"export":"urlForwardHandler",
				"module":"$import(@gatewright/runtime)","options":{"baseUrl":"` + serve(t, headers).URL + `"}}}}}}}`),
		"config/policies.json": []byte(
			`{"policies":[{"name":"busy","policyType":"abuse-inbound","options":{"by":"ip","maxConcurrent":1}}]}`),
	}))
	const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"look","arguments":{}}}`
	for _, path := range []string{"/both", "/both", "/open", "/open", "/both"} {
		response := h.do(t, "POST", path, header("Content-Type", "application/json"),
			header("Accept", "application/json, text/event-stream"), func(r *http.Request) {
				r.Body, r.ContentLength = io.NopCloser(strings.NewReader(call)), int64(len(call))
			})
		if text := body(t, response); response.StatusCode != http.StatusOK || strings.Contains(text, `"isError":true`) {
			t.Errorf("POST %s: status = %d, body = %s, want the result of the tool", path, response.StatusCode, text)
		}
	}
}

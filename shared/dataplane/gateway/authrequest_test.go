package gateway_test

import (
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gatewright/gatewright/shared/dataplane/gateway/policy"
)

// TestAuthRequest checks what a request gets for each response of the service, and what the service and the upstream get.
func TestAuthRequest(t *testing.T) {
	var query atomic.Pointer[http.Request]
	service := serve(t, func(w http.ResponseWriter, r *http.Request) {
		query.Store(r)
		switch r.Header.Get("Authorization") {
		case "ok":
			w.Header().Set("X-Tenant", "acme")
			w.WriteHeader(http.StatusNoContent)
		case "bare":
			w.WriteHeader(http.StatusOK)
		case "forbidden":
			w.WriteHeader(http.StatusForbidden)
		case "redirect":
			http.Redirect(w, r, "/elsewhere", http.StatusFound)
		case "broken":
			panic(http.ErrAbortHandler)
		case "late":
			<-r.Context().Done() // until the gateway ends the request
		default:
			w.Header().Set("WWW-Authenticate", `Login realm="x"`)
			w.WriteHeader(http.StatusUnauthorized)
		}
	}).URL
	a := artifact(route("GET /x", forward(serve(t, headers).URL), "ask"))
	declare(a, "ask", "auth-request-inbound", map[string]any{
		"url": service + "/check?a=b", "sendHeaders": []string{"authorization", "x-more"},
		"copyHeaders": []string{"x-tenant"}, "timeoutSeconds": 30,
	})
	declare(a, "soon", "auth-request-inbound", map[string]any{"url": service, "timeoutSeconds": 0.1})
	a.Routes = append(a.Routes, route("GET /soon", forward("http://127.0.0.1:1"), "soon"))
	h := newFixture(t, a)
	for _, tt := range []struct {
		path, authorization string
		status              int
		challenge, tenant   string
	}{
		{"/x?q=1", "ok", 200, "", "acme"},
		{"/x?q=1", "bare", 200, "", ""},
		{"/x?q=1", "forbidden", 403, "", ""},
		{"/x?q=1", "wrong", 401, `Login realm="x"`, ""},
		{"/x?q=1", "redirect", 503, "", ""},
		{"/x?q=1", "broken", 503, "", ""},
		{"/soon", "late", 503, "", ""},
	} {
		response := h.do(t, "GET", tt.path, func(r *http.Request) {
			r.Header = http.Header{
				"Authorization": {tt.authorization}, "X-More": {"1"}, "Cookie": {"a=b"}, "X-Tenant": {"forged"},
				"X_tenant": {"forged"}, "X-Forwarded-Uri": {"/forged"},
			}
		})
		if got := response.Header.Get("WWW-Authenticate"); response.StatusCode != tt.status || got != tt.challenge {
			t.Errorf("GET %s with %s: status = %d, WWW-Authenticate = %q, want %d and %q", tt.path, tt.authorization,
				response.StatusCode, got, tt.status, tt.challenge)
		}
		if tt.path == "/x?q=1" {
			wantQuery(t, query.Load())
		}
		if tt.status != http.StatusOK {
			continue
		}
		got := headersOf(t, response)
		if text := strings.Join(slices.Concat(got["X-Tenant"], got["X_tenant"]), ","); text != tt.tenant {
			t.Errorf("GET %s with %s: X-Tenant at the upstream = %q, want %q", tt.path, tt.authorization, text, tt.tenant)
		}
	}
}

// wantQuery checks the request that the service got for GET /x?q=1.
func wantQuery(t *testing.T, r *http.Request) {
	t.Helper()
	if r.Method != http.MethodGet || r.URL.String() != "/check?a=b" {
		t.Errorf("request to the service = %s %s, want GET /check?a=b", r.Method, r.URL)
	}
	for name, want := range map[string]string{
		"X-More": "1", "Cookie": "", "X-Forwarded-Method": "GET", "X-Forwarded-Host": "shop.test",
		"X-Forwarded-Uri": "/x?q=1",
	} {
		if got := strings.Join(r.Header[name], ", "); got != want {
			t.Errorf("%s of the request to the service = %q, want %q", name, got, want)
		}
	}
}

// TestAuthRequestGetsNoKeys checks that the service does not get the API key of the request.
func TestAuthRequestGetsNoKeys(t *testing.T) {
	h, validKey := newKeyFixture(t, map[string]any{"bucketName": "my-bucket"})
	h.keys.known["my-bucket own-key"] = policy.KeyOwner{Sub: "acme"}
	a, query := h.deployments["shop.test"].Artifact, atomic.Pointer[http.Request]{}
	declare(a, "ask", "auth-request-inbound", map[string]any{
		"url":         serve(t, func(_ http.ResponseWriter, r *http.Request) { query.Store(r) }).URL,
		"sendHeaders": []string{"Authorization", "X-Other"},
	})
	a.Routes[0].Inbound = append(slices.Clone(a.Routes[0].Inbound), "ask")
	for _, key := range []string{validKey, "own-key"} {
		response := h.do(t, "GET", "/x?key="+key, header("Authorization", "Bearer "+key), header("X-Other", key))
		r := query.Swap(nil)
		if r == nil {
			t.Fatalf("GET /x: status = %d, the service was not query, want a request", response.StatusCode)
		}
		for name, values := range r.Header {
			if strings.Contains(strings.Join(values, " "), key) {
				t.Errorf("GET /x: the service got the key in %s, want no key", name)
			}
		}
	}
}

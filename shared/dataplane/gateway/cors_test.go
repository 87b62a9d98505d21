package gateway_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gatewright/gatewright/shared/format/project"
)

// corsHeaders returns the CORS headers of a response, by their names without Access-Control-, and Vary.
func corsHeaders(h http.Header) map[string]string {
	out := map[string]string{}
	for name, values := range h {
		if strings.HasPrefix(name, "Access-Control-") || name == "Vary" {
			out[strings.TrimPrefix(name, "Access-Control-")] = strings.Join(values, ", ")
		}
	}
	return out
}

// newCORSFixture returns a fixture with the routes GET and PUT at /none, /anything-goes, /shop and /open, which have
// the CORS policy of this name. POST /refused has the policy shop and requires a key, and OPTIONS /own is a route of
// the project. The upstream responds with CORS headers, too.
func newCORSFixture(t *testing.T) *fixture {
	t.Helper()
	backend := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", "https://upstream.example")
		w.Header().Set("Access-Control-Allow-Credentials", "true")
	})
	a := artifact()
	for _, name := range []string{"none", "anything-goes", "shop", "open"} {
		for _, method := range []string{"GET", "PUT"} {
			r := route(method+" /"+name, forward(backend.URL))
			r.CORSPolicy = name
			a.Routes = append(a.Routes, r)
		}
	}
	refused := route("POST /refused", forward(backend.URL), "key")
	refused.CORSPolicy = "shop"
	a.Routes = append(a.Routes, refused)
	custom := route("OPTIONS /own", forward(backend.URL))
	a.Routes = append(a.Routes, custom)
	declare(a, "key", "api-key-inbound", map[string]any{})
	a.CORSPolicies = map[string]project.CORSPolicy{
		"shop": {
			Name: "shop", AllowedOrigins: []string{"https://shop.example", "https://*.Shop.example"},
			AllowedMethods: []string{"GET", "POST"}, AllowedHeaders: []string{"Authorization", "X-Own"},
			ExposeHeaders: []string{"X-A", "X-B"}, MaxAgeSeconds: 60, AllowCredentials: true,
		},
		"open": {
			Name: "open", AllowedOrigins: []string{"*"}, AllowedHeaders: []string{"*"}, ExposeHeaders: []string{"*"},
			AllowCredentials: true,
		},
	}
	return newFixture(t, a)
}

func TestCORSHeadersOfResponses(t *testing.T) {
	h := newCORSFixture(t)
	upstreamHeaders := map[string]string{"Allow-Origin": "https://upstream.example", "Allow-Credentials": "true"}
	for _, test := range []struct {
		method, target, origin string
		want                   map[string]string
	}{
		{"GET", "/none", "https://shop.example", upstreamHeaders},
		{"GET", "/anything-goes", "https://any.example", map[string]string{"Allow-Origin": "*", "Expose-Headers": "*"}},
		{"GET", "/anything-goes", "", map[string]string{}},
		{"GET", "/shop", "https://shop.example", map[string]string{
			"Allow-Origin":      "https://shop.example",
			"Allow-Credentials": "true", "Expose-Headers": "X-A, X-B", "Vary": "Origin",
		}},
		{"GET", "/shop", "https://www.shop.example", map[string]string{
			"Allow-Origin":      "https://www.shop.example",
			"Allow-Credentials": "true", "Expose-Headers": "X-A, X-B", "Vary": "Origin",
		}},
		{"GET", "/shop", "https://other.example", map[string]string{"Vary": "Origin"}},
		{"GET", "/shop", "https://evilshop.example", map[string]string{"Vary": "Origin"}},
		{"GET", "/shop", "http://shop.example", map[string]string{"Vary": "Origin"}},
		{"GET", "/shop", "https://evil.example:1/.shop.example", map[string]string{"Vary": "Origin"}},
		{"GET", "/shop", "null", map[string]string{"Vary": "Origin"}},
		{"GET", "/open", "https://any.example", map[string]string{
			"Allow-Origin":      "https://any.example",
			"Allow-Credentials": "true", "Vary": "Origin",
		}},
		// Refusals have CORS headers, too, so that a page can read them.
		{"POST", "/refused", "https://shop.example", map[string]string{
			"Allow-Origin":      "https://shop.example",
			"Allow-Credentials": "true", "Expose-Headers": "X-A, X-B", "Vary": "Origin",
		}},
		{"DELETE", "/shop", "https://shop.example", map[string]string{
			"Allow-Origin":      "https://shop.example",
			"Allow-Credentials": "true", "Expose-Headers": "X-A, X-B", "Vary": "Origin",
		}},
	} {
		response := h.do(t, test.method, test.target, func(r *http.Request) {
			if test.origin != "" {
				r.Header.Set("Origin", test.origin)
			}
		})
		if diff := cmp.Diff(test.want, corsHeaders(response.Header)); diff != "" {
			t.Errorf("%s %s from %s: CORS headers (-want +got):\n%s", test.method, test.target, test.origin, diff)
		}
	}
}

func TestPreflightResponses(t *testing.T) {
	h := newCORSFixture(t)
	const varies = "Origin, Access-Control-Request-Headers, Access-Control-Request-Method"
	for _, test := range []struct {
		target, origin, method, headers string
		want                            map[string]string
	}{
		{"/none", "https://a.example", "GET", "X-A", map[string]string{}},
		{"/anything-goes", "https://a.example", "PUT", "X-A, Authorization", map[string]string{
			"Allow-Origin": "*", "Allow-Methods": "GET, HEAD, OPTIONS, PUT", "Allow-Headers": "x-a, authorization",
			"Max-Age": "600",
			"Vary":    "Access-Control-Request-Method, Access-Control-Request-Headers",
		}},
		{"/shop", "https://shop.example", "GET", "X-Own,X-Other", map[string]string{
			"Allow-Origin": "https://shop.example", "Allow-Credentials": "true", "Allow-Methods": "GET, POST",
			"Allow-Headers": "x-own", "Max-Age": "60", "Vary": varies,
		}},
		{"/shop", "https://shop.example", "PUT", "", map[string]string{
			"Allow-Origin":      "https://shop.example",
			"Allow-Credentials": "true", "Max-Age": "60", "Vary": varies,
		}},
		{"/shop", "https://other.example", "GET", "X-Own", map[string]string{"Vary": varies}},
		{"/open", "https://a.example", "PUT", "X-A", map[string]string{
			"Allow-Origin": "https://a.example", "Allow-Credentials": "true", "Allow-Methods": "GET, HEAD, OPTIONS, PUT",
			"Allow-Headers": "x-a", "Vary": varies,
		}},
		{"/shop", "https://shop.example", "DELETE", "", map[string]string{}},
	} {
		response := h.do(t, "OPTIONS", test.target, header("Origin", test.origin),
			header("Access-Control-Request-Method", test.method), func(r *http.Request) {
				if test.headers != "" {
					r.Header.Set("Access-Control-Request-Headers", test.headers)
				}
			})
		got := corsHeaders(response.Header)
		vary := strings.Split(got["Vary"], ", ")
		slices.Sort(vary)
		wantVary := strings.Split(test.want["Vary"], ", ")
		slices.Sort(wantVary)
		delete(got, "Vary")
		delete(test.want, "Vary")
		if diff := cmp.Diff(test.want, got) + cmp.Diff(wantVary, vary); diff != "" ||
			response.StatusCode != http.StatusNoContent {
			t.Errorf("preflight of %s from %s for %s: status = %d, want 204; headers (-want +got):\n%s",
				test.target, test.origin, test.method, response.StatusCode, diff)
		}
		if response.Header.Get("X-Request-Id") == "" {
			t.Errorf("preflight of %s: no X-Request-Id, want one", test.target)
		}
	}
}

// TestOPTIONSWithoutOriginListsMethods checks that the gateway responds to OPTIONS without an Origin with the methods
// of the path, unless the path has no route (404) or the project has a route for OPTIONS.
func TestOPTIONSWithoutOriginListsMethods(t *testing.T) {
	h := newCORSFixture(t)
	response := h.do(t, "OPTIONS", "/shop")
	if response.StatusCode != http.StatusNoContent || response.Header.Get("Allow") != "GET, HEAD, OPTIONS, PUT" {
		t.Errorf("OPTIONS /shop: status = %d, Allow = %q, want 204 and GET, HEAD, OPTIONS, PUT",
			response.StatusCode, response.Header.Get("Allow"))
	}
	if response := h.do(t, "OPTIONS", "/nothing"); response.StatusCode != http.StatusNotFound {
		t.Errorf("OPTIONS /nothing: status = %d, want 404", response.StatusCode)
	}
	// If the project has a route for OPTIONS, its handler responds.
	if response := h.do(t, "OPTIONS", "/own"); response.StatusCode != http.StatusOK ||
		response.Header.Get("Access-Control-Allow-Origin") != "https://upstream.example" {
		t.Errorf("OPTIONS /own: status = %d, allowed origin = %q, want 200 and the upstream's origin",
			response.StatusCode, response.Header.Get("Access-Control-Allow-Origin"))
	}
}

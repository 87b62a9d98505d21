package gateway_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/dataplane/gateway"
	"github.com/gatewright/gatewright/shared/format/project"
)

// transform returns the artifact of the route GET and POST /x/{id} with one policy.
func transform(t *testing.T, base, policyType, options string) *project.Artifact {
	t.Helper()
	a := artifact(route("GET /x/{id}", forward(base)), route("POST /x/{id}", forward(base)))
	declare(a, "p", policyType, json.RawMessage(options))
	for i := range a.Routes {
		if strings.HasSuffix(policyType, "-outbound") {
			a.Routes[i].Outbound = []string{"p"}
		} else {
			a.Routes[i].Inbound = []string{"p"}
		}
	}
	if problems := gateway.Verify(t.Context(), a); len(problems) > 0 {
		t.Fatalf("Verify(%s with %s) = %+v, want no problems", policyType, options, problems)
	}
	return a
}

// TestRequestsAreTransformed checks the request that the upstream gets. Each entry of want is in it, and each entry of
// unwanted is not.
func TestRequestsAreTransformed(t *testing.T) {
	client := []func(*http.Request){
		header("X-Tenant", "acme"), header("X-Debug", "1"), header("X-Empty", ""), header("Accept", "text/html"),
	}
	for name, tt := range map[string]struct {
		policy, options, query string
		want, unwanted         []string
	}{
		"a header is replaced": {
			"set-headers-inbound", `{"headers": [{"name": "x-tenant", "value": "other"}]}`, "",
			[]string{"\nX-Tenant: other\n"},
			[]string{"acme"},
		},
		"an existing header is kept": {
			"set-headers-inbound", `{"headers": [{"name": "X-Tenant", "value": "other", "keepExisting": true},
				{"name": "X-New", "value": "n", "keepExisting": true}]}`, "",
			[]string{"\nX-Tenant: acme\n", "\nX-New: n\n"},
			[]string{"other"},
		},
		"values of the request": {
			"set-headers-inbound", `{"headers": [{"name": "X-Id", "value": "${params.id}-${query.q}-${headers.accept}"}]}`,
			"?q=a%20b",
			[]string{"\nX-Id: 7-a b-text/html\n"},
			nil,
		},
		"a value that the request lacks removes what the client has sent": {
			"set-headers-inbound", `{"headers": [{"name": "X-Tenant", "value": "${request.user.sub}"}]}`, "", nil,
			[]string{"X-Tenant"},
		},
		"headers are removed": {
			"remove-headers-inbound", `{"headers": ["x-debug", "X-None"]}`, "",
			[]string{"\nX-Tenant: acme\n"},
			[]string{"X-Debug"},
		},
		"a header is renamed": {
			"rename-headers-inbound", `{"headers": [{"from": "X-Tenant", "to": "X-Debug"}, {"from": "X-None", "to": "Accept"}]}`,
			"",
			[]string{"\nX-Debug: acme\n", "\nAccept: text/html\n"},
			[]string{"X-Tenant", "X-Debug: 1"},
		},
		"parameters are set": {
			"set-query-params-inbound", `{"params": [{"name": "a", "value": "${params.id}&b"}, {"name": "c", "value": "d",
				"keepExisting": true}, {"name": "e f", "value": "${query.none}"}]}`, "?c=1&a=2&x=%20&e+f=3&a=4",
			[]string{"GET /x/7?c=1&x=%20&a=7%26b HTTP/1.1"},
			nil,
		},
		"a first parameter": {
			"set-query-params-inbound", `{"params": [{"name": "a", "value": "b"}]}`, "", []string{"GET /x/7?a=b HTTP/1.1"}, nil,
		},
		"parameters are removed": {
			"remove-query-params-inbound", `{"params": ["a", "b c"]}`, "?a=1&%61=2&b+c&A=3&d",
			[]string{"GET /x/7?A=3&d HTTP/1.1"},
			nil,
		},
		"parameters are renamed": {
			"rename-query-params-inbound", `{"params": [{"from": "a", "to": "b c"}, {"from": "none", "to": "d"}]}`,
			"?a=%31&b+c=2&a&d=4",
			[]string{"GET /x/7?b+c=%31&b+c&d=4 HTTP/1.1"},
			nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			base, received := recorder(t)
			h := newFixture(t, transform(t, base, tt.policy, tt.options))
			if r := h.do(t, http.MethodGet, "/x/7"+tt.query, client...); r.StatusCode != http.StatusOK {
				t.Fatalf("GET /x/7%s with %s: status = %d, want 200", tt.query, tt.options, r.StatusCode)
			}
			head := strings.ReplaceAll(<-received, "\r\n", "\n") + "\n"
			for _, text := range tt.want {
				if !strings.Contains(head, text) {
					t.Errorf("request with %s =\n%s\nwant %q", tt.options, head, text)
				}
			}
			for _, text := range tt.unwanted {
				if strings.Contains(head, text) {
					t.Errorf("request with %s =\n%s\nwant no %q", tt.options, head, text)
				}
			}
		})
	}
}

// TestResponsesAreTransformed checks the response that the client gets.
func TestResponsesAreTransformed(t *testing.T) {
	backend := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("X-Powered-By", "old")
		w.WriteHeader(http.StatusCreated)
		writef(w, "done")
	})
	for name, tt := range map[string]struct {
		policy, options string
		status          int
		header          map[string]string // "" for a missing field
		body            string
	}{
		"a header is set": {
			"set-headers-outbound", `{"headers": [{"name": "cache-control", "value": "no-store"}, {"name": "X-Id",
				"value": "${params.id}"}, {"name": "X-Powered-By", "value": "new", "keepExisting": true}]}`, 201,
			map[string]string{"Cache-Control": "no-store", "X-Id": "7", "X-Powered-By": "old"},
			"done",
		},
		"the cookie of sessions is not set": {
			"set-headers-outbound", `{"headers": [{"name": "Set-Cookie", "value": "__Host-gatewright-session=1; Path=/"}]}`, 201,
			map[string]string{"Set-Cookie": ""},
			"done",
		},
		"a header is removed": {
			"remove-headers-outbound", `{"headers": ["x-powered-by"]}`, 201, map[string]string{"X-Powered-By": ""}, "done",
		},
		"a header is renamed": {
			"rename-headers-outbound", `{"headers": [{"from": "x-powered-by", "to": "X-Server"}]}`, 201,
			map[string]string{"X-Powered-By": "", "X-Server": "old"},
			"done",
		},
		"the status is replaced": {
			"set-status-outbound", `{"status": 418}`, 418, map[string]string{"Content-Type": "text/plain"}, "done",
		},
		"a status without a body": {
			"set-status-outbound", `{"status": 204}`, 204, map[string]string{"Content-Type": "", "Content-Length": ""}, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newFixture(t, transform(t, backend.URL, tt.policy, tt.options))
			r := h.do(t, http.MethodGet, "/x/7")
			if got := body(t, r); r.StatusCode != tt.status || got != tt.body {
				t.Errorf("GET with %s = %d %q, want %d %q", tt.options, r.StatusCode, got, tt.status, tt.body)
			}
			for name, want := range tt.header {
				if got := r.Header.Get(name); got != want {
					t.Errorf("GET with %s: header %s = %q, want %q", tt.options, name, got, want)
				}
			}
		})
	}
}

// TestInvalidHeaderValueIsRefused checks that a value of the request with a line break becomes no header.
func TestInvalidHeaderValueIsRefused(t *testing.T) {
	for _, policyType := range []string{"set-headers-inbound", "set-headers-outbound"} {
		base, received := recorder(t)
		h := newFixture(t, transform(t, base, policyType, `{"headers": [{"name": "X-Id", "value": "${query.q}"}]}`))
		r := h.do(t, http.MethodGet, "/x/7?q=sesame%0d%0aX-Evil:1")
		if p := problemOf(t, r); p.Status != http.StatusBadRequest || r.Header.Get("X-Evil") != "" ||
			strings.Contains(p.Detail, "sesame") {
			t.Errorf("GET with a line break in %s = %d %q with %v, want 400 without the value", policyType, p.Status, p.Detail,
				r.Header)
		}
		select {
		case got := <-received:
			t.Errorf("GET with a line break in %s: the upstream got %s, want no request", policyType, got)
		default:
		}
	}
}

// TestRequestSizeIsLimited checks bodies at the limit and above it, with and without a Content-Length.
func TestRequestSizeIsLimited(t *testing.T) {
	backend := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
	})
	h := newFixture(t, transform(t, backend.URL, "request-size-limit-inbound", `{"maxBytes": 5}`))
	for _, chunked := range []bool{false, true} {
		for text, want := range map[string]int{"": 200, "12345": 200, "123456": 413, strings.Repeat("x", 1<<20): 413} {
			r := h.do(t, http.MethodPost, "/x/7", func(r *http.Request) {
				r.Body, r.ContentLength = io.NopCloser(strings.NewReader(text)), int64(len(text))
				if chunked {
					r.ContentLength = -1
				}
			})
			if r.StatusCode != want {
				t.Errorf("POST of %d bytes, chunked: %t: status = %d, want %d", len(text), chunked, r.StatusCode, want)
			}
		}
	}
}

// TestAddressesAreRestricted checks which clients are admitted.
func TestAddressesAreRestricted(t *testing.T) {
	backend := serve(t, func(http.ResponseWriter, *http.Request) {})
	for name, tt := range map[string]struct {
		options, client string
		want            int
	}{
		"allowed":                  {`{"allow": ["192.0.2.0/24"]}`, "192.0.2.7", 200},
		"not allowed":              {`{"allow": ["192.0.2.0/24"]}`, "192.0.3.7", 403},
		"denied":                   {`{"deny": ["192.0.2.7"]}`, "192.0.2.7", 403},
		"not denied":               {`{"deny": ["192.0.2.7"]}`, "192.0.2.8", 200},
		"denied and allowed":       {`{"allow": ["192.0.2.0/24"], "deny": ["192.0.2.7/32"]}`, "192.0.2.7", 403},
		"several in one text":      {`{"allow": ["192.0.2.1, 2001:db8::/32"]}`, "2001:db8::1", 200},
		"mapped client":            {`{"allow": ["192.0.2.7"]}`, "::ffff:192.0.2.7", 200},
		"mapped range":             {`{"deny": ["::ffff:192.0.2.0/120"]}`, "192.0.2.7", 403},
		"all of IPv4 is not IPv6":  {`{"allow": ["0.0.0.0/0"]}`, "2001:db8::1", 403},
		"all of IPv6 has no IPv4":  {`{"allow": ["::/0"]}`, "192.0.2.7", 403},
		"the longest prefix":       {`{"allow": ["2001:db8::1/128"]}`, "2001:db8::1", 200},
		"next to an IPv6 address":  {`{"allow": ["2001:db8::1"]}`, "2001:db8::2", 403},
		"the whole of both worlds": {`{"deny": ["0.0.0.0/0", "::/0"]}`, "203.0.113.1", 403},
	} {
		h := newFixture(t, transform(t, backend.URL, "ip-restriction-inbound", tt.options), trustLoopback)
		r := h.do(t, http.MethodGet, "/x/7", header("X-Forwarded-For", tt.client))
		if r.StatusCode != tt.want {
			t.Errorf("%s: GET from %s with %s: status = %d, want %d", name, tt.client, tt.options, r.StatusCode, tt.want)
		}
	}
}

// TestPolicyWithoutHandler builds a project whose policy has its options directly. A problem with an option is at its
// place in the file.
func TestPolicyWithoutHandler(t *testing.T) {
	files := func(options string) project.Files {
		return project.Files{
			"config/routes.oas.json": []byte(`{"openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "paths": {
				"/x": {"get": {"responses": {"200": {"description": "d"}}, "x-gateway-route": {
				"policies": {"outbound": ["p"]}, "handler": {"export": "urlForwardHandler",
				"module": "$import(@gatewright/runtime)", "options": {"baseUrl": "https://up.test"}}}}}}}`),
			"config/policies.json": []byte(`{"policies": [{"name": "p", "policyType": "set-status-outbound", "options": ` +
				options + `}]}`),
		}
	}
	if a := built(t, files(`{"status": 418}`)); len(gateway.Verify(t.Context(), a)) > 0 {
		t.Errorf("Verify(policy without a handler) = %+v, want no problems", gateway.Verify(t.Context(), a))
	}
	for options, want := range map[string]string{
		`{"status": 99}`: "/policies/0/options/status", `{}`: "/policies/0/options/status",
		`{"status": 200, "state": 1}`: "/policies/0/options/state",
	} {
		_, result := tryBuild(t, files(options))
		if len(result.Errors) != 1 || result.Errors[0].Path != want {
			t.Errorf("build with the options %s: errors = %+v, want one at %s", options, result.Errors, want)
		}
	}
}
